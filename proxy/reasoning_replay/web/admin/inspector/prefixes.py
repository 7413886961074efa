"""
Prefixes: whether a request begins with what the upstream saw in the turn before.

Prompt caches need that, and a client that appends to its history can rely on it. The comparison
uses the digests of the items as they were sent, so nothing of their content is kept.
"""

from typing import Final, NamedTuple

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.sent_items import SentItems, common_items
from reasoning_replay.web.exchange import Exchange

# Most turns whose digests are kept, and the total size of the digests in bytes.
TURNS_MAX: Final = 1000
BYTES_MAX: Final = 1 << 20

_Key = tuple[bytes | None, bytes]


class Prefix(NamedTuple):
    """
    A request compared with the request of the turn that it continues.

    Attributes:
        before: Number of items in that request, as sent.
        kept: With how many of them this request begins.
        has_moved: Whether one of the items, or the head before them, has changed.
        is_head_new: Whether the head has changed: instructions and tools.
    """

    before: int
    kept: int
    has_moved: bool
    is_head_new: bool


class Prefixes:
    """The digests of recent turns; the least recently used ones are dropped."""

    def __init__(self) -> None:
        """Start without turns."""
        self._sent: dict[_Key, SentItems] = {}
        self._bytes = 0

    def compare(self, exchange: Exchange) -> Prefix | None:
        """Return how a request compares; None if its parent is not known here."""
        sent, parent = _sent(exchange), (exchange.scope, exchange.request.parent)
        before = self._sent.pop(parent, None)
        if before is None:
            return None
        self._sent[parent] = before
        if not sent.items:
            return None
        kept = common_items(before, sent)
        is_head_new = sent.head != before.head
        return Prefix(before.total, kept, is_head_new or kept < before.total, is_head_new)

    def keep(self, exchange: Exchange) -> None:
        """Keep the digests of a finished exchange, if its response became a turn."""
        sent, turn = _sent(exchange), (exchange.scope, exchange.response.turn)
        if not (exchange.response.turn and sent.items):
            return
        self._drop(turn)
        self._sent[turn] = sent._replace(injected=b"")
        self._bytes += len(sent.items)
        while len(self._sent) > TURNS_MAX or self._bytes > BYTES_MAX:
            self._drop(next(iter(self._sent)))

    def _drop(self, turn: _Key) -> None:
        if (sent := self._sent.pop(turn, None)) is not None:
            self._bytes -= len(sent.items)


def _sent(exchange: Exchange) -> SentItems:
    """Return the digests; without items if the request does not hold the whole history."""
    summary = exchange.request.summary
    is_whole = exchange.request.state != RequestState.STATEFUL
    return summary.sent if summary is not None and is_whole else SentItems()
