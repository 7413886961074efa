"""
Dialect interface: the wire format of one API, so that no other code depends on it.

History, matching, stores, the web shell, metrics and the inspector use only this interface. A
dialect is one package below `dialects`. Every method here is pure or changes only the dialect's
own bounded memory, so it may run in a thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from reasoning_replay.core.dialects.captures import (
    Capture,
    ErrorNames,
    Origin,
)
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.item_changes import ItemChange
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.matching.joining import NOT_JOINED, Joined
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.sent_items import NOT_SENT, SentItems
from reasoning_replay.core.history.turns import Reasoning, Turn
from reasoning_replay.core.tenancy.scope import Account
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = [
    "AnyDialect",
    "Caller",
    "Cure",
    "Decision",
    "Dialect",
    "Question",
    "Refusal",
    "RefusedBodies",
]


class Caller(NamedTuple):
    """
    The tenant and account of a request.

    Attributes:
        scope: 16 bytes; data of other scopes is never read.
        account: Account that upstream issues reasoning to, as far as the request names it.
        is_watched: Whether the digests of the items that are sent are wanted.
    """

    scope: bytes
    account: Account
    is_watched: bool = True


class Refusal(Protocol):
    """An upstream's refusal of a request, classified by the dialect's error table."""

    @property
    def kind(self) -> StrEnum:
        """Error class; also a metric label."""
        ...

    @property
    def is_understood(self) -> bool:
        """Whether the refusal was classified, so that a cure can be tried."""
        ...


RequestT = TypeVar("RequestT", bound=RequestHistory[HistoryItem])
RefusalT = TypeVar("RefusalT", bound=Refusal)


class Question(NamedTuple, Generic[RequestT]):
    """
    A parsed request and the store lookups that the decision about it needs.

    Attributes:
        request: The parsed request.
        lookups: Store lookups, newest item first; empty if there is nothing to look up.
    """

    request: RequestT
    lookups: Sequence[Lookup]


@dataclass(frozen=True, slots=True)
class Decision:
    """
    The decision about one request.

    Attributes:
        state: See RequestState.
        body: Body to send: the client's own object unless something is edited.
        origin: Origin for the capture of the response; None if nothing is known of the request.
        repairs: Number of items that each repair touched.
        outcomes: Count of each reasoning outcome.
        injected_bytes: Size of all injected reasoning.
        summary: Items by type, id and size, for people; None if it could not be made.
        joined: Conversations found to be part of the one in which the response is stored.
        edits: Edits of the request's body that make `body`; None if it was edited repeatedly.
    """

    state: RequestState
    body: bytes
    origin: Origin | None = None
    repairs: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    injected_bytes: int = 0
    summary: ItemSummary | None = None
    joined: Joined = NOT_JOINED
    edits: Sequence[Edit] | None = None


class RefusedBodies:
    """
    The two forms of a request that was refused.

    Attributes:
        given: Body as the client sent it, after content decoding.
        path: Path of the request; in some dialects it names the model.
    """

    __slots__ = ("_edits", "_sent", "given", "path")

    def __init__(
        self, given: bytes, sent: bytes | None, path: str = "", edits: Sequence[Edit] = ()
    ) -> None:
        """Keep the body that is sent; None: it is `given` with these edits."""
        self.given = given
        self.path = path
        self._sent = sent
        self._edits = edits

    @property
    def sent(self) -> bytes:
        """Body that upstream refused; the same object if nothing was edited."""
        if self._sent is None:  # joined only now, because most requests are not refused
            self._sent = json_spans.apply(self.given, self._edits)
        return self._sent

    @property
    def is_edited(self) -> bool:
        """Whether the proxy edited the request, so that it may be the cause of a refusal."""
        return self._sent is not self.given

    @property
    def to_send(self) -> bytes | list[bytes | memoryview]:
        """Body that is sent, or its pieces if it is not joined."""
        if self._sent is None:
            return json_spans.spliced(self.given, self._edits)
        return self._sent

    @property
    def size_bytes(self) -> int:
        """Memory of both forms, in bytes."""
        if self._sent is None:
            return len(self.given) + sum(len(edit.new) for edit in self._edits)
        return len(self.given) + (len(self._sent) if self.is_edited else 0)

    def last_resort(self, refused: "Cure") -> "Cure | None":
        """Return the client's own request; None if upstream refused that already."""
        is_known = refused.is_clients_own or not self.is_edited
        return None if is_known else Cure(self.given, is_clients_own=True)


