"""
Capture interface: what a dialect reads from one response, and where that response belongs.

The types of the other direction, the request and its cure, are in `base`.
"""

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Raw, structs

from reasoning_replay.core.dialects.cache_diagnoses import CacheDiagnosis
from reasoning_replay.core.dialects.error_texts import NO_NAMES
from reasoning_replay.core.dialects.lenient import value_of
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Emitted, Lesson, Turn, TurnPart
from reasoning_replay.core.wire.json_spans import NONE

# Estimated memory of an item in a capture, without its JSON and its texts, in bytes. Measured by
# tracemalloc: 200 to 400, and about 900 for its lookup keys once its JSON is handed out.
ITEM_BYTES = 600
# Longest work of a capture on the event loop, as it is estimated before, in microseconds. What is
# longer is left to `catch_up`.
AT_ONCE_US = 5_000
# Estimated time for each item of a response, and for its bytes.
_ITEM_US = 40
_BYTES_PER_US = 100
_NOTHING: Mapping[str, int] = MappingProxyType({})
# Reasons for which upstream leaves reasoning out: words of OpenAI's API (Python SDK 3.52,
# `response.py`). Anthropic's API has two of them in a longer form (`prefix_binding_mismatch`).
# Any other word counts as "other".
REMOVALS = (
    "organization_mismatch",
    "end_user_mismatch",
    "model_mismatch",
    "prefix_mismatch",
    "turn_boundary",
    "other",
)


def work_us(size: int, items: int, item_us: int = _ITEM_US) -> int:
    """Return the estimated time to read so many bytes of a response, with so many items."""
    return item_us * items + size // _BYTES_PER_US


def size_of(item: Emitted) -> int:
    """Return the estimated memory of an item, except its reasoning."""
    texts = item.type, item.call_id, item.name
    return ITEM_BYTES + len(item.raw) + sum(map(sys.getsizeof, texts))


class Origin(msgspec.Struct, frozen=True, gc=False):
    """
    Facts about a request that are stored with the turn of its response; see `Turn`.

    Attributes:
        conversation: Id of the conversation that it continues; b"" starts a new one.
        parent: Id of the newest turn matched in its history, else of the turn of the response
            that the request names; b"" if there is neither.
        model: Model that the client requested; "" when unknown (a GET).
        stores: Whether upstream stores the items, according to the request.
        created_ms: Creation time of a turn whose capture began earlier, in ms since the epoch;
            0: the first snapshot sets it.
        after_ms: Time of the newest turn that is known of the conversation; 0 if there is none.
        keeps_id: Whether the turn keeps the id of the response.
    """

    context: Context
    model: str
    conversation: bytes = b""
    parent: bytes = b""
    stores: bool = True
    created_ms: int = 0
    after_ms: int = 0
    seen: Seen | None = None
    switched_off: bool = False
    binding: bytes = b""
    cache_key: bytes = b""
    lessons: tuple[Lesson, ...] = ()
    keeps_id: bool = False

    def time_of_turn(self, now_ms: int) -> int:
        """
        Return the time of the turn of the response, in ms since the epoch.

        The turns of a conversation are ordered by their times, which replicas read from clocks that
        may differ. So a turn is always later than those that its request continues (a hybrid
        logical clock). If the clock of one replica is far ahead, the turns of the conversations
        that it has answered count up from there in steps of a millisecond, at every replica; their
        order stays right, and other conversations are not affected. Nothing expires by this time.
        """
        return self.created_ms or max(now_ms, self.after_ms + 1)

    def turn(  # noqa: PLR0913 (all that a response tells)
        self,
        this: bytes,
        items: Sequence[Emitted],
        models: tuple[str, ...],
        created_ms: int,
        *,
        is_stored: bool,
        response_id: str = "",
    ) -> Turn:
        """Return the turn of the response, with this id and these items."""
        return Turn(
            id=this,
            conversation=self.conversation or this,
            parent=self.parent,
            models=models,
            is_stored=is_stored,
            created_ms=created_ms,
            context=self.context,
            items=tuple(items),
            seen=self.seen,
            switched_off=self.switched_off,
            binding=self.binding,
            cache_key=self.cache_key,
            lessons=self.lessons,
            response_id=response_id if self.keeps_id else "",
        )


# Of a response whose request is not known.
UNKNOWN_ORIGIN = Origin(context=Context(), model="")


class CaptureSnapshot(msgspec.Struct, frozen=True, gc=False):
    """
    News of a response since the last snapshot.

    Attributes:
        status: Status in the dialect's own word; "" while unknown.
        part: Part of the turn to store; None if nothing is new, or while the turn has nothing by
            which it could be matched.
    """

    status: str
    part: TurnPart | None

    @property
    def turn(self) -> Turn | None:
        """The turn with its new items: of the first snapshot, with all items so far."""
        return self.part.turn if self.part is not None else None


# Statuses of a response that goes on.
PENDING = frozenset({"queued", "in_progress"})


