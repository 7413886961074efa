"""
Dialect: what the wire format of one API must say, so that everything else can ignore it.

History, matching, stores, the web shell, metrics and the inspector know these answers alone. A
dialect is one package below `dialects`; every method here is pure or changes only the dialect's
own bounded memory, so it may run in a thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.matching.joining import NOT_JOINED, Joined
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.core.tenancy.scope import Account

__all__ = [
    "AnyDialect",
    "Caller",
    "Capture",
    "CaptureSnapshot",
    "Cure",
    "Decision",
    "Dialect",
    "Origin",
    "Question",
    "Refusal",
    "RefusedBodies",
    "Usage",
]


class Caller(NamedTuple):
    """
    Whose request it is.

    Attributes:
        scope: 16 bytes; nothing of another scope is ever looked at.
        account: The account that the upstream issues reasoning to, as far as the request names it.
    """

    scope: bytes
    account: Account


class Origin(msgspec.Struct, frozen=True, gc=False):
    """
    What the request was, as far as its answer's turn remembers it.

    Attributes:
        conversation: The one it continues; b"" starts a new one.
        parent: The newest turn matched in its history; b"" when none was.
        model: As the client asked for it; "" when unknown (a GET).
        stores: Whether the upstream keeps the items, as far as the request says.
        created_ms: Of the turn, where it was begun before; 0: the first snapshot begins it.
        seen: As of `Turn`.
    """

    context: Context
    model: str
    conversation: bytes = b""
    parent: bytes = b""
    stores: bool = True
    created_ms: int = 0
    seen: Seen | None = None


class CaptureSnapshot(msgspec.Struct, frozen=True, gc=False):
    """
    The answer as far as it is known.

    Attributes:
        status: The dialect's word for it; "" while there is none.
        turn: What to keep; None while there is nothing to recognise it by.
    """

    status: str
    turn: Turn | None


class Usage(msgspec.Struct, frozen=True, gc=False):
    """
    How many tokens an answer took; None where upstream does not say, or nothing that can be.

    Attributes:
        cached_tokens: Part of `input_tokens`.
        reasoning_tokens: Part of `output_tokens`.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class Capture(Protocol):
    """
    Follows one answer. It never raises and never holds the client up.

    Feed it with `feed` (chunks of a stream), `hear` (events without framing) or `read` (a whole
    JSON answer). Whenever `dirty` is true afterwards, something should be saved before the client
    sees what was fed.

    Attributes:
        gave_up: Why it no longer follows; "" while it does.
        reasoning_items, reasoning_bytes: Of the turn in the last snapshot.
        removed: How many reasoning items the upstream says it left out, by reason.
        reasoning_context: How much reasoning it went by, in a fixed word; "" if it did not say.
        usage: Tokens, as the upstream reports them at the end; None if it does not.
    """

    dirty: bool
    gave_up: str
    reasoning_items: int
    reasoning_bytes: int
    removed: Mapping[str, int]
    reasoning_context: str
    usage: Usage | None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of a stream."""
        ...

    def hear(self, data: bytes) -> None:
        """Take the data of one event."""
        ...

    def read(self, answer: bytes) -> None:
        """Take a whole JSON answer."""
        ...

    def close(self) -> None:
        """Take the end of the stream."""
        ...

    def snapshot(self, created_ms: int) -> CaptureSnapshot:
        """Return what is known so far, and count it as saved."""
        ...

    def note_cure(self) -> None:
        """Note that upstream did not see what was decided: its answer is to a cured request."""
        ...

    def successor(self) -> Origin:
        """Return the origin of a response that the upstream begins behind this one, unasked."""
        ...

    @property
    def response_id(self) -> str:
        """The answer's id; "" while it is not known."""
        ...

    @property
    def model(self) -> str:
        """Who answers, in the upstream's words; "" while that is not known."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether the upstream says that there is no answer after all."""
        ...


class Refusal(Protocol):
    """A refusal, understood as far as the dialect's error table goes."""

    @property
    def kind(self) -> StrEnum:
        """What it is about; also a label."""
        ...

    @property
    def is_understood(self) -> bool:
        """Whether the table knows it, so that a cure may be sought."""
        ...


RequestT = TypeVar("RequestT", bound=RequestHistory[HistoryItem])
RefusalT = TypeVar("RefusalT", bound=Refusal)


