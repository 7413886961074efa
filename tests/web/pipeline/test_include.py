"""The `include` edit: encrypted reasoning is requested only if replay will need it."""

import json

import pytest

from tests.web.wire import ASK, CALL, RESULT, RS, as_json, error, response, whole
from tests.web.world import world

INCLUDE = "reasoning.encrypted_content"
REFUSAL = error("Encrypted content is not supported with this model.", "include")
OK = whole(b"{}")


@pytest.mark.parametrize(("blob", "is_added"), [("gAAAA-1", False), (None, True)])
async def test_an_upstream_that_keeps_nothing_is_known_by_its_answers(
    blob: str | None, *, is_added: bool
) -> None:
    """A response with `store: false` and a missing blob makes the next request ask for blobs."""
    part = RS | {"encrypted_content": blob}
    async with world() as w:
        w.upstream.answers(whole(as_json(response(part, CALL, store=False))), OK)
        await w.turn(ASK)
        await w.turn(ASK, CALL, RESULT)
        assert ("include" in w.sent()) is is_added


async def test_a_model_that_refuses_it_is_asked_once_more_without() -> None:
    """The second attempt succeeds, is reported, and differs only in its body and length."""
    body = as_json({"model": "mystery-1", "input": "x", "store": False})
    async with world() as w:
        w.upstream.answers(REFUSAL, OK)
        got = await w.post(body, "Authorization: Bearer sk-a", "X-Odd: 1", "x-odd2: 2")
        assert (got.status, got.body) == (200, b"{}")
        assert got.mark == "injected=0, healed=include"
        assert [json.loads(received.body).get("include") for received in w.upstream.received] == [
            [INCLUDE],
            None,
        ]
        first, again = w.upstream.received
        assert (again.line, again.body) == (first.line, body)
        assert [name for name, _ in again.headers] == [name for name, _ in first.headers]
        assert again.values("content-length") == [str(len(body))]
        assert w.counted("heals_total", diagnosis="include", result="cured") == 1


async def test_a_model_that_refused_it_is_remembered() -> None:
    """A refusal is remembered for this tenant and this model only."""
    other = "Authorization: Bearer sk-b"
    async with world() as w:
        w.upstream.answers(REFUSAL, OK)
        w.upstream.otherwise = OK
        await w.turn(ASK, model="mystery-1", store=False)
        await w.turn(ASK, model="mystery-1", store=False)
        await w.turn(ASK, model="mystery-2", store=False)
        await w.post({"model": "mystery-1", "input": [ASK], "store": False}, other)
        asked_for = ["include" in w.sent(n) for n in range(5)]
        assert asked_for == [True, False, False, True, True]
