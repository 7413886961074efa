"""Client of Chat Completions: what its requests and answers look like."""

import json
from collections.abc import Iterable, Iterator

from reasoning_replay.core.dialects.chat.members import (
    CALL_MEMBERS,
    MESSAGE_MEMBERS,
    reasoning_of,
    says_nothing,
)
from reasoning_replay.core.dialects.client_wire import Item, Reply, Wire, only

# The members that the API declares, and so those that its clients keep.
_OF_MESSAGE = ("role", "content", "tool_calls")
_OF_CALL = ("id", "type", "function")


def _read_completion(answer: Item) -> Reply:
    message: Item = answer["choices"][0]["message"]
    calls: list[Item] = message.get("tool_calls") or []
    kept = only(message, _OF_MESSAGE)
    if calls:
        kept["tool_calls"] = [only(call, _OF_CALL) for call in calls]
    sealed = [*_sealed(message, MESSAGE_MEMBERS, is_of_call=False)]
    for call in calls:
        sealed += _sealed(call, CALL_MEMBERS, is_of_call=True)
    return Reply([message], [kept], [call["id"] for call in calls], sealed)


def _sealed(given: Item, names: Iterable[str], *, is_of_call: bool) -> Iterator[bool]:
    """Yield for each member with reasoning whether it has a signature."""
    for name in names:
        value = json.dumps(given.get(name)).encode()
        if not says_nothing(name, value):
            part = reasoning_of(name, value, is_of_call=is_of_call)
            yield part is not None and part.has_blob


WIRE = Wire(
    path="/chat/completions",
    history="messages",
    tool=lambda function: {"type": "function", "function": function},
    results=lambda calls, text: [
        {"role": "tool", "tool_call_id": call, "content": text} for call in calls
    ],
    read=_read_completion,
)
