"""Fetched responses: `GET /v1/responses/{id}` is captured for the request that began it."""

import pytest

from tests.web.wire import ASK, CALL, RESULT, RS, as_json, error, events, response, stream, whole
from tests.web.world import World, world

RID = "resp_0c1d2e3f4a5b6071"
BARE_RS = {key: value for key, value in RS.items() if key != "encrypted_content"}
QUEUED = whole(as_json(response(rid=RID, status="queued")))
PLAIN = whole(as_json(response(RS, CALL, rid=RID)))
STREAMED = stream(events(RS, CALL, rid=RID))


async def restored(w: World, **more: object) -> object:
    """Send the history without its reasoning; return the input that upstream received."""
    w.upstream.answers(whole(b"{}"))
    await w.turn(ASK, CALL, RESULT, **more)
    return w.sent()["input"]


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        pytest.param(f"/v1/responses/{RID}", PLAIN, id="plain"),
        pytest.param(f"/v1/responses/{RID}?stream=true&starting_after=0", STREAMED, id="streamed"),
    ],
)
async def test_a_background_response_is_captured_when_it_is_fetched(
    target: str, answer: bytes
) -> None:
    """A fetched background response is captured with the history of its request."""
    async with world() as w:
        w.upstream.answers(QUEUED, QUEUED, answer)
        await w.turn(ASK, background=True)
        await w.get(f"/v1/responses/{RID}")
        got = await w.get(target)
        assert (got.status, got.mark) == (200, None)
        assert await restored(w) == [ASK, RS, CALL, RESULT]


async def test_reasoning_without_a_blob_is_injected_by_its_id() -> None:
    """Reasoning without a blob is injected by id if upstream stores items."""
    async with world() as w:
        w.upstream.answers(QUEUED, whole(as_json(response(BARE_RS, CALL, rid=RID))))
        await w.turn(ASK, background=True)
        await w.get(f"/v1/responses/{RID}")
        assert await restored(w) == [ASK, BARE_RS, CALL, RESULT]


async def test_a_response_of_an_unknown_request_is_captured() -> None:
    """A fetched response of an unknown request is found by the ids of its items."""
    async with world() as w:
        w.upstream.answers(PLAIN)
        await w.get(f"/v1/responses/{RID}")
        assert await restored(w) == [ASK, RS, CALL, RESULT]


async def test_a_fetch_is_forwarded_untouched() -> None:
    """The query of a fetch is forwarded unchanged."""
    target = f"/v1/responses/{RID}?include[]=message.output_text.logprobs"
    async with world() as w:
        w.upstream.answers(PLAIN)
        await w.get(target)
        assert w.upstream.received[-1].target == target


async def test_a_fetch_that_is_refused_teaches_nothing() -> None:
    """A refused fetch is not captured."""
    async with world() as w:
        w.upstream.answers(error("Response not found.", None, "404 Not Found"))
        assert (await w.get(f"/v1/responses/{RID}")).status == 404
        assert w.counted("captures_total", result="refused") == 1


async def test_another_tenant_cannot_fetch_into_a_conversation() -> None:
    """A response that one tenant fetched is not injected for another."""
    async with world() as w:
        w.upstream.answers(PLAIN, whole(b"{}"))
        await w.get(f"/v1/responses/{RID}")
        await w.post({"model": "gpt-5.4", "input": [ASK, CALL]}, "Authorization: Bearer sk-b")
        assert w.sent()["input"] == [ASK, CALL]
