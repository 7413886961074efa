"""
Judge by atoms: compares what upstream received with what the client once sent.

Pure; knows no dialect and shares no code with the proxy. One difference from the client's bytes is
allowed: reasoning that upstream emitted with this very message, in the field in which it was
emitted, if the client sends none there; and what an adapter allows in addition. Everything else is
a fault, and each is named.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.recordings import rawjson
from tests.recordings.adapter import Adapter, Addition, Altered, Atom, Key, Said, emitted_as
from tests.recordings.client import Lack, Take
from tests.recordings.rawjson import Edit


class Note(StrEnum):
    """A right injection that differs from what the recorded client once sent."""

    OTHER_FIELD = "other field"  # the client had moved or copied it: the answer's field is used
    ALSO_THERE = "also there"  # the answer had it in a further field, too
    LONGER = "longer"  # the client had lost a part of the text
    MORE = "more"  # the client had dropped some of what the answer emitted for the message


class Result(StrEnum):
    """Result of one exchange."""

    INJECTED = "injected"
    LACKING = "lacking"  # not all was injected that was to inject
    NOTHING_TO_DO = "nothing to do"
    WRONG = "wrong"


@dataclass(slots=True)
class Verdict:
    """
    The verdict on one exchange.

    Attributes:
        wanted: Number of messages to inject into.
        notes: How the injected reasoning differs from what the client once sent.
        injected: Index of a message -> all that was injected into it.
        lost: Index of a message -> what it still lacks.
        wrong: The faults; any makes the exchange WRONG.
        is_held: See Take.
    """

    wanted: int
    is_held: bool
    notes: set[Note] = field(default_factory=set)
    injected: dict[int, tuple[Atom, ...]] = field(default_factory=dict)
    lost: dict[int, list[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def result(self) -> Result:
        """The result of the exchange."""
        if self.wrong:
            return Result.WRONG
        if not self.wanted:
            return Result.NOTHING_TO_DO
        return Result.LACKING if self.lost else Result.INJECTED

    @property
    def is_lacking(self) -> bool:
        """Whether reasoning was to be injected, and was not; or nothing could be stripped."""
        return self.is_held or self.result is Result.LACKING


def judge(adapter: Adapter, take: Take, got: bytes) -> Verdict:
    """Judge the received body of one exchange."""
    verdict = Verdict(len(take.lacks), take.is_held)
    try:
        _compare(adapter, take, got.decode(), verdict)
    except (ValueError, LookupError, AttributeError) as error:
        verdict.wrong.append(f"the received body cannot be parsed: {error!r}")
    for at, lack in take.lacks.items():
        if lost := _lost(lack, verdict.injected.get(at, ())):
            verdict.lost[at] = lost
        else:
            verdict.notes |= _notes(lack, verdict.injected[at])
    return verdict


def unsteady(verdicts: Iterable[tuple[Take, Verdict]]) -> list[str]:
    """
    Name each message of a conversation to which later requests do not add the same.

    What was injected once must be injected again, and what was missed once stays missed: prompt
    caches, and models that bind reasoning to the exact text before it, depend on that.
    """
    first: dict[tuple[str, Key], frozenset[Atom]] = {}
    found: list[str] = []
    for take, verdict in verdicts:
        for at, lack in take.lacks.items():
            now = frozenset(verdict.injected.get(at, ()))
            before = first.setdefault((take.recording.name, lack.origin), now)
            if now != before:
                what = "late" if now > before else "not again"
                found.append(f"{take.exchange.name}: message {at}: {what}: {_shown(now ^ before)}")
    return found


def _compare(adapter: Adapter, take: Take, got: str, verdict: Verdict) -> None:
    """Judge each message that differs, and all bytes outside of the messages."""
    sent = take.body.decode()
    mine, theirs = adapter.spans(sent), adapter.spans(got)
    if len(mine) != len(theirs):
        verdict.wrong.append(f"{len(theirs)} messages, but the client sent {len(mine)}")
        return
    edits, faults = adapter.frame(sent, got)
    verdict.wrong += faults
    for at, (old, new) in enumerate(zip(mine, theirs, strict=True)):
        raw, now = sent[old.start : old.end], got[new.start : new.end]
        edits.append(Edit(new.start, new.end, raw))
        if now == raw:
            continue
        try:
            added = adapter.additions(raw, now, take.emitted.get(at), sent)
        except Altered as altered:
            verdict.wrong.append(f"message {at}: {altered}")
            continue
        if added:
            verdict.injected[at] = tuple(atom for one in added for atom in one.atoms)
        faults = [fault for one in added for fault in _faults(take, at, one)]
        verdict.wrong += [f"message {at}: {fault}" for fault in faults]
    if rawjson.apply(got, edits) != sent:
        verdict.wrong.append("a byte outside of the messages differs from the client's")


def _faults(take: Take, at: int, added: Addition) -> list[str]:
    """Return the faults of one part that was added to a message."""
    if at in take.kept and at not in take.partly:
        return [f"the client sends reasoning in this message: {_shown(added.atoms)}"]
    if not added.atoms:
        return [f"not reasoning: {added.raw[:80]}"]
    if at not in take.lacks and at not in take.partly:
        return [f"of a message without reasoning: {_shown(added.atoms)}"]
    answer = take.emitted[at]
    faults = [_fault(take.recording.answers, atom, answer) for atom in added.atoms]
    joined = {(atom.field.rpartition(".")[2], atom.value) for atom in answer.atoms}
    if not any(faults):
        if [atom for atom in answer.atoms if atom in added.atoms] != list(added.atoms):
            faults.append(f"not in upstream's order: {_shown(added.atoms)}")
        elif answer.raw and added.raw not in answer.raw:
            faults.append(f"not the bytes that upstream emitted: {added.raw[:80]}")
        elif alien := added.leaves - answer.leaves - joined:
            faults.append(f"upstream did not emit {min(alien)}")
    return [fault for fault in faults if fault]


def _fault(answers: Mapping[Key, Said], atom: Atom, answer: Said) -> str:
    """Return the fault of one injected atom; "" if the answer emitted it, there."""
    if atom in answer.atoms:
        return ""
    if any(atom.value == one.value for one in answer.atoms):
        return f"in another field than upstream's: {atom}"
    if any(atom.value == one.value for said in answers.values() for one in said.atoms):
        return f"of another turn: {atom}"
    return f"unknown reasoning: {atom}"


def _lost(lack: Lack, injected: Sequence[Atom]) -> list[str]:
    """Return what the client once sent, or upstream emitted, and upstream did not receive."""
    if not lack.dropped:
        return [] if injected else [str(atom) for atom in lack.answer.atoms]
    return [
        str(atom)
        for atom in lack.dropped
        if not any(
            one.equals(mine) for one in emitted_as(atom, lack.answer.atoms) for mine in injected
        )
    ]


def _notes(lack: Lack, injected: Sequence[Atom]) -> set[Note]:
    """Return how injected reasoning differs from what the client once sent in that message."""
    notes: set[Note] = set()
    sent = lack.dropped
    if any(not any(mine.equals(one) for mine in injected) for one in sent):
        notes.add(Note.LONGER)
    if any(
        not any(mine in emitted_as(one, lack.answer.atoms) for one in sent) for mine in injected
    ):
        notes.add(Note.MORE)
    if Note.MORE not in notes:
        fields = {(one.place, one.field) for one in sent}
        used = {(one.place, one.field) for one in injected}
        notes |= {Note.OTHER_FIELD} if fields - used else set()
        notes |= {Note.ALSO_THERE} if fields < used else set()
    return notes


def _shown(atoms: Iterable[Atom]) -> str:
    return ", ".join(sorted(str(atom) for atom in atoms))
