"""The stand-in on its socket: shapes that the SDK hides, faults, and what is recorded."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI

from tests.standin import StandIn
from tests.standin.chat import FAMILIES, ApiRefusal, ChatStandIn, FamilyName
from tests.standin.chat.joining import chunks_of, join

ASK = {"role": "user", "content": "Rain?"}
TOOL = {"type": "function", "function": {"name": "look"}}


async def raw(standin: ChatStandIn, body: Any, key: str = "sk-one") -> bytes:
    """Send one request over a socket; return the whole response, as it was written."""
    _, _, where = standin.base_url.partition("://")
    place, _, path = where.partition("/")
    host, _, port = place.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (
        f"POST /{path}/chat/completions HTTP/1.1",
        f"Host: {place}",
        f"Authorization: Bearer {key}",
        f"Content-Length: {len(sent)}",
        "Connection: close",
        "\r\n",
    )
    writer.write("\r\n".join(lines).encode() + sent)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


def request(standin: ChatStandIn, *messages: Any, **more: Any) -> dict[str, Any]:
    """Return the body of a request."""
    history = list(messages) or [ASK]
    return {"model": standin.family.model, "messages": history, "tools": [TOOL], **more}


def status_and_json(response: bytes) -> tuple[int, Any]:
    """Split a response; its body may start with blank lines."""
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def test_blank_lines_before_json_and_comments_before_events() -> None:
    """As OpenRouter keeps connections open while a model thinks."""
    async with ChatStandIn("openrouter") as standin:
        answer = await raw(standin, request(standin))
        stream = await raw(standin, request(standin, stream=True))
    assert b"\r\n\r\n\n         \n\n         \n{" in answer
    assert status_and_json(answer)[0] == 200
    assert b": OPENROUTER PROCESSING\n\n" in stream
    assert b"text/event-stream" in stream


async def test_an_error_of_google_is_an_array() -> None:
    """The body of a refusal is an array of one error."""
    async with ChatStandIn("gemini") as standin:
        _, answer = status_and_json(await raw(standin, request(standin)))
        message = answer["choices"][0]["message"]
        del message["tool_calls"][0]["extra_content"]
        result = {"role": "tool", "tool_call_id": "x", "content": "7"}
        status, body = status_and_json(await raw(standin, request(standin, ASK, message, result)))
    assert status == 400
    assert [sorted(one["error"]) for one in body] == [["code", "message", "status"]]


@pytest.mark.parametrize("name", FAMILIES)
async def test_the_stream_is_the_message(name: FamilyName) -> None:
    """Over the socket too, in writes of one byte: what was streamed is what was recorded."""
    async with ChatStandIn(name, loop="preamble", chunk_bytes=1) as standin:
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer sk-one"}) as session,
            session.post(
                f"{standin.base_url}/chat/completions", json=request(standin, stream=True)
            ) as response,
        ):
            message = join(chunks_of(await response.read()))
        result = {"role": "tool", "tool_call_id": "x", "content": "7"}
        await raw(standin, request(standin, ASK, message, result))
    assert standin.judged[-1].refusal is None
    assert {one.state for one in standin.judged[-1].findings} == {"equal"}


async def test_the_same_seed_gives_the_same_answers() -> None:
    """Two stand-ins of one seed cannot be told apart."""
    answers = []
    for _ in range(2):
        async with ChatStandIn("kimi", seed=b"s", clock=lambda: 7.0) as standin:
            answers.append((await raw(standin, request(standin))).partition(b"\r\n\r\n")[2])
    assert answers[0] == answers[1]


async def test_an_answer_to_the_same_history_has_other_thoughts() -> None:
    """So a judge can tell which of two answers a client continues."""
    async with ChatStandIn("kimi") as standin:
        _, one = status_and_json(await raw(standin, request(standin)))
        _, other = status_and_json(await raw(standin, request(standin)))
    said = [each["choices"][0]["message"] for each in (one, other)]
    assert said[0]["tool_calls"] == said[1]["tool_calls"]
    assert said[0]["reasoning_content"] != said[1]["reasoning_content"]


async def test_callers_are_apart() -> None:
    """Reasoning that another key was sent is wrong, even for an equal message."""
    async with ChatStandIn("lenient") as standin:
        answers = [
            status_and_json(await raw(standin, request(standin), key))[1] for key in ("a", "b")
        ]
        mine, theirs = (one["choices"][0]["message"] for one in answers)
        mine["reasoning_content"] = theirs["reasoning_content"]
        await raw(standin, request(standin, ASK, mine), "a")
    assert [finding.state for _, finding in standin.found("wrong")] == ["wrong"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_length_limit_cuts_the_last_call(stream: bool) -> None:
    """Its arguments are half, and the reason is "length"."""
    async with ChatStandIn("deepseek", end="length") as standin:
        response = await raw(standin, request(standin, stream=stream))
    if stream:
        message, reason = join(chunks_of(response)), b'"finish_reason":"length"'
        assert reason in response
    else:
        choice = status_and_json(response)[1]["choices"][0]
        message = choice["message"]
        assert choice["finish_reason"] == "length"
    with pytest.raises(ValueError, match="Unterminated string"):
        json.loads(message["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unfinished_answer_is_not_emitted(stream: bool) -> None:
    """After an error or a lost connection, nothing of the answer may be sent again."""
    async with ChatStandIn("openrouter", end="error") as standin:
        response = await raw(standin, request(standin, stream=stream))
        assert b'"finish_reason":"error"' in response
        standin.behaviour.end = "cut"
        response = await raw(standin, request(standin, stream=stream))
        assert b"[DONE]" not in response
        assert not response.endswith(b"}")
        assert not standin.received[-1].finished
        assert len(standin.ledger) == 0


async def test_several_choices_are_all_emitted() -> None:
    """A client may continue from any of them."""
    async with ChatStandIn("lenient") as standin:
        _, answer = status_and_json(await raw(standin, request(standin, n=2)))
        messages = [choice["message"] for choice in answer["choices"]]
        for message in messages:
            await raw(standin, request(standin, ASK, message))
    assert [bool(message.get("tool_calls")) for message in messages] == [True, False]
    assert {finding.state for _, finding in standin.found("equal", "wrong")} == {"equal"}
    assert len(standin.found("equal")) == 2


async def test_a_test_may_script_a_refusal() -> None:
    """It is sent once, whatever the request is, and the request is judged all the same."""
    async with ChatStandIn("lenient") as standin:
        standin.refuse_next(ApiRefusal(429, {"error": {"message": "Slow down."}}))
        assert status_and_json(await raw(standin, request(standin)))[0] == 429
        assert status_and_json(await raw(standin, request(standin)))[0] == 200
    assert [bool(one.refusal) for one in standin.judged] == [True, False]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"{}", b'{"messages": []}', b'{"messages": [{}]}', b'{"messages": [1]}']
)
async def test_no_request_is_refused(body: bytes) -> None:
    """A body that is no request is a 400, and is not judged."""
    async with ChatStandIn("deepseek") as standin:
        assert status_and_json(await raw(standin, body))[0] == 400
    assert standin.judged == []


async def test_a_credential_is_needed() -> None:
    """Without one, the answer is 401."""
    async with ChatStandIn("deepseek") as standin:
        assert status_and_json(await raw(standin, request(standin), key=""))[0] == 401


async def test_one_upstream_may_have_both_dialects() -> None:
    """The Responses stand-in serves this one on the same port."""
    chat = ChatStandIn("lenient")
    async with (
        StandIn(chat=chat) as standin,
        AsyncOpenAI(base_url=standin.base_url, api_key="sk-one", max_retries=0) as sdk,
    ):
        answer = await sdk.responses.create(model="gpt-5.4", input="Rain?")
        messages: Any = [ASK]
        said = await sdk.chat.completions.create(model="qwen3.6-27b", messages=messages)
    assert answer.output[0].type == "reasoning"
    assert "answer about Rain?" in str(said.choices[0].message.content)
    assert len(chat.judged) == len(standin.received) == 1
