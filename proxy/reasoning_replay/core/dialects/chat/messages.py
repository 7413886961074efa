"""Chat messages: where the members of an assistant message are, and which of them are reasoning."""

import re

import msgspec

from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS, is_empty
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Member, Unspliceable

# A cheap search: only a message that holds one of these may have reasoning.
_MAY_REASON = re.compile(rb"reasoning|extra_content|thought_signature|\\u00")


class ChatMessage(msgspec.Struct, gc=False, eq=False):
    """
    One message of a request.

    Attributes:
        raw: JSON, exactly as received.
        start: Byte offset in the document from which it was read.
        thinks_aloud: Whether its text holds reasoning, in the form of tags or parts.
    """

    raw: bytes
    start: int
    thinks_aloud: bool
    _members: dict[str, Member] | None = None
    _calls: list[tuple[int, int]] | None = None
    _replayed: int | None = None

    @property
    def members(self) -> dict[str, Member]:
        """
        Places of its members, as byte offsets into `raw`.

        Raises:
            Unspliceable: A key occurs twice.
        """
        if self._members is None:
            self._members = json_spans.members(self.raw)
        return self._members

    @property
    def calls(self) -> list[tuple[int, int]]:
        """
        Places of the elements of `tool_calls`, as byte offsets into `raw`.

        Raises:
            Unspliceable: As above, or `tool_calls` is not an array.
        """
        if self._calls is None:
            place = self.members.get("tool_calls")
            self._calls = (
                json_spans.elements(self.raw, place.start, place.end) if place is not None else []
            )
        return self._calls

    def members_of_call(self, number: int) -> dict[str, Member]:
        """
        Return the places of the members of one call, as byte offsets into `raw`.

        Raises:
            Unspliceable: As above, or the call is not an object.
        """
        return json_spans.members(self.raw, *self.calls[number])

    @property
    def replayed(self) -> int:
        """Number of reasoning members that the client sends; an empty one says nothing."""
        if self._replayed is None:
            self._replayed = int(self.thinks_aloud)
            if _MAY_REASON.search(self.raw):
                self._replayed += self._count()
        return self._replayed

    def _count(self) -> int:
        try:
            found = self._sent(self.members, MESSAGE_MEMBERS)
            calls = self.members.get("tool_calls")
            if calls is not None and self.raw[calls.start : calls.end] != b"null":
                for number in range(len(self.calls)):
                    found += self._sent(self.members_of_call(number), CALL_MEMBERS)
        except Unspliceable:
            return 0  # nothing is injected into it anyway
        return found

    def _sent(self, members: dict[str, Member], names: tuple[str, ...]) -> int:
        return sum(name in members and self._is_sent(members[name]) for name in names)

    def _is_sent(self, member: Member) -> bool:
        """Return whether a member says something."""
        return not is_empty(self.raw[member.start : member.end])
