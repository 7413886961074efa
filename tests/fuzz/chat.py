"""Checks of the Chat Completions dialect: any bytes of upstream, and any request after them."""

import json
from collections.abc import Iterator
from typing import Any

from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS
from reasoning_replay.core.history.turns import records_of, turns_of
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable

from tests.core.dialects.chat import recorded
from tests.core.dialects.chat.chats import Chats, assistant, body_of, tool, user
from tests.core.dialects.chat.streams import MODEL, call, capture, details, stream
from tests.fuzz.inputs import cut, read, write

__all__ = ["exchange", "exchanges", "feed", "pieces", "streams"]

CHUNK_BYTES = 4096
RECORDED_MAX_BYTES = 16_000
_CALLS = [call("weather", '{"q":1}', 0, "call_8hJd02kQpZ71"), call("weather", '{"q":2}', 1, "")]
_DELTAS: tuple[list[dict[str, Any]], ...] = (
    [{"reasoning_content": "Hm \\u00e9"}, {"content": "Hi"}, {"content": " you"}],
    [{"reasoning": "a", "reasoning_details": [details("text", text="a")]}, {"tool_calls": _CALLS}],
    [{"tool_calls": [_CALLS[0] | {"extra_content": {"google": {"thought_signature": "Eg=="}}}]}],
)


def pieces(data: bytes) -> None:
    """Check that any cuts of a stream capture the same turn, and that it survives storing."""
    dice, answer = read(data)
    whole, again = _captured([answer]), _captured(cut(dice, answer))
    assert again.gave_up == whole.gave_up
    snapshot = whole.snapshot(1)
    assert again.snapshot(1) == snapshot
    turn = snapshot.turn
    if turn is not None:
        assert turns_of(turn.conversation, records_of(turn)) == [turn]
        for part in (part for item in turn.items for part in item.run):
            json.loads(b"{" + part.raw + b"}")
    _captured(cut(dice, answer), dice.choice((0, 60, 600)))


def exchange(data: bytes) -> None:
    """Check a request after a response: only reasoning is added, and only once."""
    documents = read(data).documents
    answer, request = documents[0], documents[-1]
    chats = Chats()
    chats.take(body_of([user("Hi")]), answer)
    try:
        sent = chats.decide(request).body
        chats.decide(sent)
    except (Unspliceable, TooMany):
        return
    assert chats.decide(sent).body == sent
    if sent is not request:
        assert _without_reasoning(sent) == _without_reasoning(request)


def feed(data: bytes) -> None:
    """Capture a stream."""
    answer = read(data).payload
    _captured([answer[n : n + CHUNK_BYTES] for n in range(0, len(answer), CHUNK_BYTES)])


def streams() -> Iterator[bytes]:
    """Yield streamed responses."""
    for deltas in _DELTAS:
        yield stream(*deltas)
    for folder in recorded.folders("oracle"):
        for path in sorted(folder.glob("*.response.sse")):
            if path.stat().st_size <= RECORDED_MAX_BYTES:
                yield path.read_bytes()


def exchanges() -> Iterator[bytes]:
    """Yield a response, and the request of a client that drops its reasoning."""
    for deltas in _DELTAS:
        messages = [user("Hi"), assistant("Hi you"), user("x")]
        if "tool_calls" in deltas[-1]:
            calls = _CALLS[: len(deltas[-1]["tool_calls"])]
            made = assistant(tool_calls=[{"extra_content": None, **one} for one in calls])
            messages = [user("Hi"), made, tool("sunny", "call_8hJd02kQpZ71")]
        yield write([stream(*deltas), body_of(messages, MODEL)])


def _captured(chunks: list[bytes], bound: int = 1 << 20) -> ChatCapture:
    captured = capture(bound)
    for chunk in chunks:
        captured.feed(chunk)
        if captured.dirty:
            captured.snapshot(1)
    captured.close()
    return captured


def _without_reasoning(body: bytes) -> Any:
    """Return a request without any reasoning of its messages and calls."""
    top = json.loads(body, parse_int=str, parse_float=str)
    for message in top["messages"]:
        for name in MESSAGE_MEMBERS if isinstance(message, dict) else ():
            message.pop(name, None)
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for made in calls if isinstance(calls, list) else ():
            for name in CALL_MEMBERS if isinstance(made, dict) else ():
                made.pop(name, None)
    return top