class Capture(ABC):
    """
    The capture of one response, plain or streamed.

    It gets the same bytes as the client. It never raises, and never delays the client: if it cannot
    follow the response, it stops and keeps the reason.

    Call `feed` (chunks of a stream), `hear` (events without framing) or `read` (a whole JSON
    response). If `dirty` is true afterwards, call `catch_up` if it `is_behind`, and save snapshots
    until `dirty` is false, before the client gets those bytes.

    Cost: linear in the bytes of the response; an item costs the same as the first and as the
    thousandth. On the event loop, all calls but `catch_up` return after about AT_ONCE_US.

    Attributes:
        dirty: Whether there is anything to save, or to catch up with.
        gave_up: Reason why it stopped following the response; "" while it follows.
        reasoning_items, reasoning_bytes: Count and size of the reasoning in all snapshots.
        removed: Number of reasoning items that upstream reports it left out, by one of REMOVALS.
        reasoning_context: How much reasoning upstream used, as a fixed word; "" if not reported.
        has_unknown_carrier: Whether it has encrypted or signed content in a place that no dialect
            knows, so that nothing of it is captured.
        usage: Token counts that upstream reports at the end; None if it does not.
        cache_diagnosis: Why its prompt cache missed, if upstream tells; else None.
        error: Names of the error with which upstream reports that the response failed.
        model: Model that responds, as upstream names it; "" while unknown.
        is_freed: Whether `free` was called.
        has_failed: Whether upstream reports that the response failed or was cancelled.
    """

    def __init__(self, origin: Origin, max_bytes: int) -> None:
        """Start; `max_bytes` bounds an event, and all that is kept of the response."""
        self.dirty = False
        self.gave_up = ""
        self.reasoning_items = 0
        self.reasoning_bytes = 0
        self.removed = _NOTHING
        self.reasoning_context = ""
        self.has_unknown_carrier = False
        self.usage: Usage | None = None
        self.cache_diagnosis: CacheDiagnosis | None = None
        self.error = NO_NAMES
        self.response_id = ""
        self.model = ""
        self.has_failed = False
        self._origin = origin
        self._max_bytes = max_bytes
        self._status = ""  # in the dialect's own word, once it is known
        self._unread = b""  # a JSON response that is not read yet
        self.is_freed = False
        self._is_over = False

    @property
    def is_complete(self) -> bool:
        """Whether upstream has said how the response ended, and that it did not fail."""
        return bool(self._status) and self._status not in PENDING and not self.has_failed

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Estimated memory of all that it holds of the response, in bytes."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether there is work left that would block the event loop."""

    @abstractmethod
    def catch_up(self) -> None:
        """Do the work that is left; this may run in a thread, while nothing else is called."""

    def free(self) -> None:
        """
        Stop following the response, and free all that is held of it; what it reports stays.

        It may live much longer than its response is captured: until the client has read the rest.
        """
        self.gave_up = self.gave_up or "freed"
        self._unread, self.dirty, self.is_freed = b"", False, True

    @abstractmethod
    def feed(self, chunk: bytes) -> None:
        """Process the next bytes of a stream."""

    @abstractmethod
    def hear(self, data: bytes) -> None:
        """Process the data of one event."""

    @abstractmethod
    def close(self) -> None:
        """Process the end of the stream."""

    def read(self, response: bytes) -> None:
        """Process a whole JSON response."""
        if work_us(len(response), response.count(b"{")) > AT_ONCE_US:
            self._unread, self.dirty = response, True
        else:
            self._read(response)

    @abstractmethod
    def _read(self, response: bytes) -> None:
        """Process a whole JSON response now."""

    @abstractmethod
    def snapshot(self, created_ms: int, max_items: int = sys.maxsize) -> CaptureSnapshot:
        """
        Return what is new since the last snapshot, and mark it as saved.

        Args:
            created_ms: Current time, in ms since the epoch; see `Origin.time_of_turn`. The turn
                keeps the time of its first snapshot.
            max_items: Most items; `dirty` stays true if there are more.
        """

    def note_cure(
        self,
        binding: bytes = b"",
        lessons: tuple[Lesson, ...] = (),
        continues: Origin | None = None,
        *,
        is_decided: bool = False,
    ) -> None:
        """
        Record that upstream saw the healed request, and not as it was first sent.

        What was recorded of that is dropped; what the cure taught is kept with the turn. If only
        the healed request shows which conversation it continues, or if it is decided that it
        continues that one, the turn is stored there.
        """
        origin = structs.replace(self._origin, seen=None, binding=binding, lessons=lessons)
        is_decided = is_decided and continues is not None and bool(continues.conversation)
        if continues is not None and (is_decided or not origin.conversation):
            origin = structs.replace(
                origin,
                conversation=continues.conversation,
                parent=continues.parent if is_decided else origin.parent or continues.parent,
                after_ms=continues.after_ms,
            )
        self._origin = origin

    def _note_removals(self, transformations: Raw) -> None:
        """Record what upstream reports that it left out of its input, if it reports that."""
        if transformations is not NONE:
            removals = _read_removals(transformations)
            self.removed = self.removed if removals is None else removals

    def successor(self) -> Origin:
        """Return the origin of a response that upstream starts after this one, unrequested."""
        return Origin(context=Context(), model=self._origin.model)


def _read_removals(transformations: Raw) -> Mapping[str, int] | None:
    """Return how many items upstream left out, by one of REMOVALS; None if not reported."""
    said = value_of(transformations)
    if not isinstance(said, list):
        return None
    reasons = (one.get("reason") for one in said if isinstance(one, dict))
    words = (str(reason).replace("_binding_", "_") for reason in reasons)
    return Counter(word if word in REMOVALS else "other" for word in words)
