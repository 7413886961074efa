"""
Messages of the bench: requests, responses and events in the form of real ones.

All are functions of their arguments, so that each contender receives the same bytes.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

__all__ = [
    "CLOSING",
    "OPENING",
    "STAMP",
    "History",
    "closing",
    "delta",
    "opening",
    "request",
    "small_answer",
    "small_body",
    "stream_body",
    "turn_answer",
    "turn_items",
]

Item = dict[str, Any]

STAMP = b'"obfuscation":"'
"""Text before the 16 digits of a delta's send time, in ns of the monotonic clock."""

OPENING, CLOSING = 6, 4
"""Number of events of a stream before its deltas, and after them."""

_BLOB_BYTES = 1_200
_MODEL = "gpt-5.2"
_TOOLS = [
    {
        "type": "function",
        "name": "read_file",
        "description": "Read a file of the workspace.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        "strict": True,
    }
]


def request(task: str, body: bytes) -> bytes:
    """
    Build a request as an SDK sends it.

    Args:
        task: The task for the upstream; see `upstream`.
        body: JSON.
    """
    head = (
        "POST /v1/responses HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        "Accept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
        "Authorization: Bearer sk-proj-0123456789abcdefghijklmnopqrstuvwxyz\r\n"
        "Content-Type: application/json\r\n"
        "User-Agent: OpenAI/Python 3.54.0\r\n"
        "X-Stainless-Lang: python\r\n"
        "X-Stainless-Retry-Count: 0\r\n"
        f"X-Bench: {task}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _digits(*of: object, count: int = 48) -> str:
    return hashlib.shake_128(repr(of).encode()).hexdigest(count // 2)


def _blob(*of: object, size: int = _BLOB_BYTES) -> str:
    raw = hashlib.shake_128(repr(of).encode()).digest(size * 3 // 4)
    return "gAAAAA" + base64.urlsafe_b64encode(raw).decode()


def _user(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _message(item_id: str, text: str, phase: str) -> Item:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "content": [part],
        "phase": phase,
        "role": "assistant",
    }


def _reasoning(item_id: str, blob: str) -> Item:
    return {"id": item_id, "type": "reasoning", "encrypted_content": blob, "summary": []}


def _call(item_id: str, call_id: str, path: str) -> Item:
    return {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "arguments": json.dumps({"path": path}),
        "call_id": call_id,
        "name": "read_file",
    }


def _output(call_id: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def _answer(response_id: str, output: list[Item], status: str = "completed") -> Item:
    tokens = {"input_tokens": 812, "input_tokens_details": {"cached_tokens": 512}}
    tokens |= {"output_tokens": 96, "output_tokens_details": {"reasoning_tokens": 64}}
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_780_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": _MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium", "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": _TOOLS,
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {**tokens, "total_tokens": 908} if status == "completed" else None,
        "user": None,
        "metadata": {},
    }


def _body(items: list[Item], **more: Any) -> bytes:
    return _compact(
        {
            "model": _MODEL,
            "input": items,
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "tools": _TOOLS,
            **more,
        }
    )


# A small exchange: written once, with a number of 12 digits in each place that differs.

_HOLE = "#" * 12


def _template(value: bytes) -> bytes:
    return value.replace(b"%", b"%%").replace(_HOLE.encode(), b"%(n)012d")


_SMALL_BODY = _template(
    _body(
        [
            _user(f"Ticket {_HOLE}: which file sets the timeout?"),
            _message(f"msg_{'0a' * 18}{_HOLE}", "I shall look at the settings.", "commentary"),
            _user("Please do."),
            _reasoning(f"rs_{'0b' * 18}{_HOLE}", _blob("small", size=120)),
            _call(f"fc_{'0c' * 18}{_HOLE}", f"call_{'0d' * 6}{_HOLE}", "settings.py"),
            _output(f"call_{'0d' * 6}{_HOLE}", f"TIMEOUT_S = {_HOLE}"),
        ]
    )
)
_SMALL_ANSWER = _template(
    _compact(
        _answer(
            f"resp_{'1a' * 18}{_HOLE}",
            [
                _reasoning(f"rs_{'1b' * 18}{_HOLE}", _blob("answer", size=420)),
                _call(f"fc_{'1c' * 18}{_HOLE}", f"call_{'1d' * 6}{_HOLE}", "timeouts.py"),
            ],
        )
    )
)


def small_body(number: int) -> bytes:
    """Build a request's body of 1.3 KB; it has its reasoning, and its ids occur in no other."""
    return _SMALL_BODY % {b"n": number}


def small_answer(number: int) -> bytes:
    """Build a response of 1.7 KB: reasoning, and the call that it led to."""
    return _SMALL_ANSWER % {b"n": number}


# A conversation of many turns: reasoning, a preamble and a call; then the call's output.


def turn_items(seed: int, number: int) -> list[Item]:
    """List the items that a turn of a conversation emitted; the first one has no preamble."""
    this = _digits(seed, number)
    preamble = _message(f"msg_{this}", f"Step {number}: I read the next file.", "commentary")
    return [
        _reasoning(f"rs_{this}", _blob(seed, number)),
        *([preamble] if number else []),
        _call(f"fc_{this}", f"call_{this[:24]}", f"src/part_{number}.py"),
    ]


def turn_answer(seed: int, number: int) -> bytes:
    """Build the response of a turn."""
    return _compact(_answer(f"resp_{_digits(seed, number)}", turn_items(seed, number)))


class History:
    """
    A conversation of a client that drops all reasoning and keeps all else.

    Three items per turn: a preamble (once, before all turns, the user's message instead), a call,
    and its output.

    Attributes:
        seed: Seed of its ids and blobs.
        turns: Number of turns.
    """

    def __init__(self, seed: int, turns: int, output_chars: int) -> None:
        """Build all items; an output has `output_chars` characters."""
        self.seed = seed
        self.turns = turns
        items = [_user(f"Conversation {seed}: read the files one by one, and sum them up.")]
        self._whole = list(items)
        self._written = [_compact(items[0])]
        for number in range(turns):
            emitted = turn_items(seed, number)
            output = _output(emitted[-1]["call_id"], _text(output_chars, seed, number))
            self._whole += [*emitted, output]
            self._written.append(b",".join(map(_compact, [*emitted[1:], output])))
        self._around = _body([]).split(b"[]", 1)

    def asks(self, number: int) -> bytes:
        """Build the request for a turn; for the number `turns` it follows all turns."""
        before, behind = self._around
        body = b"%b[%b]%b" % (before, b",".join(self._written[: 1 + number]), behind)
        return request(f"turn {self.seed} {number}", body)

    def asks_seen(self) -> bytes:
        """Build the request after all turns that upstream answers with the received items."""
        return self.asks(self.turns).replace(b"X-Bench: turn", b"X-Bench: seen", 1)

    def seen(self) -> list[list[str | None]]:
        """Return the type and id of each item that upstream must receive, reasoning included."""
        return [[item["type"], item.get("id")] for item in self._whole]


def _text(chars: int, *of: object) -> str:
    words = _digits(*of, count=chars)
    return "\n".join(words[at : at + 60] for at in range(0, chars, 60))


# A stream.


def _event(kind: str, number: int, **members: Any) -> bytes:
    told = {"type": kind, "sequence_number": number, **members}
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _compact(told))


def stream_body(number: int) -> bytes:
    """Build the body of a request for a stream."""
    return _body([_user(f"Tell story {number}.")], stream=True)


def _parts(number: int, text: str) -> tuple[Item, Item, str]:
    this = _digits("stream", number)
    reasoning = _reasoning(f"rs_{this}", _blob("stream", number))
    return reasoning, _message(f"msg_{this}", text, "final_answer"), f"resp_{this}"


def opening(number: int) -> Iterator[bytes]:
    """Yield the events of a stream before its first delta."""
    reasoning, message, response_id = _parts(number, "")
    begun = _answer(response_id, [], "in_progress")
    bare = {**reasoning, "encrypted_content": reasoning["encrypted_content"][:200]}
    yield _event("response.created", 0, response=begun)
    yield _event("response.in_progress", 1, response=begun)
    yield _event("response.output_item.added", 2, output_index=0, item=bare)
    yield _event("response.output_item.done", 3, output_index=0, item=reasoning)
    empty = {**message, "status": "in_progress", "content": []}
    yield _event("response.output_item.added", 4, output_index=1, item=empty)
    place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    yield _event("response.content_part.added", 5, **place, part=part)


def delta(number: int) -> bytes:
    """Build the template of a delta, of 300 bytes: for `% (sequence number, time in ns)`."""
    place = {"item_id": f"msg_{_digits('stream', number)}", "output_index": 1, "content_index": 0}
    told = _event("response.output_text.delta", 0, **place, delta=" word", logprobs=[])
    told = told.replace(b'"sequence_number":0', b'"sequence_number":%d')
    return told[:-3] + b"," + STAMP + b'%016d"}\n\n'


def closing(number: int, deltas: int) -> Iterator[bytes]:
    """Yield the events of a stream after its last delta."""
    reasoning, message, response_id = _parts(number, " word" * deltas)
    place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
    part = message["content"][0]
    at = OPENING + deltas
    done = "response.output_text.done"
    yield _event(done, at, **place, text=part["text"], logprobs=[])
    yield _event("response.content_part.done", at + 1, **place, part=part)
    yield _event("response.output_item.done", at + 2, output_index=1, item=message)
    whole = _answer(response_id, [reasoning, message])
    yield _event("response.completed", at + 3, response=whole)
