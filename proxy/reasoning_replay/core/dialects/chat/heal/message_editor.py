"""Message editor: takes reasoning members out of assistant messages, and puts fillers in."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

_NULL = b"null"


class Part(NamedTuple):
    """
    One reasoning member with a value other than null.

    Attributes:
        call: Index of the tool call that has it; None for a member of the message.
        value: Its JSON.
    """

    call: int | None
    name: str
    value: bytes


class AssistantMessage(NamedTuple):
    """
    One assistant message of a request.

    Attributes:
        start, end: Byte range in the body.
        raw: Its JSON.
        calls: JSON of each of its tool calls.
    """

    start: int
    end: int
    raw: bytes
    calls: tuple[bytes, ...]

    @property
    def parts(self) -> list[Part]:
        """Its reasoning members."""
        found = [Part(None, name, value) for name, value in _parts(self.raw, MESSAGE_MEMBERS)]
        for number, call in enumerate(self.calls):
            found += [Part(number, name, value) for name, value in _parts(call, CALL_MEMBERS)]
        return found


def messages_of(request: ParsedRequest[HistoryItem]) -> dict[int, AssistantMessage]:
    """Return the assistant messages by their index; those that cannot be edited are left out."""
    if not request.raw("messages").startswith(b"["):
        return {}
    place = json_spans.place_of(request.values, request.body, "messages")
    found: dict[int, AssistantMessage] = {}
    elements = json_spans.elements(request.body, place.start, place.end)
    for index, (start, end) in enumerate(elements):
        message = _maybe_message(request.body[start:end], start, end)
        if message is not None:
            found[index] = message
    return found


def without(
    message: AssistantMessage, given: AssistantMessage, is_refused: Callable[[Part], bool]
) -> bytes:
    """
    Return the JSON of a message without the refused parts.

    Args:
        message: The message as it was sent.
        given: The same message as the client sent it. What it has in place of a part that the
            proxy injected is restored.
        is_refused: Whether a part must be left out, of the message in either form.
    """
    refused = [part for part in message.parts if is_refused(part)]
    calls = [
        _restored(call, before, [part for part in refused if part.call == number], is_refused)
        for number, (call, before) in enumerate(zip(message.calls, given.calls, strict=True))
    ]
    raw = _with_calls(message, calls)
    return _restored(raw, given.raw, [part for part in refused if part.call is None], is_refused)


def filled(message: AssistantMessage, name: str, value: bytes) -> bytes:
    """
    Return the JSON of a message with a member that says that there is no reasoning.

    Args:
        message: A message without any part.
        name: Name of the member. One of tool calls is written to the first call.
        value: Its JSON.
    """
    if name not in CALL_MEMBERS:
        return _with_member(message.raw, name, value)
    first = _with_member(message.calls[0], name, value)
    return _with_calls(message, [first, *message.calls[1:]])


def edited(request: ParsedRequest[HistoryItem], new: Mapping[int, bytes]) -> bytes:
    """Return the body of a request with other JSON for some of its assistant messages."""
    messages = messages_of(request)
    edits = [
        Edit(messages[index].start, messages[index].end, raw)
        for index, raw in new.items()
        if raw != messages[index].raw
    ]
    return json_spans.apply(request.body, edits)


def _maybe_message(raw: bytes, start: int, end: int) -> AssistantMessage | None:
    try:
        members = json_spans.members(raw)
        role = members.get("role")
        if role is None or json_spans.text(raw[role.start : role.end]) != "assistant":
            return None
        calls = members.get("tool_calls")
        places = []
        if calls is not None and raw[calls.start : calls.end] != _NULL:
            places = json_spans.elements(raw, calls.start, calls.end)
        message = AssistantMessage(start, end, raw, tuple(raw[a:b] for a, b in places))
        message.parts  # noqa: B018 (every part of it can be found)
    except Unspliceable:
        return None
    return message


def _parts(raw: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    members = json_spans.members(raw)
    for name in names:
        member = members.get(name)
        if member is not None and (value := raw[member.start : member.end]) != _NULL:
            yield name, value


def _restored(
    raw: bytes, given: bytes, refused: list[Part], is_refused: Callable[[Part], bool]
) -> bytes:
    """Return an object without the refused members, or with the client's value in their place."""
    for part in refused:
        member = json_spans.members(given).get(part.name)
        value = given[member.start : member.end] if member is not None else b""
        if value == _NULL or (value and not is_refused(part._replace(value=value))):
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


def _with_calls(message: AssistantMessage, calls: list[bytes]) -> bytes:
    """Return the JSON of a message with other tool calls; the same object if none is changed."""
    if calls == list(message.calls):
        return message.raw
    place = json_spans.members(message.raw)["tool_calls"]
    spans = json_spans.elements(message.raw, place.start, place.end)
    edits = [Edit(start, end, call) for (start, end), call in zip(spans, calls, strict=True)]
    return json_spans.apply(message.raw, edits)
