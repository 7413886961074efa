"""Unknown words: a refusal that no table knows never becomes the client's because of the proxy."""

import pytest

from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import MODEL, World, world

INCLUDED = ["reasoning.encrypted_content"]
BODY = as_json({"model": MODEL, "input": [ASK, CALL, RESULT], "include": INCLUDED})
KEPT = as_json({"model": MODEL, "input": [ASK, RS, CALL, RESULT], "include": INCLUDED})
OK = whole(b"{}")


def refusal(status: str = "400 Bad Request", **error: object) -> bytes:
    """Return a refusal in another vendor's shape."""
    return whole(as_json({"fault": error or {"reason": "element 3 rejected"}}), status=status)


async def taught(w: World) -> None:
    """Let the proxy capture something to inject."""
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    await w.turn(ASK, include=INCLUDED)
    w.upstream.received.clear()


@pytest.mark.parametrize("status", ["400 Bad", "404 Not Found", "409 Conflict", "422 Bad"])
async def test_what_was_injected_is_taken_back(status: str) -> None:
    """The client's own bytes are accepted, as they would be without the proxy."""
    async with world() as w:
        await taught(w)
        w.upstream.decides = lambda got: OK if got.body == BODY else refusal(status)
        got = await w.post(BODY)
        assert (got.status, "healed=form" in (got.mark or "")) == (200, True)
        assert len(w.upstream.received) <= 3


@pytest.mark.parametrize("body", [BODY, KEPT], ids=["dropped", "kept"])
async def test_no_more_than_three_requests_are_sent(body: bytes) -> None:
    """If all are refused, the client gets the refusal of its own bytes."""
    async with world() as w:
        await taught(w)
        own = refusal(reason="own")
        w.upstream.decides = lambda got: own if got.body == body else refusal()
        got = await w.post(body)
        assert (got.status, got.body) == (400, as_json({"fault": {"reason": "own"}}))
        assert len(w.upstream.received) <= 3
        assert body in [one.body for one in w.upstream.received]


async def test_a_conversation_pays_for_one_refusal() -> None:
    """What is older is not injected again, at any replica; newer reasoning is, until refused."""
    async with world() as w:
        await taught(w)
        old = RS["encrypted_content"].encode()
        newer = {**RS, "id": "rs_0c1d2e3f4a5b60718293a4b6", "encrypted_content": "gAAAAB-new=="}
        call = {**CALL, "id": "fc_0c1d2e3f4a5b607182", "call_id": "call_Yk3mQ9xT7bLw2RsW"}
        more = [ASK, CALL, RESULT, call, {**RESULT, "call_id": call["call_id"]}]
        said = whole(as_json(response(newer, call, rid="resp_00000000000000000002")))
        w.upstream.decides = lambda got: refusal() if old in got.body else said
        assert (await w.post(BODY)).status == 200
        w.upstream.received.clear()
        got = await w.turn(*more, include=INCLUDED)
        assert len(w.upstream.received) == 1
        assert got.mark == "injected=1, lacking=1, refused=1, degraded=1"


@pytest.mark.parametrize(
    "message", ["Your quota is used up.", "Context length exceeded.", "Unsupported parameter: x"]
)
async def test_what_is_about_something_else_is_not_retried(message: str) -> None:
    """No other form of the history helps."""
    async with world() as w:
        await taught(w)
        w.upstream.otherwise = whole(as_json({"error": {"message": message}}), status="400 Bad")
        assert (await w.post(BODY)).status == 400
        assert len(w.upstream.received) == 1
