"""Played client: a recorded request without the reasoning that an earlier answer emitted."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.recordings import rawjson
from tests.recordings.adapter import Adapter, Atom, Key, Role, Said
from tests.recordings.rawjson import Edit
from tests.recordings.tape import Exchange, Recording


class Variant(StrEnum):
    """What a client drops of a recorded request; recorded ones dropped reasoning, or did not."""

    REPLAYED = "as recorded"
    DROPPED = "ids kept"
    IDS_DROPPED = "ids dropped"
    HEAD_CUT = "head cut"
    HEAD_CUT_IDS_DROPPED = "head cut, ids dropped"

    @property
    def drops_ids(self) -> bool:
        """Whether the ids that the API does not demand are left out as well."""
        return self in (Variant.IDS_DROPPED, Variant.HEAD_CUT_IDS_DROPPED)

    @property
    def cuts_head(self) -> bool:
        """Whether the messages before the model's first are left out as well."""
        return self in (Variant.HEAD_CUT, Variant.HEAD_CUT_IDS_DROPPED)


_NOTHING = Said(Role.MODEL, (), (), (), (), "", frozenset())


@dataclass(frozen=True, slots=True)
class Lack:
    """
    One message in which the client sends no reasoning, although upstream emitted some for it.

    Attributes:
        origin: The message that it replays.
        answer: The message as upstream emitted it.
        dropped: The reasoning that the recorded client sent there; () if it dropped all itself.
    """

    origin: Key
    answer: Said
    dropped: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """
    One exchange, as a client plays it.

    Attributes:
        body: The bytes that are sent.
        lacks: Index of a message -> what it lacks.
        emitted: Index of a message -> the message as upstream emitted it.
        kept: Indexes of messages in which the client still sends reasoning: it was recorded as
            visible text, or no answer of the recording emitted it.
        partly: Those of them whose reasoning is in members, so that those that it lacks may be
            added.
    """

    recording: Recording
    exchange: Exchange
    variant: Variant
    body: bytes
    lacks: Mapping[int, Lack]
    emitted: Mapping[int, Said]
    kept: frozenset[int]
    partly: frozenset[int]

    @property
    def is_held(self) -> bool:
        """Whether a dropping client still sends reasoning of this conversation."""
        continues = self.exchange.replay in ("full", "partial", "none")
        is_dropping = self.variant is not Variant.REPLAYED
        return is_dropping and continues and bool(self.kept) and not self.lacks


def take(adapter: Adapter, recording: Recording, exchange: Exchange, variant: Variant) -> Take:
    """
    Return the part of a recorded request that a client sends, all other bytes verbatim.

    Reasoning that led to several messages belongs to the first of them that the client sends.
    """
    text = exchange.request.decode()
    spans = adapter.spans(text)
    messages = [adapter.said(text[span.start : span.end]) for span in spans]
    model = [at for at, message in enumerate(messages) if message.role is Role.MODEL]
    cut = model[0] if model and variant.cuts_head else 0
    edits = rawjson.removals(spans, range(cut))
    lacks: dict[int, Lack] = {}
    emitted: dict[int, Said] = {}
    kept: set[int] = set()
    partly: set[int] = set()
    given: set[Atom] = set()
    for at, (message, span) in enumerate(zip(messages[cut:], spans[cut:], strict=True)):
        raw = text[span.start : span.end]
        origin = exchange.origins.get(cut + at)
        answer = recording.answers[origin] if origin is not None else _NOTHING
        due = tuple(atom for atom in answer.atoms if atom not in given)
        dropped = [] if variant is Variant.REPLAYED else adapter.replayed(message, due)
        bare = adapter.without_ids(raw) if variant.drops_ids else raw
        if message.role is Role.MODEL:
            bare = adapter.without(bare, dropped)
            left = adapter.said(bare)
            if origin is not None:
                emitted[at] = answer
                given |= {*answer.atoms} if adapter.is_owed else set()
            if left.atoms or left.held:
                kept.add(at)
                is_open = adapter.completes and not any(one.value for one in left.held)
                partly |= {at} if origin is not None and is_open else set()
            elif origin is not None and due:
                lacks[at] = Lack(origin, answer, due if adapter.is_owed else tuple(dropped))
        if bare != raw:
            edits.append(Edit(span.start, span.end, bare))
    if adapter.is_owed and variant is Variant.REPLAYED and any(one.atoms for one in messages):
        lacks.clear()  # the client replays what it means to replay
    body = rawjson.apply(text, edits).encode()
    return Take(
        recording, exchange, variant, body, lacks, emitted, frozenset(kept), frozenset(partly)
    )
