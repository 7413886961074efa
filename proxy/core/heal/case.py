"""A refused request, and what is known of each of its items."""

from collections import Counter
from dataclasses import dataclass, field

from proxy.core.forms import in_form
from proxy.core.groups import head_of_group
from proxy.core.heal.diagnosis import Diagnosis
from proxy.core.heal.pieces import Piece, Spot, body_of, pieces_of
from proxy.core.heal.thoughts import Thought, Thoughts
from proxy.core.identity import Recognised, recognise
from proxy.core.items import Role
from proxy.core.keys import Recalled
from proxy.core.models import family
from proxy.core.names import Match
from proxy.core.plans import Policy
from proxy.core.request import Request, read_request
from proxy.core.turns import Emitted, Reasoning, Turn

__all__ = ["Case"]


@dataclass(slots=True)
class Case:
    """
    Everything that a cure may go by.

    Attributes:
        sent: The request as it was refused.
        given: The request as the client sent it; the same object where nothing was edited.
        pieces: The items of `sent`; cures change them in place, so one Case serves one cure.
        names: The ids in it.
        answered: The calls that it has outputs of, by `call_id`.
    """

    sent: Request
    given: Request
    diagnosis: Diagnosis
    recalled: Recalled
    policy: Policy
    pieces: list[Piece] = field(init=False)
    recognised: Recognised = field(init=False)
    names: set[str] = field(init=False)
    answered: set[str] = field(init=False)
    _thoughts: Thoughts = field(init=False)

    def __post_init__(self) -> None:
        """Recognise the items."""
        self.pieces = pieces_of(self.sent)
        self.recognised = recognise(self.sent, self.recalled)
        self.names = {piece.item.id for piece in self.pieces}
        self.answered = {piece.item.call_id for piece in self.pieces if piece.is_output}
        self._thoughts = Thoughts(self.recalled.turns)

    def of(self, body: bytes) -> "Case":
        """Return the case of the same refusal as if this had been sent."""
        sent = read_request(body, {})
        return Case(sent, self.given, self.diagnosis, self.recalled, self.policy)

    def body(self, pieces: list[Piece]) -> bytes:
        """Return the request with these pieces."""
        return body_of(self.sent, pieces)

    def thought(self, piece: Piece) -> Thought | None:
        """Return the captured reasoning that a piece is, or stands for."""
        return self._thoughts.of(piece.item) if piece.is_reasoning else None

    def emitted(self, piece: Piece) -> Emitted | None:
        """Return the captured item that a piece is, or stands for."""
        match = self._match(piece)
        return match.emitted if match is not None else None

    def _match(self, piece: Piece) -> Match | None:
        return self.recognised.matches.get(piece.index) if piece.index is not None else None

    def is_known(self, piece: Piece) -> bool:
        """Tell whether a piece was captured."""
        return self._match(piece) is not None

    def had_none(self, piece: Piece) -> bool:
        """Tell whether a piece is known to have been emitted without reasoning ahead of it."""
        match = self._match(piece)
        return match is not None and head_of_group(match) is None

    def spot(self, piece: Piece) -> Spot | None:
        """Return where a piece stood in its turn."""
        if piece.spot is not None:
            return piece.spot
        if (thought := self.thought(piece)) is not None:
            return thought.turn.id, thought.place
        match = self._match(piece)
        return (match.turn.id, (match.k, 0)) if match is not None else None

    def captured(self, piece: Piece) -> bytes:
        """
        Return the whole item that a piece stands for.

        b"" when it is not known, or nothing that the model can read is.
        """
        thought = self.thought(piece)
        if thought is not None:
            part = thought.part
            is_whole = part.has_blob or _is_open(part)
            return self.sendable(part) if is_whole and self.can_go(thought.turn, part) else b""
        emitted = self.emitted(piece)
        return emitted.raw if emitted is not None else b""

    def sendable(self, part: Reasoning) -> bytes:
        """Return captured reasoning in the form that upstream takes."""
        return in_form(part, self.policy.profile)

    def is_own(self, turn: Turn) -> bool:
        """Whether the model that is asked can read what that turn thought."""
        return family(self.sent.model) in turn.models

    def can_go(self, turn: Turn, part: Reasoning) -> bool:
        """Whether captured reasoning means anything to the model that is asked."""
        if _is_open(part):
            return True
        is_known = part.has_blob or (bool(part.id) and self.sent.stores and turn.is_stored)
        return is_known and self.is_own(turn)

    def added(self) -> set[Piece]:
        """Return the reasoning that we put in."""
        came = Counter(place.item.raw for place in self.given.places)
        ours = set()
        for piece in self.pieces:
            if came[piece.item.raw]:
                came[piece.item.raw] -= 1
            elif piece.item.role is Role.REASONING:
                ours.add(piece)
        return ours


def _is_open(part: Reasoning) -> bool:
    return b'"reasoning_text"' in part.raw
