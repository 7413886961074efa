"""
Added members: members other than reasoning that the proxy adds, at the end of a request's object.

If upstream refuses one, the request is sent again without it, and for an hour none is added.
"""

from collections.abc import Iterable
from typing import NamedTuple

from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit


class AddedMember(NamedTuple):
    """
    A member, as it is added.

    Attributes:
        kind: The kind of a refusal that names it, in every dialect that has it.
        text: Its JSON, after a comma.
    """

    kind: str
    text: bytes


def edits_of(body: bytes, added: Iterable[AddedMember]) -> tuple[Edit, ...]:
    """Return the edit that adds members; none without any."""
    text = b"".join([one.text for one in added])
    return (_at_end(body, text),) if text else ()


def with_added(body: bytes, added: Iterable[AddedMember]) -> bytes:
    """Return an object with the members that were added to another form of it."""
    return json_spans.apply(body, edits_of(body, added))


def without_added(body: bytes, added: Iterable[AddedMember]) -> bytes:
    """Return an object without the members that were added to it."""
    for one in added:
        before, _, after = body.rpartition(one.text)
        body = before + after
    return body


def _at_end(body: bytes, text: bytes) -> Edit:
    at = body.rindex(b"}")
    return Edit(at, at, text)
