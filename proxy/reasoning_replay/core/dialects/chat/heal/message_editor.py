"""Message editor: takes reasoning members out of assistant messages, and puts fillers in."""

from collections.abc import Callable, Mapping

from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, ChatMessage, Part
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable


def messages_of(request: ParsedRequest[HistoryItem]) -> dict[int, ChatMessage]:
    """Return the assistant messages by their index; those that cannot be edited are left out."""
    spans = enumerate(request.spans("messages"))
    messages = {index: ChatMessage(request.body[start:end], start) for index, (start, end) in spans}
    return {index: message for index, message in messages.items() if _is_editable(message)}


def without(message: ChatMessage, given: ChatMessage, is_refused: Callable[[Part], bool]) -> bytes:
    """
    Return the JSON of a message without the refused parts.

    Args:
        message: The message as it was sent.
        given: The same message as the client sent it. What it has in place of a part that the
            proxy injected is restored.
        is_refused: Whether a part must be left out, of the message in either form.
    """
    refused = [part for part in message.parts if is_refused(part)]
    both = zip(message.raw_calls, given.raw_calls, strict=True)
    calls = [
        _restored(call, before, [part for part in refused if part.call == number], is_refused)
        for number, (call, before) in enumerate(both)
    ]
    raw = _with_calls(message, calls)
    return _restored(raw, given.raw, [part for part in refused if part.call is None], is_refused)


def filled(message: ChatMessage, name: str, value: bytes) -> bytes:
    """
    Return the JSON of a message with a member that says that there is no reasoning.

    Args:
        message: A message without any part.
        name: Name of the member. One of tool calls is written to the first call.
        value: Its JSON.
    """
    if name not in CALL_MEMBERS:
        return _with_member(message.raw, name, value)
    first, *others = message.raw_calls
    return _with_calls(message, [_with_member(first, name, value), *others])


def edited(request: ParsedRequest[HistoryItem], new: Mapping[int, bytes]) -> bytes:
    """Return the body of a request with other JSON for some of its assistant messages."""
    messages = messages_of(request)
    edits = [
        Edit(messages[index].start, messages[index].end, raw)
        for index, raw in new.items()
        if raw != messages[index].raw
    ]
    return json_spans.apply(request.body, edits)


def _is_editable(message: ChatMessage) -> bool:
    """Return whether a message is one of an assistant, and every part of it can be found."""
    try:
        role = message.members.get("role")
        message.parts  # noqa: B018 (it raises)
    except Unspliceable:
        return False
    return role is not None and json_spans.text(message.raw[role.start : role.end]) == "assistant"


def _restored(
    raw: bytes, given: bytes, refused: list[Part], is_refused: Callable[[Part], bool]
) -> bytes:
    """Return an object without the refused members, or with the client's value in their place."""
    for part in refused:
        member = json_spans.members(given).get(part.name)
        value = given[member.start : member.end] if member is not None else b""
        if value == b"null" or (value and not is_refused(part._replace(value=value))):
            at = json_spans.members(raw)[part.name]
            raw = raw[: at.start] + value + raw[at.end :]
        else:
            raw = json_spans.without(raw, [part.name])
    return raw


def _with_member(raw: bytes, name: str, value: bytes) -> bytes:
    """Return an object with a member more, or with a value in place of null."""
    members = json_spans.members(raw)
    if name in members:
        at = members[name]
        return raw[: at.start] + value + raw[at.end :]
    at_start = raw.index(b"{") + 1
    comma = b"," if members else b""
    return raw[:at_start] + b'"%b":%b' % (name.encode(), value) + comma + raw[at_start:]


def _with_calls(message: ChatMessage, calls: list[bytes]) -> bytes:
    """Return the JSON of a message with other tool calls; the same object if none is changed."""
    given = zip(message.calls, message.raw_calls, calls, strict=True)
    edits = [Edit(*span, call) for span, before, call in given if call != before]
    return json_spans.apply(message.raw, edits)
