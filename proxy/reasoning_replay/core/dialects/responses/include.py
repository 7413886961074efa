"""Include edits: ask for encrypted reasoning where the client did not, or stop asking for it."""

from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Member, Unspliceable

INCLUDE = "reasoning.encrypted_content"
_VALUE = b'"' + INCLUDE.encode() + b'"'
_VALUE_ALONE = b"[" + _VALUE + b"]"


def include_edit(request: Request) -> Edit | None:
    """
    Return the edit that merges `reasoning.encrypted_content` into a request's `include`.

    None if it is there already, or if the value has a type that the API does not accept: upstream
    reports that error itself.
    """
    raw = request.raw("include")
    if not raw:
        at = request.body.index(b"{") + 1
        return Edit(at, at, b'"include":[' + _VALUE + b"]" + (b"," if request.values else b""))
    if raw == _VALUE_ALONE:
        return None  # the usual form
    member = json_spans.place_of(request.values, request.body, "include")
    if raw == b"null":
        return Edit(member.start, member.end, _VALUE_ALONE)
    try:
        given = [
            json_spans.text(request.body[start:end]) for start, end in _elements(request, member)
        ]
    except Unspliceable:
        return None
    if INCLUDE in given:
        return None
    at = member.start + 1
    return Edit(at, at, _VALUE + (b"," if given else b""))


def exclude_edit(request: Request) -> Edit | None:
    """Return the edit that removes it from a request's `include`; None if it is not there."""
    if "include" not in request.values:
        return None
    member = json_spans.place_of(request.values, request.body, "include")
    try:
        elements = _elements(request, member)
    except Unspliceable:
        return None
    others = [request.body[start:end] for start, end in elements]
    others = [raw for raw in others if json_spans.text(raw) != INCLUDE]
    if len(others) == len(elements):
        return None
    if not others:
        return json_spans.remove(request.body, {"include": member}, "include")
    return Edit(member.start, member.end, b"[" + b",".join(others) + b"]")


def _elements(request: Request, member: Member) -> list[tuple[int, int]]:
    return json_spans.elements(request.body, member.start, member.end)
