"""Refused request: its items, and the captured data about each."""

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
from reasoning_replay.core.dialects.responses.profiles import Profile
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
    All data that a cure can use.

    Attributes:
        sent: Request as it was refused.
        given: Request as the client sent it; the same object if nothing was edited.
        pieces: Items of `sent`; cures change them in place, so one object serves one cure.
        names: Ids of the items.
        answered: `call_id` of every output in the request.
    """

    sent: Request
    given: Request
    diagnosis: Diagnosis
    looked_up: LookupResult
    profile: Profile
    pieces: list[InputPiece] = field(init=False)
    matched: Matches = field(init=False)
    names: set[str] = field(init=False)
    answered: set[str] = field(init=False)
    _thoughts: ReasoningIndex = field(init=False)

    def __post_init__(self) -> None:
        """Match the items with captured turns."""
        self.pieces = pieces_of(self.sent)
        self.matched = match_items(self.sent, self.looked_up)
        self.names = {piece.item.id for piece in self.pieces}
        self.answered = {piece.item.call_id for piece in self.pieces if piece.is_output}
        self._thoughts = ReasoningIndex(self.looked_up.turns)

    def of(self, body: bytes) -> "RefusedRequest":
        """Return the case of the same refusal for another sent body."""
        sent = read_request(body, {})
        return RefusedRequest(sent, self.given, self.diagnosis, self.looked_up, self.profile)

    def body(self, pieces: list[InputPiece]) -> bytes:
        """Return the request body with these pieces."""
        return body_of(self.sent, pieces)

    def thought(self, piece: InputPiece) -> KnownReasoning | None:
        """Return the captured reasoning that a piece is, or refers to."""
        return self._thoughts.of(piece.item) if piece.is_reasoning else None

    def emitted(self, piece: InputPiece) -> Emitted | None:
        """Return the captured item that a piece is, or refers to."""
        match = self._match(piece)
        return match.emitted if match is not None else None

    def _match(self, piece: InputPiece) -> Match | None:
        return self.matched.matches.get(piece.index) if piece.index is not None else None

    def is_known(self, piece: InputPiece) -> bool:
        """Return whether a piece was captured."""
        return self._match(piece) is not None

    def had_none(self, piece: InputPiece) -> bool:
        """Return whether a piece is known to have been emitted without reasoning before it."""
        match = self._match(piece)
        return match is not None and head_of_group(match) is None

    def spot(self, piece: InputPiece) -> Spot | None:
        """Return the position of a piece in its turn; None if unknown."""
        if piece.spot is not None:
            return piece.spot
        if (thought := self.thought(piece)) is not None:
            return thought.turn.id, thought.place
        match = self._match(piece)
        return (match.turn.id, (match.k, 0)) if match is not None else None

    def captured(self, piece: InputPiece) -> bytes:
        """
        Return the whole item that a piece stands for.

        b"" if it is unknown, or if the model could not read it.
        """
        thought = self.thought(piece)
        if thought is not None:
            part = thought.part
            is_whole = part.has_blob or is_open(part)
            return self.sendable(part) if is_whole and self.can_go(thought.turn, part) else b""
        emitted = self.emitted(piece)
        return emitted.raw if emitted is not None else b""

    def sendable(self, part: Reasoning) -> bytes:
        """Return captured reasoning in the form that upstream accepts."""
        return in_form(part, self.profile)

    def is_own(self, turn: Turn) -> bool:
        """Return whether the requested model can read the reasoning of that turn."""
        return family(self.sent.model) in turn.models

    def can_go(self, turn: Turn, part: Reasoning) -> bool:
        """Return whether captured reasoning is usable by the requested model."""
        if is_open(part):
            return True
        is_known = part.has_blob or (bool(part.id) and self.sent.stores and turn.is_stored)
        return is_known and self.is_own(turn)

    def is_named(self, piece: InputPiece) -> bool:
        """Return whether upstream names this reasoning, which it may know by its blob alone."""
        thought = self.thought(piece) if not piece.item.id else None
        known_id = thought.part.id if thought is not None else piece.item.id
        return bool(known_id) and known_id == self.diagnosis.subject

    def added(self) -> set[InputPiece]:
        """Return the reasoning that the proxy injected."""
        came = Counter(place.item.raw for place in self.given.places)
        ours = set()
        for piece in self.pieces:
            if came[piece.item.raw]:
                came[piece.item.raw] -= 1
            elif piece.item.role is Role.REASONING:
                ours.add(piece)
        return ours
