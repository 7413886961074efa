"""
Dialect interface: the wire format of one API, so that no other code depends on it.

History, matching, stores, the web shell, metrics and the inspector use only this interface. A
dialect is one package below `dialects`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from reasoning_replay.core.dialects.added_members import AddedMember
from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.known_state import NOTHING_KNOWN, KnownState, lines_of
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals, RefusalMark
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.dialects.states import RequestState, Way
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import Matches, match_items
from reasoning_replay.core.history.plan import ItemForm, Outcome, Plan
from reasoning_replay.core.history.prefix_cache import Owner, ParsedPrefix
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.history.turns import Lesson, Turn
from reasoning_replay.core.tenancy.scope import Account
from reasoning_replay.core.wire.packed_edits import NO_EDITS, PackedEdits


class Caller(NamedTuple):
    """
    The tenant and account of a request.

    Attributes:
        scope: 16 bytes; data of other scopes is never read.
        account: Account that upstream issues reasoning to, as far as the request names it.
    """

    scope: bytes
    account: Account


RequestT = TypeVar("RequestT", bound=ParsedRequest[HistoryItem])
RefusalT = TypeVar("RefusalT", bound=Refusal)


class Begun(NamedTuple):
    """
    The beginning of a request that is decided already, or nothing.

    Attributes:
        owner: Owner of the request in the prefix cache.
        prefix: The parsed prefix with which the request begins; None without one.
        known: What is decided about it.
        way: Why that is not all that is known.
    """

    owner: Owner = Owner()
    prefix: ParsedPrefix[HistoryPrefix[Any], KnownState] | None = None
    known: KnownState = NOTHING_KNOWN
    way: Way = Way.NEW

    @property
    def is_any(self) -> bool:
        """Whether anything is decided."""
        return self.known.outline is not None

    def anew(self, way: Way) -> "Begun":
        """Return the same with nothing decided, and why."""
        return self._replace(known=NOTHING_KNOWN, way=way)

    def check(self, found: LookupResult, refused: RefusalMark) -> None:
        """
        Check what is decided against the conversations that were found, and what is refused now.

        Raises:
            Anew: It does not hold any more.
        """
        if self.known.changed_by(lines_of(found)):
            raise Anew(self.anew(Way.OTHER_TURNS))
        if self.is_any and self.known.refusals != refused:
            raise Anew(self.anew(Way.REFUSED))

    def before_open(self) -> "Begun":
        """Return what cannot be changed by later items: these have closed what was open."""
        settled = self.known.settled
        return self._replace(known=settled) if settled is not None else self.anew(Way.BOUND)

    def unread(self, body: bytes) -> bytes:
        """Return what must be read of a body."""
        return body[self.known.end :]


class Anew(Exception):
    """What is decided does not hold: the request must be asked about again, with this beginning."""

    def __init__(self, begun: Begun) -> None:
        super().__init__()
        self.begun = begun


NOT_BEGUN = Begun()


class Question(NamedTuple):
    """
    A parsed request and the store lookups that the decision about it needs.

    Attributes:
        lookups: Store lookups, newest item first; empty if there is nothing to look up.
        begun: What is decided already.
    """

    request: ParsedRequest[HistoryItem]
    lookups: Sequence[Lookup]
    begun: Begun = NOT_BEGUN


@dataclass(frozen=True, slots=True)
class Decision:
    """
    The decision about one request.

    Attributes:
        base: Body that is edited: the client's own object, unless a repair edited it before.
        origin: Origin for the capture of the response; None if nothing is known of the request.
        repairs: Number of items that each repair touched.
        outcomes: Number of reasoning items for each outcome.
        forms: Number of items in each form.
        injected_bytes: Size of all injected reasoning.
        summary: Items by type, id and size, for people; None if it could not be made.
        added: The members that edits add.
        is_compared: Whether one of them names a response, to learn why the prompt cache missed.
        is_doubted: As in Bodies.
    """

    state: RequestState
    base: bytes
    edits: PackedEdits = NO_EDITS
    origin: Origin | None = None
    repairs: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    forms: Mapping[ItemForm, int] = field(default_factory=dict)
    injected_bytes: int = 0
    summary: ItemSummary | None = None
    way: Way = Way.NEW
    added: tuple[AddedMember, ...] = ()
    is_compared: bool = False
    is_doubted: bool = False

    @property
    def body(self) -> bytes:
        """Body to send; the client's own object unless something is edited."""
        return self.edits.apply(self.base)


