"""The stand-in on its socket: streams, faults, counts, and what is recorded."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from anthropic import AsyncAnthropic

from tests.standin.messages import LOOPS, MODES, Loop, MessagesStandIn, ModeName
from tests.standin.messages.client import RAIN, TOOLS, ask, error, step

Start = Callable[..., Awaitable[MessagesStandIn]]
SIGNS = {
    "thinking": "R",
    "redacted_thinking": "X",
    "text": "A",
    "tool_use": "fc",
    "server_tool_use": "S",
}


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, whose names are those of their data."""
    frames = [frame.split(b"\n") for frame in stream.split(b"\n\n") if frame]
    events = [json.loads(data.removeprefix(b"data: ")) for _, data in frames]
    assert [name.decode() for name, _ in frames] == [f"event: {one['type']}" for one in events]
    return events


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_loop_is_played_to_its_end(start: Start, loop: Loop) -> None:
    """Each response has the blocks that its loop names, and the last one is a text."""
    standin = await start("manual", loop=loop)
    history = await step(standin, RAIN)
    while history[-1]["role"] == "user":
        history = await step(standin, *history)
    said = [one["content"] for one in history if one["role"] == "assistant"]
    played = [" ".join(SIGNS[one["type"]] for one in x if one["type"] in SIGNS) for x in said]
    assert tuple(played) == LOOPS[loop]
    assert not standin.found("missing", "wrong")


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("loop", ["preamble", "interleaved", "redacted", "search"])
async def test_the_stream_is_the_message(start: Start, name: ModeName, loop: Loop) -> None:
    """The SDK joins it, in writes of one byte too, to what the same seed gives as JSON."""
    made = []
    for streams in (False, True):
        standin = await start(name, loop=loop, seed=b"s", chunk_bytes=1)
        base_url = standin.base_url.removesuffix("/v1")
        asked: Any = {"model": standin.mode.model, "tools": TOOLS, "messages": [RAIN]}
        asked |= {"max_tokens": 99, "thinking": standin.mode.thinking}
        async with AsyncAnthropic(base_url=base_url, api_key="sk", max_retries=0) as sdk:
            if streams:
                async with sdk.messages.stream(**asked) as stream:
                    answer = await stream.get_final_message()
            else:
                answer = await sdk.messages.create(**asked)
        made.append([block.to_dict(warnings=False) for block in answer.content])
    whole, streamed = json.loads(json.dumps(made))
    assert [{k: v for k, v in one.items() if v is not None} for one in streamed] == [
        {k: v for k, v in one.items() if v is not None} for one in whole
    ]


async def test_a_stream_has_pings_and_all_events(start: Start) -> None:
    """A text, a signature and an input come in deltas, redacted reasoning does not."""
    standin = await start("manual", loop="preamble")
    _, stream = await ask(standin, RAIN, stream=True)
    events = events_of(stream)
    kinds = [one["type"] for one in events]
    assert [kinds[0], *kinds[-2:]] == ["message_start", "message_delta", "message_stop"]
    assert kinds.count("ping") == 4
    deltas = {one["delta"]["type"] for one in events if one["type"] == "content_block_delta"}
    assert deltas == {"thinking_delta", "signature_delta", "text_delta", "input_json_delta"}


async def test_an_error_inside_a_stream(start: Start) -> None:
    """The status is 200, the last event an error, and nothing was emitted; JSON has a status."""
    standin = await start("manual", end="error")
    status, stream = await ask(standin, RAIN, stream=True)
    assert status == 200
    assert events_of(stream)[-1]["error"]["type"] == "overloaded_error"
    assert (await ask(standin, RAIN))[0] == 529
    assert len(standin.ledger) == 0


async def test_a_length_limit_cuts_the_last_block(start: Start) -> None:
    """A text is half, a call is missing, and the reason says so."""
    standin = await start("manual", loop="preamble", end="length")
    _, answer = await ask(standin, RAIN)
    assert answer["stop_reason"] == "max_tokens"
    assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
    _, answer = await ask(standin, RAIN, tools=[])
    assert not answer["content"][-1]["text"].endswith(".")


async def test_a_lost_connection(start: Start) -> None:
    """Half of the response arrives, and nothing counts as emitted."""
    standin = await start("manual", end="cut")
    for stream in (False, True):
        with pytest.raises(aiohttp.ClientPayloadError):
            await ask(standin, RAIN, stream=stream)
    assert not standin.received[-1].finished
    assert len(standin.ledger) == 0


async def test_a_count_is_judged_and_emits_nothing(start: Start) -> None:
    """It is the number that the request itself would have read."""
    standin = await start("manual")
    _, counted = await ask(standin, RAIN, path="/messages/count_tokens")
    assert len(standin.ledger) == 0
    await step(standin, RAIN)
    assert counted == {"input_tokens": standin.reads[-1].tokens}
    assert len(standin.judged) == 2


async def test_a_credential_and_messages_are_needed(start: Start) -> None:
    """Without one, the answer is 401; without messages, 400."""
    standin = await start("manual")
    assert (await ask(standin, RAIN, key=""))[0] == 401
    assert await error(standin) == "messages: messages is missing or empty"


async def test_callers_are_apart(start: Start) -> None:
    """Reasoning that another key was sent is wrong."""
    standin = await start("deepseek")
    await step(standin, RAIN)
    theirs = await step(standin, RAIN, key="sk-ant-two")
    assert "not what was emitted" in await error(standin, *theirs)
