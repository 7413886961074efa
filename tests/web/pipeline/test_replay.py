"""Replay: reasoning captured from a response is injected into the next request, at its place."""

import pytest

from tests.web.wire import (
    ASK,
    CALL,
    RESULT,
    RS,
    as_json,
    events,
    head,
    response,
    stream,
    whole,
)
from tests.web.world import World, world

IN_ONE_PIECE = whole(as_json(response(RS, CALL)))
ANSWERS = [
    pytest.param(stream([piece[n : n + 7] for piece in events(RS, CALL) for n in range(0, len(piece), 7)]), id="streamed-in-sevens"),  # noqa: E501
    pytest.param(head("Content-Type: application/json", "Transfer-Encoding: chunked") + b"2\r\n{ \r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(as_json(response(RS, CALL))) - 1, as_json(response(RS, CALL))[1:]), id="json-in-chunks"),  # noqa: E501
]  # fmt: skip


async def taught(w: World, answer: bytes = IN_ONE_PIECE, **more: object) -> None:
    """Let the proxy capture one response."""
    w.upstream.answers(answer)
    w.upstream.otherwise = whole(b"{}")
    await w.turn(ASK, **more)


@pytest.mark.parametrize("answer", ANSWERS)
async def test_what_an_answer_brought_is_in_the_next_request(answer: bytes) -> None:
    """Reasoning is injected before the call that it led to, whatever the response's form."""
    async with world() as w:
        await taught(w, answer)
        await w.turn(ASK, CALL, RESULT, include=["reasoning.encrypted_content"])
        assert w.sent() == {
            "model": "gpt-5.4",
            "input": [ASK, RS, CALL, RESULT],
            "include": ["reasoning.encrypted_content"],
        }


async def test_ids_travel_as_the_profile_says() -> None:
    """Azure gets reasoning with its id; OpenAI only if the item after it has one."""
    bare = {key: value for key, value in CALL.items() if key != "id"}
    rs = {key: value for key, value in RS.items() if key != "id"}
    for profile, want in (("azure", RS), ("openai", rs)):
        async with world(upstream_profile=profile) as w:
            await taught(w, store=False)
            await w.turn(ASK, bare, RESULT, store=False)
            assert w.sent()["input"] == [ASK, want, bare, RESULT]


async def test_a_client_that_replays_its_own_reasoning_is_left_alone() -> None:
    """A request that lacks neither reasoning nor `include` is forwarded byte for byte."""
    body = as_json(
        {"model": "gpt-5.4", "input": [ASK, RS, CALL, RESULT], "include": ["reasoning.encrypted_content"]}  # noqa: E501
    )  # fmt: skip
    async with world() as w:
        await taught(w)
        await w.post(body)
        assert w.upstream.received[-1].body == body


@pytest.mark.parametrize(
    "state", [{"previous_response_id": "resp_0c1d2e3f4a5b6071"}, {"conversation": "conv_1"}]
)
async def test_a_stateful_request_is_never_changed(state: dict[str, str]) -> None:
    """A request whose history upstream holds is not changed, not even by `include`."""
    body = as_json({"model": "gpt-5.4", "input": [CALL, RESULT], **state})
    async with world() as w:
        await taught(w)
        got = await w.post(body)
        assert w.upstream.received[-1].body == body
        assert got.mark == "injected=0, asked=stateful"


async def test_the_answer_to_a_stateful_request_is_captured() -> None:
    """A client can continue a stateful conversation without state."""
    async with world() as w:
        await taught(w, previous_response_id="resp_before")
        await w.turn(ASK, CALL, RESULT)
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT]


async def test_without_a_credential_nothing_is_kept_and_nothing_injected() -> None:
    """Without a credential nothing is saved or injected: strangers would share a scope."""
    body = as_json({"model": "gpt-5.4", "input": [ASK, CALL, RESULT]})
    async with world() as w:
        w.upstream.answers(IN_ONE_PIECE, whole(b"{}"), whole(b"{}"))
        await w.post(as_json({"model": "gpt-5.4", "input": [ASK]}), "X-Nobody: 1")
        got = await w.post(body, "X-Nobody: 1")
        assert (w.upstream.received[-1].body, got.mark) == (body, "injected=0, asked=no_scope")
        await w.post(body)
        assert w.sent()["input"] == [ASK, CALL, RESULT]


@pytest.mark.parametrize(
    "headers",
    [
        ["Authorization: Bearer sk-b"],
        ["Authorization: Bearer sk-a", "OpenAI-Organization: org-2"],
        ["Authorization: Bearer sk-a", "OpenAI-Project: proj-2"],
        ["api-key: sk-a"],
    ],
)
async def test_another_tenant_sees_nothing(headers: list[str]) -> None:
    """Another credential, organisation or project is another tenant."""
    async with world() as w:
        await taught(w)
        got = await w.post({"model": "gpt-5.4", "input": [ASK, CALL, RESULT]}, *headers)
        assert w.sent()["input"] == [ASK, CALL, RESULT]
        assert got.mark == "injected=0, lacking=1, missed=1"