@dataclass(slots=True)
class Bodies:
    """
    The body of a request, as received and as sent.

    Attributes:
        received: Body as the client sent it, after content decoding.
        _sent: Body that is sent; None: it is `received` with `_edits`.
        path: Path of the request; in some dialects it names the model.
        added: The members that were added.
        is_doubted: Whether it holds nothing that was captured before a refusal of unknown words.
        is_continued: Whether it is known which conversation it continues.
    """

    received: bytes
    _sent: bytes | None
    path: str = ""
    _edits: PackedEdits = NO_EDITS
    added: tuple[AddedMember, ...] = ()
    is_doubted: bool = False
    is_continued: bool = False

    @property
    def sent(self) -> bytes:
        """Body that upstream gets; the same object if nothing was edited."""
        if self._sent is None:  # joined only now, because most requests are not refused
            self._sent = self._edits.apply(self.received)
        return self._sent

    @property
    def is_edited(self) -> bool:
        """Whether the proxy edited the request, so that it may be the cause of a refusal."""
        return self._sent is not self.received

    @property
    def to_send(self) -> bytes | list[bytes | memoryview]:
        """Body that is sent, or its pieces if it is not joined."""
        if self._sent is None:
            return self._edits.pieces(self.received)
        return self._sent

    @property
    def size_bytes(self) -> int:
        """Memory of both forms, in bytes."""
        if self._sent is None:
            return len(self.received) + self._edits.new_bytes
        return len(self.received) + (len(self._sent) if self.is_edited else 0)


@dataclass(frozen=True, slots=True)
class Cure:
    """
    The request to send in place of a refused one.

    Attributes:
        body: Body to send; it always differs from the refused one.
        header: Name of a header with a list, and a value that it gets in addition.
        injected: Number of its reasoning items that the client did not send.
        injected_bytes: Total size of those items.
        present: How many more of the client's due items it has than the refused one; mostly < 0.
        phases: Number of its messages with a `phase` that the client did not send.
        degraded: Number of places that say that there is no reasoning, so upstream demands none.
        is_clients_own: Whether the body equals the client's, byte for byte.
        lost: Digests of the blobs that it leaves out. If it is accepted, they caused the refusal.
        completed: Conversations in which captured reasoning replaces what the client made of it.
        withheld: Stored turns that hold a blob that upstream named. Their runs with lost blobs
            must never be injected again.
        binding: As in `Origin`, of this request.
        is_same_history: Whether its items are those of the refused request; decisions then hold.
        lessons: What it teaches about its conversation, if it is accepted.
        origin: The conversation that its request continues; None if that was known before.
        matched: What the dialect matched for it, if not as for any request.
    """

    body: bytes
    header: tuple[bytes, bytes] | None = None
    injected: int = 0
    injected_bytes: int = 0
    present: int = 0
    phases: int = 0
    degraded: int = 0
    is_clients_own: bool = False
    lost: frozenset[bytes] = frozenset()
    completed: frozenset[bytes] = frozenset()
    withheld: tuple[Turn, ...] = ()
    binding: bytes = b""
    is_same_history: bool = False
    lessons: tuple[Lesson, ...] = ()
    origin: Origin | None = None
    matched: Matches | None = None


class Retrieval(NamedTuple):
    """
    How a response is captured that a client fetches.

    Attributes:
        id_in: Returns the id of the response that a GET of a path fetches; "" if it fetches none.
        origin_of: Returns the origin of a response with this id, from the turns that are known;
            None if its capture would add nothing.
    """

    id_in: Callable[[str], str]
    origin_of: Callable[[str, LookupResult], Origin | None]


