"""Refusal memory: filled only after the healed request was accepted, for one tenant only."""

from unittest import mock

import pytest
from reasoning_replay.adapters.resilience.safe_store import SafeStore

from tests.web.wire import (
    ASK,
    CALL,
    PAIRING,
    RESULT,
    RS,
    RS_2,
    as_json,
    error,
    response,
    whole,
)
from tests.web.world import MODEL, World, world

BODY = as_json({"model": MODEL, "input": [ASK, CALL, RESULT]})
WHOLE = [ASK, RS, CALL, RESULT]
BY_VALUE = [ASK, {name: value for name, value in CALL.items() if name != "id"}, RESULT]
NAMED = error(f"The encrypted content for item {RS['id']} could not be verified.", None)
UNNAMED = error("reasoning `encrypted_content` was not issued to this caller", None)
OK = whole(b"{}")
CALL_2 = CALL | {"id": "fc_9f8e7d6c5b4a39281706f5e5", "call_id": "call_Qp7nW2xK9bLs4RtY"}
INCLUDED = ["reasoning.encrypted_content"]


async def refused(w: World, *answers: bytes) -> list[object]:
    """Let a captured item be refused; return the input of the next request."""
    w.upstream.answers(whole(as_json(response(RS, CALL))), *answers, OK)
    await w.turn(ASK, include=INCLUDED)
    await w.post(BODY)
    await w.post(BODY)
    found: list[object] = w.sent()["input"]
    return found


@pytest.mark.parametrize("refusal", [NAMED, UNNAMED], ids=["named", "not-named"])
async def test_refused_reasoning_is_not_injected_again(refusal: bytes) -> None:
    """Refused reasoning is left out of the next request, which needs no second attempt."""
    async with world() as w:
        assert await refused(w, refusal, OK) == BY_VALUE
        assert len(w.upstream.received) == 4


async def test_what_was_named_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that the refusal names is deleted from the store, for every replica."""
    monkeypatch.setattr("reasoning_replay.core.dialects.refusal_memory.REMEMBERED_S", 0.0)
    async with world() as w:
        assert await refused(w, NAMED, OK) == BY_VALUE


async def test_nothing_is_learned_before_it_is_proven() -> None:
    """If the second attempt is refused as well, the item stays."""
    async with world() as w:
        assert await refused(w, NAMED, error("Something else.")) == WHOLE


async def test_what_one_tenant_was_refused_another_is_not() -> None:
    """A refusal for one tenant changes no request of another, even with the same bytes."""
    replayed = as_json({"model": MODEL, "input": WHOLE})
    async with world() as w:
        await refused(w, UNNAMED, OK)
        w.upstream.answers(OK)
        await w.post(replayed, "Authorization: Bearer sk-b")
        assert w.upstream.received[-1].body == replayed


async def test_an_answer_that_failed_proves_nothing() -> None:
    """A healed request whose response failed proves nothing."""
    failed = as_json(response(rid="resp_2222222222", status="failed"))
    async with world() as w:
        assert await refused(w, NAMED, whole(failed)) == WHOLE


@pytest.mark.parametrize("has_failed", [True, False])
async def test_what_a_store_lacks_after_a_failure_teaches_nothing(*, has_failed: bool) -> None:
    """It may come late. Otherwise, the next request is sent as it was cured."""
    with mock.patch.object(SafeStore, "has_failed_lately", has_failed):
        async with world() as w:
            ok = whole(as_json(response(RS_2, CALL_2, rid="resp_2222222222")))
            w.upstream.answers(error(PAIRING), ok, OK)
            await w.post(BODY)
            more = [ASK, CALL, RESULT, CALL_2, RESULT | {"call_id": CALL_2["call_id"]}]
            await w.turn(*more)
            assert (CALL in w.sent()["input"]) == has_failed
