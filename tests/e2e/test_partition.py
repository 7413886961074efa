"""Partition: each reasoning item that is due in a request has one outcome, and none has two."""

import random

import aiohttp
import pytest
from reasoning_replay.strict_api import DIALECTS, SCENARIOS, Script, StrictApi
from reasoning_replay.web.errors import MARK
from reasoning_replay.wires import WIRES

from tests.e2e.proxies import proxied
from tests.strict_api.scripted import MODELS, TOOL

QUESTIONS = 3
OTHER_MODELS = {"responses": "gpt-6", "chat": "glm-5", "messages": "claude-opus-4-6"}
SENT = ("injected", "present", "lacking")


def counts_in(mark: str) -> dict[str, int]:
    """Return the counts in a header."""
    pairs = (member.partition("=") for member in mark.split(", "))
    return {name: int(count) for name, _, count in pairs if count.isdecimal()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scenario", ["tour", "interleaved"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_outcomes_of_a_request_add_up_to_what_is_due(
    dialect: str, scenario: str, seed: int
) -> None:
    """
    For a client that drops some reasoning, replays other, and may change its model.

    What is due is what an API finds that knows what it emitted.
    """
    wire, name = WIRES[dialect], f"{dialect} {scenario} {seed}"
    choose = random.Random(name)  # noqa: S311 (nothing secret)
    api = StrictApi(DIALECTS[dialect](Script(SCENARIOS[scenario], is_marked=True)))
    seen = 0
    async with (
        api,
        proxied(api) as base_url,
        aiohttp.ClientSession(headers={"Authorization": "Bearer sk-a"}) as session,
    ):
        model, history = MODELS[dialect], []
        for _ in range(QUESTIONS):
            history.append(wire.says("Where does it rain?"))
            while True:
                body = wire.request(model, history, TOOL)
                path = wire.path_of(model)
                async with session.post(base_url + path, json=body) as response:
                    answer = await response.json()
                mark = response.headers.get(MARK, "")
                if response.status != 200:
                    return  # the API demands what the proxy may not send
                told = counts_in(mark)
                judged = api.exchanges[-1].judgement
                assert judged is not None
                assert sum(told.get(what, 0) for what in SENT) == len(judged.findings)
                there = sum(one.state == "whole" for one in judged.findings)
                assert told.get("injected", 0) + told.get("present", 0) == there
                reasons = {*told} - {*SENT, "degraded", "phase", "repaired"}
                assert sum(told[reason] for reason in reasons) == told.get("lacking", 0)
                seen += len(judged.findings)
                reply = wire.read(answer)
                history += choose.choice([reply.said, reply.kept])
                if not reply.calls:
                    break
                history += wire.results(reply.calls, "7 degrees")
            if choose.random() < 0.3:
                model = OTHER_MODELS.get(dialect, model)
    assert seen