class Readers(NamedTuple, Generic[RequestT, RefusalT]):
    """
    The readers of a wire format. They are pure.

    Attributes:
        request: Reader of a request.
        capture: Capture of a response: its origin, and the most bytes that it may keep.
        diagnose: Classifies a refusal: its status, and its decoded body or the data of an event.
        is_failing: Whether a stream that begins with this event, or a JSON response that is this,
            has failed, for any reason.
        is_refusing: Whether it failed because of the request.
        maybe_failing: Whether a JSON response with a status of success begins as an error; None:
            more of it must be read. No reader: the API always sends a status that tells.
        retrieval: How a fetched response is captured; None: no request fetches one.
        is_opening: Whether an event only says that a response has begun: what follows may still say
            that it failed. No reader: no event of the API does.
    """

    request: RequestReader[RequestT, Any]
    capture: Callable[[Origin, int], Capture]
    diagnose: Callable[[int, bytes], RefusalT]
    is_failing: Callable[[bytes], bool]
    is_refusing: Callable[[bytes], bool]
    maybe_failing: Callable[[bytes], bool | None] | None = None
    retrieval: Retrieval | None = None
    is_opening: Callable[[bytes], bool] | None = None


class Dialect(ABC, Generic[RequestT, RefusalT]):
    """
    The wire format of one API, at one upstream: data, readers, and what it decides by itself.

    `engine` has the way of a request, and all state. The methods are pure, and in the order in
    which it calls them. Those with a body are optional: only some APIs need them.

    Attributes:
        name: Value of the label `dialect`.
        readers: See Readers.
        has_accounts: Whether reasoning belongs to the account that it was issued to.
        repeats_cures: Whether `repaired` repeats what cured the conversation before. If not, the
            engine repeats the cure of unknown words.
    """

    name: ClassVar[str]
    readers: ClassVar[Readers[Any, Any]]
    has_accounts: ClassVar[bool] = False
    repeats_cures: ClassVar[bool] = False

    def repaired(
        self, request: RequestT, found: LookupResult, refused: KnownRefusals
    ) -> tuple[RequestT, Mapping[Any, int]]:
        """
        Return a request without errors that are certain, and the items that each repair took.

        If it is the same object, that holds for all items; decided ones were asked before.
        """
        return request, {}

    def match(self, request: RequestT, found: LookupResult, refused: KnownRefusals) -> Matches:
        """Return the captured items that those of a request came from."""
        return match_items(request, found)

    @abstractmethod
    def plan(self, request: RequestT, matched: Matches, refused: KnownRefusals) -> Plan:
        """
        Return the edits that inject the reasoning that a request lacks, after what is decided.

        The plan says from which item on later ones may still change it (`Plan.open_from`).

        Raises:
            Reopened: The request must be planned as a whole.
        """

    def finished(
        self, request: RequestT, plan: Plan, parent: Turn | None, refused: KnownRefusals
    ) -> Plan:
        """
        Return the plan of a request that creates a response, with the edits that depend on it.

        Args:
            request: The request.
            plan: What is injected.
            parent: The turn that it continues; None if unknown.
            refused: What upstream refused.
        """
        return plan

    def binding_of(self, request: RequestT, refused: KnownRefusals) -> bytes:
        """Return the `Origin.binding` of a request that is sent without edits."""
        return b""

    def comparison_in(self, request: RequestT, response_id: str) -> bytes:
        """
        Return the member to add, after a comma, that asks why the prompt cache missed; b"": none.

        Args:
            request: The request, which creates a response.
            response_id: Id of the response that it continues; "" if unknown.
        """
        return b""

    def lookups_for_cure(self, sent: RequestT, refusal: RefusalT) -> Sequence[Lookup]:
        """Return the store lookups that the cure of a refused request needs."""
        return keys_of_request(sent)

    @abstractmethod
    def cure(  # noqa: PLR0913 (all that a cure depends on)
        self,
        sent: RequestT,
        given: RequestT,
        refusal: RefusalT,
        usable: LookupResult,
        refused: KnownRefusals,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        """
        Return the request to send instead of a refused one; None to forward the refusal.

        Args:
            sent: Request as it was refused.
            given: Request as the client sent it; the same object if nothing was edited.
            refusal: Its diagnosis; of the kind `form`, if its words are unknown.
            usable: Result of the lookups, without the reasoning that upstream refused.
            refused: What upstream refused, with the lessons of the conversation.
            without_reasoning: Whether all reasoning is blamed that this exchange can do without:
                what is returned is the last attempt.
        """

    @abstractmethod
    def lessons(self, refusal: RefusalT, cure: Cure, model: str) -> Iterable[tuple[str, str]]:
        """
        Return the kind and the name of what upstream would refuse again, blobs aside.

        The cure was accepted. The model is that of the `Origin`: the body may not name it.
        """
