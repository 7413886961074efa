"""Chat Completions: requests, completions and chunks in the form of real ones."""

import json
from typing import Any

from tests.bench.shapes.dialect import (
    HOLE,
    Dialect,
    Item,
    compact,
    digits,
    lines_of,
    numbered,
    stamped,
)

_MODEL = "deepseek-reasoner"
_REASONING_CHARS = 1_200
_THOUGHTS = 4  # number of chunks of a stream with reasoning
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file of the workspace.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


def _user(text: str) -> Item:
    return {"role": "user", "content": text}


def _message(text: str | None, reasoning: str, *calls: Item) -> Item:
    said: Item = {"role": "assistant", "content": text, "reasoning_content": reasoning}
    return said | ({"tool_calls": list(calls)} if calls else {})


def _call(call_id: str, path: str) -> Item:
    said = {"name": "read_file", "arguments": json.dumps({"path": path})}
    return {"id": call_id, "type": "function", "function": said}


def _usage() -> Item:
    return {
        "prompt_tokens": 812,
        "completion_tokens": 96,
        "total_tokens": 908,
        "prompt_tokens_details": {"cached_tokens": 512},
        "completion_tokens_details": {"reasoning_tokens": 64},
    }


def _answer(this: str, message: Item) -> bytes:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return compact(
        {
            "id": f"chatcmpl-{this}",
            "object": "chat.completion",
            "created": 1_780_000_000,
            "model": _MODEL,
            "choices": [choice],
            "usage": _usage(),
            "system_fingerprint": "fp_0123456789",
        }
    )


def _body(messages: list[Item], **more: Any) -> bytes:
    return compact({"model": _MODEL, "messages": messages, "tools": _TOOLS, **more})


# A small exchange

_small_body = numbered(
    _body(
        [
            _user(f"Ticket {HOLE}: which file sets the timeout?"),
            _message("I shall look at the settings.", lines_of(100, "first")),
            _user("Please do."),
            _message(
                f"Step {HOLE}: I read the first file.",
                lines_of(360, "small"),
                _call(f"call_{'0d' * 6}{HOLE}", "settings.py"),
            ),
            {
                "role": "tool",
                "tool_call_id": f"call_{'0d' * 6}{HOLE}",
                "content": f"TIMEOUT_S = {HOLE}",
            },
        ],
        temperature=1.0,
        max_tokens=4_096,
    )
)
_small_answer = numbered(
    _answer(
        "1a" * 8 + HOLE,
        _message(
            f"Step {HOLE}: I read the next file.",
            lines_of(980, "answer"),
            _call(f"call_{'1d' * 6}{HOLE}", "timeouts.py"),
        ),
    )
)


# A conversation of many turns: a message with reasoning and a call; then the call's output


def _first(seed: int) -> Item:
    return _user(f"Conversation {seed}: read the files one by one, and sum them up.")


def _emitted(seed: int, number: int) -> list[Item]:
    this = digits(seed, number)
    text = f"Step {number}: I read the next file." if number else None
    call = _call(f"call_{this[:24]}", f"src/part_{number}.py")
    return [_message(text, lines_of(_REASONING_CHARS, seed, number, "reasoning"), call)]


def _turn_answer(seed: int, number: int) -> bytes:
    [message] = _emitted(seed, number)
    return _answer(digits(seed, number, count=32), message)


def _output(emitted: list[Item], text: str) -> Item:
    [call] = emitted[-1]["tool_calls"]
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def _dropped(message: Item) -> Item:
    return {name: value for name, value in message.items() if name != "reasoning_content"}


def _seen(message: Item) -> list[str | None]:
    return [message["role"], message.get("reasoning_content")]


# A stream


def _chunk(number: int, delta: Item, reason: str | None = None, **more: Any) -> bytes:
    told = {
        "id": f"chatcmpl-{digits('stream', number, count=32)}",
        "object": "chat.completion.chunk",
        "created": 1_780_000_000,
        "model": _MODEL,
        "system_fingerprint": "fp_0123456789",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
    }
    return b"data: %b\n\n" % compact(told | more)


def _stream_body(number: int) -> bytes:
    told = {"include_usage": True}
    return _body([_user(f"Tell story {number}.")], stream=True, stream_options=told)


def _opening(number: int) -> list[bytes]:
    piece = _REASONING_CHARS // _THOUGHTS
    return [
        _chunk(number, {"role": "assistant", "content": None, "reasoning_content": ""}),
        *[
            _chunk(number, {"content": None, "reasoning_content": lines_of(piece, number, at)})
            for at in range(_THOUGHTS)
        ],
    ]


def _delta(number: int) -> bytes:
    return stamped(_chunk(number, {"content": " word %d", "reasoning_content": None}))


def _closing(number: int, deltas: int) -> list[bytes]:
    return [
        _chunk(number, {"content": "", "reasoning_content": None}, "stop"),
        _chunk(number, {}, choices=[], usage=_usage()),
        b"data: [DONE]\n\n",
    ]


CHAT = Dialect(
    name="chat",
    path="/v1/chat/completions",
    items="messages",
    items_a_turn=2,
    key="messages",
    body=_body,
    small_body=_small_body,
    small_answer=_small_answer,
    first=_first,
    emitted=_emitted,
    answer=_turn_answer,
    output=_output,
    dropped=_dropped,
    seen=_seen,
    stream_body=_stream_body,
    opening=_opening,
    delta=_delta,
    closing=_closing,
    ending=b"data: [DONE]\n",
)
