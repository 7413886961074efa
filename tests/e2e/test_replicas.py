"""Replicas: two proxy processes on one store serve one conversation, and any of them may die."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.agent import Agent, Keeps, Way
from tests.e2e.proxies import ProxyProcess
from tests.e2e.witness import assert_nothing_invented, assert_restored
from tests.fast_lane import first
from tests.patience import SOON_S
from tests.redis_server import RedisServer
from tests.strict import StrictResponses

QUESTIONS = ("Where does it rain today?", "And tomorrow?", "And on Sunday?")


@contextlib.asynccontextmanager
async def replicas(
    api: StrictResponses, store_url: str, **more: str
) -> AsyncIterator[tuple[ProxyProcess, ProxyProcess]]:
    """Run two proxies that share an upstream and a store, and nothing else."""
    async with (
        api,
        ProxyProcess(api.base_url, store_url, **more) as one,
        ProxyProcess(api.base_url, store_url, **more) as other,
    ):
        yield one, other


@pytest.mark.parametrize(
    ("variant", "keeps", "way", "kind"),
    first(
        1,
        [
            ("call_zero", "no-ids", "sync-stream", "redis"),
            ("chain", "no-ids", "async-stream", "cluster"),
            ("two_reasoning", "ids", "sync", "sqlite"),
            ("chain", "ids", "async-stream", "redis"),
            ("parallel", "no-ids", "sync", "redis"),
            ("two_reasoning", "no-ids", "async", "redis"),
            ("parallel", "no-ids", "async", "sqlite"),
        ],
    ),
)
async def test_replicas_take_turns_and_one_is_killed(  # noqa: PLR0917 - as the table has columns
    variant: str,
    keeps: Keeps,
    way: Way,
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """Each turn goes to the replica that did not see the last one; a SIGKILL loses nothing."""
    api = StrictResponses(variant, "strict")
    url = f"sqlite://{tmp_path}/replay.db"
    if kind != "sqlite":
        url = request.getfixturevalue(f"shared_{kind}").url
    async with replicas(api, url) as pair, Agent("", way, keeps) as agent:
        turn = itertools.cycle(pair)
        for question in QUESTIONS:
            agent.say(question)
            while await agent.step(next(turn).base_url):
                pass
            if question == QUESTIONS[0]:
                await pair[0].kill()
                await pair[0].start()

        assert_restored(api, agent)
        assert [*pair[0].complaints, *pair[1].complaints] == []


async def both_say_ok(pair: Sequence[ProxyProcess]) -> None:
    """Wait until both replicas report the store as ok, about a second after its failure."""
    async with asyncio.timeout(SOON_S):
        while [(await one.readiness())["store"] for one in pair] != ["ok", "ok"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_redis_is_killed_and_returns_empty(own_redis: RedisServer) -> None:
    """
    Requests succeed while Redis is down, and after it is back without data.

    Reasoning that was captured since it went away is injected: what it did not take then is saved
    after its return.
    """
    api = StrictResponses("chain", "normal")
    async with (
        replicas(api, own_redis.url, local_max_bytes="0") as pair,
        Agent("", keeps="no-ids") as agent,
        Agent("", keeps="no-ids") as another,
    ):
        turn = itertools.cycle(pair)

        async def converse(question: str, agent: Agent = agent) -> list[str]:
            began = len(agent.steps)
            agent.say(question)
            while await agent.step(next(turn).base_url):
                pass
            return [step.mark for step in agent.steps[began:]]

        assert await converse("With Redis?") == ["injected=0", *["injected=1"] * 2, "injected=2"]

        own_redis.kill()
        marks = await converse("Without it?")
        assert marks == ["injected=0, asked=store_failed"] * 4
        assert [await one.readiness() for one in pair] == [
            {"status": "ready", "store": "degraded"}
        ] * 2

        own_redis.start()
        await both_say_ok(pair)
        await converse("Is it there?", another)  # the first save on each is an unawaited probe
        marks = await converse("And with an empty one?")
        assert [mark.partition(",")[0] for mark in marks] == [
            "injected=3",
            "injected=4",
            "injected=4",
            "injected=5",
        ]
        assert_nothing_invented(api, agent)
        # Each replica logs one failure, and another only after a success.
        assert [one.complaints for one in pair] == [["store_failed"]] * 2
