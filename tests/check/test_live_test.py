"""The live test runs two turns through a proxy in this process and judges the result."""

from typing import Any

import pytest
from reasoning_replay.check import check, live_test
from reasoning_replay.check.live_test import of_proof
from reasoning_replay.check.upstream import NO_KEY, ApiKey
from reasoning_replay.settings.model import Settings

from tests.check.reports import KEY, found, report
from tests.standin import Quirks, Refusal, StandIn

MINE = ApiKey("OPENAI_API_KEY", ("Authorization", f"Bearer {KEY}"))
MODEL = "gpt-5.4"


async def proven(
    settings: Settings, standin: StandIn, model: str = MODEL, **changed: Any
) -> list[str]:
    """Return the findings of a live test against a stand-in."""
    update = {"upstream_url": standin.base_url, "store_budget_ms": 5000, **changed}
    return await found(of_proof(settings.model_copy(update=update), MINE, model))


@pytest.mark.parametrize("variant", ["one_call", "message", "parallel"])
async def test_injected_reasoning_is_accepted(settings: Settings, variant: Any) -> None:
    """A strict upstream accepts the injected reasoning, with or without a tool call."""
    async with StandIn(variant, "strict") as standin:
        first, second = await proven(settings, standin)

    assert first == f"ok: {MODEL} emitted 1 reasoning item(s), 1 of them encrypted"
    assert second == "ok: the second turn was accepted with 1 injected item(s)"


async def test_settings_that_would_be_in_the_way_are_not(settings: Settings) -> None:
    """The live test uses the memory store, free ports and mode on, whatever the settings are."""
    async with StandIn() as standin:
        lines = await proven(
            settings,
            standin,
            mode="off",
            store_url="redis://:hunter2@nowhere",
            reuse_port=True,
            listen="203.0.113.1:1",
            scope_from="header:x-tenant",
        )
    assert [line.partition(":")[0] for line in lines] == ["ok", "ok"]


async def test_a_model_without_reasoning_proves_nothing(settings: Settings) -> None:
    """A model without reasoning gives a warning, not a problem of the upstream."""
    async with StandIn() as standin:
        first, second = await proven(settings, standin, "gpt-4.1")
    assert first.startswith("warning: gpt-4.1 emitted no reasoning")
    assert second == "ok: the second turn was accepted as well"


async def test_a_refusal_is_told_by_its_code_alone(settings: Settings) -> None:
    """A refusal is reported by its code only, since the upstream's message may quote the key."""
    async with StandIn() as standin:
        words = f"Incorrect API key provided: {KEY}"
        standin.refuse_next(Refusal(401, words, code="invalid_api_key"))
        (line,) = await proven(settings, standin)
    assert line.startswith("problem: the first turn was refused with 401, invalid_api_key")


async def test_a_second_turn_that_is_refused_is_a_problem(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused second turn is a problem without healing and a warning with it."""
    async with StandIn() as standin:
        went_on = live_test._went_on

        def moved(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
            standin.behaviour.quirks = Quirks(account="b")
            return went_on(output)

        monkeypatch.setattr(live_test, "_went_on", moved)
        _, line = await proven(settings, standin, heal="off")
        assert line.startswith("problem: the second turn was refused with 40")
        standin.behaviour.quirks = Quirks()
        _, line = await proven(settings, standin)
    assert line.startswith("warning: the second turn was accepted only after it was healed (")


async def test_without_a_key_nothing_is_proven(settings: Settings) -> None:
    """Without a key there is no tenant to capture for, so the live test is a problem."""
    assert await found(of_proof(settings, NO_KEY, MODEL)) == [
        "problem: no key, so no turn was run; see the upstream line above"
    ]


async def test_a_server_that_asks_for_no_key_is_proven_without(settings: Settings) -> None:
    """A server that needs no key is tested without one; its reasoning is plain text."""
    aloud = Quirks(keeps_nothing=True, thinks_aloud=True, takes_blobs=False)
    async with StandIn(quirks=aloud) as standin:
        update = {"upstream_url": standin.base_url, "upstream_profile": "vllm"}
        lines = await found(of_proof(settings.model_copy(update=update), NO_KEY, MODEL))
    assert lines == [
        f"ok: {MODEL} emitted 1 reasoning item(s), 0 of them encrypted",
        "ok: the second turn was accepted with 1 injected item(s)",
    ]


async def test_an_upstream_that_does_not_answer_is_a_problem(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn without a response is a problem after TURN_TIMEOUT_S."""
    monkeypatch.setattr(live_test, "TURN_TIMEOUT_S", 0.2)
    lines = await found(of_proof(settings, MINE, MODEL))
    assert lines == ["problem: no response within 0.2 s"]


async def test_it_is_a_part_of_the_check_when_asked_for(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --prove` runs the live test with the caller's key; its result sets the exit code."""
    async with StandIn("one_call", "strict") as standin:
        here = settings.model_copy(update={"upstream_url": standin.base_url})
        assert await check(here, {"OPENAI_API_KEY": KEY}, MODEL) == 0
        assert [line[:2] for line in report(capsys, "proof")] == ["ok", "ok"]
        assert await check(here, {}, MODEL) == 1
    assert report(capsys, "proof")[0].startswith("problem: ")