@dataclass(frozen=True, slots=True)
class Cure:
    """
    The request to send in place of a refused one.

    Attributes:
        body: Body to send; it always differs from the refused one.
        header: Name of a header with a list, and a value that it gets in addition.
        injected: Number of its reasoning items that the client did not send.
        injected_bytes: Total size of those items.
        phases: Number of its messages with a `phase` that the client did not send.
        degraded: Number of places where it says that there is no reasoning, so that upstream does
            not demand it.
        is_clients_own: Whether the body equals the client's, byte for byte.
        lost: Digests of the blobs that it leaves out. If it is accepted, they caused the refusal.
        completed: Conversations in which captured reasoning replaces what the client made of it.
        withheld: Stored turns that hold a blob that upstream named. Their runs with lost blobs
            must never be injected again.
        binding: As in `Origin`, of this request.
        sent: Digests of its items.
        changes: How its items differ from those of the refused request.
    """

    body: bytes
    header: tuple[bytes, bytes] | None = None
    injected: int = 0
    injected_bytes: int = 0
    phases: int = 0
    degraded: int = 0
    is_clients_own: bool = False
    lost: frozenset[bytes] = frozenset()
    completed: frozenset[bytes] = frozenset()
    withheld: tuple[Turn, ...] = ()
    binding: bytes = b""
    sent: SentItems = NOT_SENT
    changes: tuple[ItemChange, ...] = ()


class Dialect(Protocol[RequestT, RefusalT]):
    """
    The wire format of one API. The methods are in the order in which a request uses them.

    Attributes:
        name: Value of the label `dialect`.
    """

    name: str

    def ask(
        self, body: bytes, headers: Mapping[str, str], scope: bytes, path: str = ""
    ) -> Question[RequestT]:
        """
        Parse a request and return the store lookups that it needs.

        The path, without its query, names the model in some dialects.

        Raises:
            TooMany: The request has too many items or values to process.
            Unspliceable: Parsers could disagree on the body; it must be forwarded unchanged.
        """
        ...

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[RequestT],
        found: LookupResult | None,
        *,
        is_created: bool,
    ) -> Decision:
        """
        Decide which reasoning a request lacks, and inject it.

        Args:
            caller: Scope and account of the request.
            body: Body as the client sent it, after content decoding.
            question: Result of `ask`.
            found: Result of the lookups; None if the store did not respond.
            is_created: Whether the request creates a response that will be captured.
        """
        ...

    def capture(self, origin: Origin | None) -> Capture:
        """Return the capture for a response; `origin` is None if the request is unknown."""
        ...

    def retrieved(self, path: str) -> str:
        """Return the id of the response that a GET of this path fetches; "" if it fetches none."""
        ...

    def origin_of(self, response_id: str, found: LookupResult) -> Origin | None:
        """Return the origin of a fetched response; None if its capture would add nothing."""
        ...

    def is_refusal(self, status: int) -> bool:
        """Return whether a response with this status is worth diagnosing."""
        ...

    def maybe_failing(self, start: bytes) -> bool | None:
        """
        Return whether a JSON response with a status of success begins as an error.

        None: more of it must be read, so the response is held; False for b"": it is never held.
        """
        ...

    def is_failing_event(self, data: bytes) -> bool:
        """Return whether a stream that begins with this event has failed, for any reason."""
        ...

    def is_refusing_event(self, data: bytes) -> bool:
        """Return whether a stream that begins with this event failed because of the request."""
        ...

    def error_names(self, body: bytes) -> ErrorNames:
        """Return the names of an error; `body` is as in `diagnose`. Never raises."""
        ...

    def diagnose(self, status: int, body: bytes) -> RefusalT:
        """Classify a refusal; `body` is a decoded response body, or the data of an event."""
        ...

    def ask_for_cure(self, bodies: RefusedBodies, refusal: RefusalT) -> Question[RequestT]:
        """
        Parse a refused request and return the store lookups that a cure needs.

        Raises:
            Unspliceable: The body cannot be parsed safely.
        """
        ...

    def cure(
        self,
        scope: bytes | None,
        bodies: RefusedBodies,
        question: Question[RequestT],
        refusal: RefusalT,
        found: LookupResult,
    ) -> Cure | None:
        """Return the request to send instead of a refused one; None to forward the refusal."""
        ...

    def learn(self, scope: bytes, refusal: RefusalT, cure: Cure, model: str) -> None:
        """
        Record an accepted cure: upstream would refuse the content that it leaves out again.

        The model is the one of the request's `Origin`: the body may not name it.
        """
        ...

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """Record for which account upstream issued the reasoning of a response."""
        ...


AnyDialect = Dialect[Any, Any]
