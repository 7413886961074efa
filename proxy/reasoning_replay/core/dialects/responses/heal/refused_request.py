"""Refused request: its items, and what is known of each."""

from collections import Counter
from dataclasses import dataclass, field

from reasoning_replay.core.dialects.responses.emitted import is_open
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis
from reasoning_replay.core.dialects.responses.heal.input_editor import (
    InputPiece,
    Spot,
    body_of,
    pieces_of,
)
from reasoning_replay.core.dialects.responses.heal.reasoning_index import (
    KnownReasoning,
    ReasoningIndex,
)
from reasoning_replay.core.dialects.responses.id_policy import in_form
from reasoning_replay.core.dialects.responses.profiles import Policy
from reasoning_replay.core.dialects.responses.reasoning_runs import head_of_group
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import Matches, match_items
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Emitted, Reasoning, Turn

__all__ = ["RefusedRequest"]


@dataclass(slots=True)
class RefusedRequest:
    """
    Everything that a cure may go by.

    Attributes:
        sent: The request as it was refused.
        given: The request as the client sent it; the same object where nothing was edited.
        pieces: The items of `sent`; cures change them in place, so one object serves one cure.
        names: The ids in it.
        answered: The calls that it has outputs of, by `call_id`.
    """

    sent: Request
    given: Request
    diagnosis: Diagnosis
    looked_up: LookupResult
    policy: Policy
    pieces: list[InputPiece] = field(init=False)
    matched: Matches = field(init=False)
    names: set[str] = field(init=False)
    answered: set[str] = field(init=False)
    _thoughts: ReasoningIndex = field(init=False)

    def __post_init__(self) -> None:
        """Recognise the items."""
        self.pieces = pieces_of(self.sent)
        self.matched = match_items(self.sent, self.looked_up)
        self.names = {piece.item.id for piece in self.pieces}
        self.answered = {piece.item.call_id for piece in self.pieces if piece.is_output}
        self._thoughts = ReasoningIndex(self.looked_up.turns)

    def of(self, body: bytes) -> "RefusedRequest":
        """Return the case of the same refusal as if this had been sent."""
        sent = read_request(body, {})
        return RefusedRequest(sent, self.given, self.diagnosis, self.looked_up, self.policy)

    def body(self, pieces: list[InputPiece]) -> bytes:
        """Return the request with these pieces."""
        return body_of(self.sent, pieces)

    def thought(self, piece: InputPiece) -> KnownReasoning | None:
        """Return the captured reasoning that a piece is, or stands for."""
        return self._thoughts.of(piece.item) if piece.is_reasoning else None

    def emitted(self, piece: InputPiece) -> Emitted | None:
        """Return the captured item that a piece is, or stands for."""
        match = self._match(piece)
        return match.emitted if match is not None else None

    def _match(self, piece: InputPiece) -> Match | None:
        return self.matched.matches.get(piece.index) if piece.index is not None else None

    def is_known(self, piece: InputPiece) -> bool:
        """Tell whether a piece was captured."""
        return self._match(piece) is not None

    def had_none(self, piece: InputPiece) -> bool:
        """Tell whether a piece is known to have been emitted without reasoning ahead of it."""
        match = self._match(piece)
        return match is not None and head_of_group(match) is None

    def spot(self, piece: InputPiece) -> Spot | None:
        """Return where a piece stood in its turn."""
        if piece.spot is not None:
            return piece.spot
        if (thought := self.thought(piece)) is not None:
            return thought.turn.id, thought.place
        match = self._match(piece)
        return (match.turn.id, (match.k, 0)) if match is not None else None

    def captured(self, piece: InputPiece) -> bytes:
        """
        Return the whole item that a piece stands for.

        b"" when it is not known, or nothing that the model can read is.
        """
        thought = self.thought(piece)
        if thought is not None:
            part = thought.part
            is_whole = part.has_blob or is_open(part)
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
        if is_open(part):
            return True
        is_known = part.has_blob or (bool(part.id) and self.sent.stores and turn.is_stored)
        return is_known and self.is_own(turn)

    def added(self) -> set[InputPiece]:
        """Return the reasoning that we put in."""
        came = Counter(place.item.raw for place in self.given.places)
        ours = set()
        for piece in self.pieces:
            if came[piece.item.raw]:
                came[piece.item.raw] -= 1
            elif piece.item.role is Role.REASONING:
                ours.add(piece)
        return ours
