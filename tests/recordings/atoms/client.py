"""Played client: a recorded request without the reasoning that an earlier answer emitted."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.recordings import rawjson
from tests.recordings.atoms.adapter import Adapter, Atom, Role, Said
from tests.recordings.atoms.tape import Exchange, Recording
from tests.recordings.rawjson import Edit


class Variant(StrEnum):
    """What a client does with the reasoning of earlier answers; recorded ones did either."""

    DROPPED = "reasoning dropped"
    HEAD_CUT = "reasoning dropped, and the messages before the model's first"
    REPLAYED = "as recorded"


@dataclass(frozen=True, slots=True)
class Lack:
    """
    One message in which the client sends no reasoning, although upstream emitted some for it.

    Attributes:
        origin: The exchange that emitted the message.
        answer: The message as upstream emitted it.
        dropped: The reasoning that the recorded client sent there; () if it dropped all itself.
    """

    origin: int
    answer: Said
    dropped: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """
    One exchange, as a client plays it.

    Attributes:
        body: The bytes that are sent.
        lacks: Index of a message -> what it lacks.
        kept: Indexes of messages in which the client still sends reasoning: it was recorded as
            visible text, or no answer of the recording emitted it.
        partly: Index of a kept message -> the message as upstream emitted it, if the client's
            reasoning is in members, so that those that it lacks may be added.
    """

    recording: Recording
    exchange: Exchange
    variant: Variant
    body: bytes
    lacks: Mapping[int, Lack]
    kept: frozenset[int]
    partly: Mapping[int, Said]

    @property
    def is_held(self) -> bool:
        """Whether a dropping client still sends reasoning of this conversation."""
        continues = self.exchange.replay in ("full", "partial", "none")
        is_dropping = self.variant is not Variant.REPLAYED
        return is_dropping and continues and bool(self.kept) and not self.lacks


def take(adapter: Adapter, recording: Recording, exchange: Exchange, variant: Variant) -> Take:
    """Return the part of a recorded request that a client sends, all other bytes verbatim."""
    text = exchange.request.decode()
    spans = adapter.spans(text)
    messages = [adapter.said(text[span.start : span.end]) for span in spans]
    model = [at for at, message in enumerate(messages) if message.role is Role.MODEL]
    cut = model[0] if model and variant is Variant.HEAD_CUT else 0
    edits = rawjson.removals(spans, range(cut))
    lacks: dict[int, Lack] = {}
    kept: set[int] = set()
    partly: dict[int, Said] = {}
    for at in model:
        origin = exchange.origins.get(at)
        answer = recording.answers[origin] if origin is not None else None
        dropped: list[Atom] = []
        if answer is not None and variant is not Variant.REPLAYED:
            dropped = [atom for atom in messages[at].atoms if emitted_as(atom, answer)]
        raw = text[spans[at].start : spans[at].end]
        bare = adapter.without(raw, dropped)
        left = adapter.said(bare)
        if bare != raw:
            edits.append(Edit(spans[at].start, spans[at].end, bare))
        if left.atoms or left.held:
            kept.add(at - cut)
            if answer is not None and not any(atom.value for atom in left.held):
                partly[at - cut] = answer
        elif origin is not None and answer is not None and answer.atoms:
            lacks[at - cut] = Lack(origin, answer, tuple(dropped))
    body = rawjson.apply(text, edits).encode()
    return Take(recording, exchange, variant, body, lacks, frozenset(kept), partly)


def emitted_as(atom: Atom, answer: Said) -> list[Atom]:
    """Return the emitted atoms that a client's atom replays, in any field, whole or in part."""
    equal = [one for one in answer.atoms if atom.equals(one)]
    return equal or [one for one in answer.atoms if atom.is_part_of(one)]