class Question(NamedTuple, Generic[RequestT]):
    """
    What a request is, and what the store must be asked before anything is decided about it.

    Attributes:
        request: As parsed.
        lookups: For the store, newest item first; empty where there is nothing to look up.
    """

    request: RequestT
    lookups: Sequence[Lookup]


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What is decided about a request.

    Attributes:
        state: See RequestState.
        body: What is sent: the same object as the client's body unless something is edited.
        origin: For the capture of the answer; None where nothing is known of the request.
        repairs: How many items each repair touched.
        outcomes: What became of the reasoning, counted.
        injected_bytes: Of all injected reasoning.
        summary: What people may see of the items; None where it could not be made.
        joined: Conversations that turned out to be the one that the answer is saved in.
    """

    state: RequestState
    body: bytes
    origin: Origin | None = None
    repairs: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    injected_bytes: int = 0
    summary: ItemSummary | None = None
    joined: Joined = NOT_JOINED


@dataclass(frozen=True, slots=True)
class RefusedBodies:
    """
    The two forms of a request that was refused.

    Attributes:
        given: What the client sent, decoded from any content coding.
        sent: What the upstream refused; the same object where nothing was edited.
    """

    given: bytes
    sent: bytes


@dataclass(frozen=True, slots=True)
class Cure:
    """
    What to send in place of a refused request.

    Attributes:
        body: The request, never the one that was refused.
        injected: How many reasoning items it has that the client did not send.
        injected_bytes: How many bytes they are.
        is_clients_own: Whether it is what the client sent, to the byte.
        lost: Digests of the blobs that it goes without. Once it is accepted, they were the fault.
        withheld: Turns, as stored, of which the runs with lost blobs must never be injected again.
    """

    body: bytes
    injected: int = 0
    injected_bytes: int = 0
    is_clients_own: bool = False
    lost: frozenset[bytes] = frozenset()
    withheld: tuple[Turn, ...] = ()


class Dialect(Protocol[RequestT, RefusalT]):
    """
    One API's wire format. A request meets the methods in this order.

    Attributes:
        name: The label `dialect`.
    """

    name: str

    def ask(self, body: bytes, headers: Mapping[str, str], scope: bytes) -> Question[RequestT]:
        """
        Parse a request.

        Raises:
            TooMany: It has more items or values than are worth looking at.
            Unspliceable: Readers could disagree on it; it must be forwarded as it is.
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
        Decide what a request lacks, and splice it in.

        Args:
            caller: Whose request it is.
            body: As the client sent it, decoded from any content coding.
            question: As `ask` returned it.
            found: What the store holds; None when it did not answer.
            is_created: Whether the request makes a response that will be captured.
        """
        ...

    def capture(self, origin: Origin | None) -> Capture:
        """Return what follows the answer; `origin` is None where the request is unknown."""
        ...

    def retrieved(self, path: str) -> str:
        """Return the id of the response that a GET of this path fetches; "" for none."""
        ...

    def origin_of(self, response_id: str, found: LookupResult) -> Origin | None:
        """Return the origin of a fetched response; None where its capture would add nothing."""
        ...

    def is_refusal(self, status: int) -> bool:
        """Tell whether an answer of this status is worth diagnosing."""
        ...

    def is_failing_event(self, data: bytes) -> bool:
        """Tell whether a stream that begins with this event has failed, for whatever reason."""
        ...

    def is_refusing_event(self, data: bytes) -> bool:
        """Tell whether a stream that begins with this event refuses what the request is."""
        ...

    def diagnose(self, status: int, body: bytes) -> RefusalT:
        """Tell what a refusal is about; `body` is decoded, or the data of an event."""
        ...

    def ask_for_cure(self, bodies: RefusedBodies, refusal: RefusalT) -> Question[RequestT]:
        """
        Parse a refused request, and say what must be looked up to cure it.

        Raises:
            Unspliceable: It cannot be read.
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
        """Decide what to send in place of a refused request; None: the refusal is the client's."""
        ...

    def learn(self, scope: bytes, refusal: RefusalT, cure: Cure) -> None:
        """Note that a cure was accepted: what it goes without will be refused again."""
        ...

    def note_issued(self, account: Account, turn: Turn) -> None:
        """Note for which account the upstream issued the reasoning of a turn."""
        ...


AnyDialect = Dialect[Any, Any]
