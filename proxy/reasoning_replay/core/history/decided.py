"""
Decided: the beginning of a request's history that is decided already, without its items.

Nothing at first; then what the last request with this beginning led to. It has all that later
items depend on, so the items themselves are neither kept nor read again. A turn records the same
decisions in the store (`Seen`), for the replicas and for later.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire.digest import digest

_START = digest(b"chain")
# Number of items of a run that are kept in a turn's context: enough to distinguish runs.
ANSWERED_ITEMS = 8
# Number of the last client messages before a block that count as evidence.
MESSAGES_WEIGHED = 32
# Text with this many characters is one piece of evidence. It may still recur (refusals, sign-offs).
MUCH_CHARS = 24
# The message before the last one is evidence, too.
_LEAST_ASKED = 2


class Reopened(Exception):
    """What is decided cannot stay: the request must be decided as a whole."""


class RunningDigest(Protocol):
    """A digest of what was read so far, which can go on."""

    def copy(self) -> "RunningDigest":
        """Return one that goes on from here."""

    def digest(self) -> bytes:
        """Return the digest so far."""

    def update(self, data: bytes, /) -> None:
        """Go on with these bytes."""


class Run(msgspec.Struct, gc=False, eq=False):
    """
    Consecutive items of the model.

    Attributes:
        items: The items; none, if the rest was computed and they are not kept.
    """

    items: Sequence[HistoryItem] = ()
    _traces: bytes | None = None
    _chars: int | None = None

    @property
    def traces(self) -> bytes:
        """As `Context.model_traces`."""
        if self._traces is None:
            self._traces = b"".join([item.trace for item in self.items[-ANSWERED_ITEMS:]])
        return self._traces

    @property
    def chars(self) -> int:
        """Number of characters; equal content counts once."""
        if self._chars is None:
            self._chars = sum({item.content: item.chars for item in self.items}.values())
        return self._chars

    def kept(self) -> "Run":
        """Return the same run without its items."""
        return Run((), self.traces, self.chars)


class Asked(NamedTuple):
    """A message of the client's side: its digest (`HistoryItem.said`), and its characters."""

    said: bytes
    chars: int


class Decided(msgspec.Struct, frozen=True, gc=False):
    """
    The decisions about the first items of a request, and the end of these items.

    Attributes:
        items: Number of these items.
        said, heard: Number of these in `RequestHistory.said`, and in `RequestHistory.heard`.
        first: Digest of the first message of the client's side; b"" without one.
        tail: The last links of the chain, as `Context.tail`.
        asked: The last messages of the client's side, newest first, as far as they are evidence.
        run: The last run of the model.
        frame: Digest of instructions, system and developer messages.
        is_over: Whether an item from the client's side ended the last run.
        chain, whole: Digests of `RequestHistory.said`, and of `heard`.
        turns: Ids of the turns that these items came from, one after the other. No other item may
            come from one of them: a response would be split by the end of the beginning.
        newest: Turn of the last matched item; None without any.
        seen: What the next turn records of the decisions; None: ids alone decided.
    """

    items: int = 0
    said: int = 0
    heard: int = 0
    first: bytes = b""
    tail: bytes = b""
    asked: tuple[Asked, ...] = ()
    run: Run = msgspec.field(default_factory=Run)
    frame: bytes = b""
    is_over: bool = False
    chain: RunningDigest = msgspec.field(default_factory=lambda: sha256(_START))
    whole: RunningDigest = msgspec.field(default_factory=sha256)
    turns: bytes = b""
    newest: Turn | None = None
    seen: Seen | None = None


NOTHING = Decided()


def enough(asked: Iterable[Asked]) -> Iterator[Asked]:
    """Yield the messages that may be evidence, of all messages of the client, newest first."""
    chars: dict[bytes, int] = {}
    for n, one in enumerate(asked):
        if n >= MESSAGES_WEIGHED or (n >= _LEAST_ASKED and sum(chars.values()) >= MUCH_CHARS):
            return
        chars[one.said] = one.chars
        yield one
