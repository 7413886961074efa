"""
Cures: the way of a cure in every dialect.

A cure is the smallest edit that makes a refused request acceptable, without inventing anything:

- Reasoning is missing: all that is known is injected, also what an earlier request lacked.
- Reasoning is refused, and the client sends other reasoning than a known turn has where upstream
  means: what was captured goes in its place, and so in all such messages (*completed*).
- Anything else: what the dialect leaves out, in the last resort all that the proxy injected.

The Responses API, whose reasoning is no part of a message, has edits of its own in all of these.

All of it is pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.lessons import blobs_of, is_of
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Turn

RequestT = TypeVar("RequestT", bound=ParsedRequest[Any])
RefusalT = TypeVar("RefusalT", bound=Refusal)


class SentReasoning(NamedTuple):
    """
    One piece of reasoning in a request.

    Attributes:
        blobs: Digests of what upstream can read in it, or refuse.
        size_bytes: Its size.
    """

    blobs: tuple[bytes, ...]
    size_bytes: int


@dataclass(eq=False)
class RefusedRequest(ABC, Generic[RequestT, RefusalT]):
    """
    A refused request, and how its dialect cures it.

    Attributes:
        sent: Request as it was refused.
        given: Request as the client sent it; the same object if nothing was edited.
        diagnosis: Why it was refused.
        plan: What injects all reasoning that is known for `given`, or for `asked`.
        turns: Stored turns of its conversation.
        asked: The request that is planned for, if that is not `given`.
        planned: Body of that request with the plan.
        completed: Offset of each of its messages in which the plan replaces the client's reasoning
            -> the conversation.
        without_reasoning: Whether all reasoning is blamed: the client's own request, without any.
        degraded: Number of places that get a value that says that there is no reasoning.
        read: Reader of a request.
        completable: Refusals that the client's own reasoning may cause.
        about_blobs: Refusals that prove that upstream refuses what a cure leaves out.
    """

    read: ClassVar[RequestReader[Any, Any]]
    completable: ClassVar[frozenset[str]] = frozenset({"blob", "form"})
    about_blobs: ClassVar[frozenset[str]] = frozenset({"blob", "form"})

    sent: RequestT
    given: RequestT
    diagnosis: RefusalT
    plan: Plan = field(kw_only=True)
    turns: Sequence[Turn] = field(kw_only=True)
    asked: RequestT | None = field(default=None, kw_only=True)
    without_reasoning: bool = field(default=False, kw_only=True)
    degraded: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Plan the retry."""
        self.planned = self.plan.apply((self.asked or self.given).body)
        self.completed: Mapping[int, bytes] = self.plan.completed

    @abstractmethod
    def reasoning_in(self, request: RequestT) -> Mapping[Hashable, SentReasoning]:
        """Return the reasoning in a request, by what tells each piece from the others."""

    def due_in(self, request: RequestT) -> AbstractSet[Hashable]:
        """Return which reasoning of the client counts as present; by default, all of it."""
        return self.reasoning_in(request).keys()

    def is_concerned(self) -> bool:
        """Return whether the refusal is about one of the messages that can be completed."""
        return bool(self.completed)

    def edited(self) -> bytes:
        """Return the body without what is refused; by default, that is what the proxy added."""
        return self.given.body

    def bare(self) -> bytes:
        """Return the client's own request without reasoning."""
        return self.given.body

    def blamed(self, lost: frozenset[bytes]) -> frozenset[bytes]:
        """Return which of the blobs that a cure leaves out may be why upstream refused it."""
        return lost

    def proven(self, lost: frozenset[bytes]) -> Collection[bytes]:
        """Return which of those upstream is known to refuse, so that none is injected again."""
        return lost

    def fulfilled(self) -> bytes:
        """Return the body with the reasoning that upstream demands."""
        return self.planned

    def finished(self, cure: Cure, _cured: RequestT) -> Cure:
        """Return the cure with what only its dialect can tell of the request of the retry."""
        return cure

    def cure(self) -> Cure | None:
        """Return the request to send instead of the refused one; None if nothing can be done."""
        kind, completed = self.diagnosis.kind, self.completed
        if self.without_reasoning:
            if self.sent is self.given and self._is_good(self.given):
                return None  # upstream emitted all of its reasoning, for this model
            body, completed = self.bare(), {}
        elif kind == "lacks_reasoning":
            body = self.fulfilled()
        elif self._may_complete():
            body = self.planned
        else:
            body, completed = self.edited(), {}
        if body == self.sent.body:
            return None
        cured = self.read(body, {})
        theirs, sent, now = map(self.reasoning_in, (self.given, self.sent, cured))
        due = self.due_in(self.given)
        added = [piece for key, piece in now.items() if key not in theirs]
        lost: frozenset[bytes] = frozenset()
        if (kind in self.about_blobs or self.without_reasoning) and not completed:
            lost = self.blamed(_blobs(sent) - _blobs(now))
        refused = frozenset(self.proven(lost))
        cure = Cure(
            body,
            injected=len(added),
            injected_bytes=sum(piece.size_bytes for piece in added),
            present=len(due & now.keys()) - len(due & sent.keys()),
            degraded=self.degraded,
            is_clients_own=body == self.given.body,
            lost=lost,
            completed=frozenset(completed.values()),
            withheld=tuple(
                turn
                for turn in self.turns
                if turn.without_reasoning(refused.__contains__) is not turn
            ),
        )
        return self.finished(cure, cured)

    def _is_good(self, request: RequestT) -> bool:
        """Return whether all reasoning in a request is signed, and known to be of its model."""
        of = family(request.model)
        good = {blob for turn in self.turns if is_of(turn, of) for blob in blobs_of(turn)}
        pieces = self.reasoning_in(request).values()
        return all(any(piece.blobs) and good.issuperset(piece.blobs) for piece in pieces)

    def _may_complete(self) -> bool:
        if self.diagnosis.kind not in self.completable or not self.is_concerned():
            return False
        return self.planned != self.sent.body


def blobs_of_turns(turns: Sequence[Turn], model: str) -> frozenset[bytes]:
    """Return the blobs that are known to be of a model."""
    runs = (item.run for turn in turns if model in turn.models for item in turn.items)
    return frozenset(blob for run in runs for part in run for blob in part.blobs)


def _blobs(reasoning: Mapping[Hashable, SentReasoning]) -> frozenset[bytes]:
    return frozenset(blob for piece in reasoning.values() for blob in piece.blobs) - {b""}
