"""
Ledger: the turns that an API has emitted, and the judge of the reasoning in later requests.

A history is a list of parts. What the model said is recognised by its ids, or else by its words,
and by its place if it said the same more than once. So each piece of reasoning that led to it is
due again: the same, once, before it, and only words of the client's own may be between them.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, NamedTuple

# Most turns that are kept; the oldest is dropped.
TURNS_MAX: Final = 2_000
PREFIXES_MAX: Final = 50_000
CHARACTERS_PER_TOKEN: Final = 4

Kind = Literal["reasoning", "said", "given"]
State = Literal["whole", "missing", "damaged", "misplaced", "repeated", "foreign"]


class Part(NamedTuple):
    """
    One part of a history.

    Attributes:
        kind: Reasoning, something else that the model said, or what it was given.
        path: Where it is in its request or answer.
        value: What it contains, in one spelling.
        names: Ids that tell which part it is.
    """

    kind: Kind
    path: str
    value: str
    names: tuple[str, ...] = ()


class Finding(NamedTuple):
    """
    The state of one piece of reasoning in a request.

    Attributes:
        state: whole: as it was emitted. missing: not there. damaged: there, and changed.
            misplaced: not before the item that it led to, or something known is between them.
            repeated: more than once.
            foreign: never emitted here.
        path: Where it is, or would be.
        turn: The number of the turn that emitted it; 0 if none did.
    """

    state: State
    path: str
    turn: int


class Judgement(NamedTuple):
    """
    The reasoning and the prefix of one request, judged.

    Attributes:
        findings: One for each piece of reasoning that is due or sent.
        moved: Where the history that the API had read before differs now; "" if it does not.
        tokens: Size of the request, estimated.
        cached: The size of its longest prefix that the API has processed.
        known: The size of the history that it continues, with the answer; 0 if it is new.
        unknown: The paths of what the model is said to have said, and has not.
    """

    findings: tuple[Finding, ...]
    moved: str
    tokens: int
    cached: int
    known: int
    unknown: tuple[str, ...] = ()

    @property
    def lost(self) -> list[Finding]:
        """The findings that are not whole."""
        return [one for one in self.findings if one.state != "whole"]


class _Emitted(NamedTuple):
    """A part that the API has emitted: its turn, its index there, and what was visible before."""

    turn: int
    at: int
    part: Part
    place: bytes


class Turn(NamedTuple):
    """One answer: its parts, the digests of what it answered, and the size of both."""

    parts: tuple[_Emitted, ...]
    before: tuple[bytes, ...]
    size: int


class Ledger:
    """The newest turns by number, each with what it answered."""

    def __init__(self) -> None:
        self.turns: dict[int, Turn] = {}
        self._made = 0
        # By each name, and by the value.
        self._found: defaultdict[str, deque[_Emitted]] = defaultdict(deque)
        self._prefixes: dict[bytes, None] = {}

    def record(self, frame: str, parts: Sequence[Part], said: Sequence[Part]) -> None:
        """Record a turn: the request, and what was emitted."""
        self._made += 1
        places = list(_places([*parts, *said]))[len(parts) :]
        both = enumerate(zip(said, places, strict=True))
        emitted = tuple(_Emitted(self._made, at, part, place) for at, (part, place) in both)
        for one in emitted:
            for key in _keys(one.part):
                self._found[key].append(one)
        size = _size(frame, [*parts, *said])
        self.turns[self._made] = Turn(emitted, tuple(_digests(frame, parts)), size)
        self._processed(frame, [*parts, *said])
        if len(self.turns) > TURNS_MAX:
            self._drop(self.turns.pop(self._made - TURNS_MAX))

    def judge(self, frame: str, parts: Sequence[Part]) -> Judgement:
        """Judge a request; it counts as processed from now on."""
        origins = self._origins(parts)
        turn = max((origins[at].turn for at in origins if parts[at].kind == "said"), default=0)
        moved, known = "", 0
        if turn:
            before, known = self.turns[turn].before, self.turns[turn].size
            own = list(_digests(frame, parts))
            differing = (at for at, digest in enumerate(before) if own[at : at + 1] != [digest])
            at = next(differing, None)
            if at is not None:
                paths = ["tools or instructions", *(part.path for part in parts), "the end"]
                moved = paths[min(at, len(paths) - 1)]
        cached = self._processed(frame, parts)
        findings = tuple(self._findings(parts, origins))
        tokens = _size(frame, parts) // CHARACTERS_PER_TOKEN
        said = ((at, part) for at, part in enumerate(parts) if part.kind == "said")
        return Judgement(
            findings,
            moved,
            tokens,
            cached // CHARACTERS_PER_TOKEN,
            known // CHARACTERS_PER_TOKEN,
            tuple(part.path for at, part in said if at not in origins),
        )

    def by_name(self, name: str) -> Part | None:
        """Return the newest emitted part with an id, or with exactly this content."""
        found = self._found.get(name)
        return found[-1].part if found else None

    def _origins(self, parts: Sequence[Part]) -> dict[int, _Emitted]:
        """Return what each part was emitted as, by its index."""
        origins = self._said(parts)
        taken: set[_Emitted] = set()
        turn = 0  # of what follows
        for at, part in reversed([*enumerate(parts)]):
            if part.kind == "said" and at in origins:
                turn = origins[at].turn
            if part.kind != "reasoning":
                continue
            # Its content says more than its id, which may be wrong.
            named = [one for name in part.names for one in self._found.get(name, ())]
            both = (*self._found.get(part.value, ()), *named)
            found = [one for one in both if one.part.kind == part.kind]
            if found:
                own = (one for one in found if one.turn == turn and one not in taken)
                origins[at] = next(own, found[0])
                taken.add(origins[at])
        return origins

    def _said(self, parts: Sequence[Part]) -> dict[int, _Emitted]:
        """Return what the parts that the model said were emitted as, by their indexes."""
        origins: dict[int, _Emitted] = {}
        taken: set[_Emitted] = set()
        last = 0
        run: set[str] = set()
        for at, (part, place) in enumerate(zip(parts, _places(parts), strict=True)):
            if part.kind == "reasoning":
                run.add(part.value)
                continue
            if part.kind == "said":
                named = [one for name in part.names for one in self._found.get(name, ())]
                alike = named or [*self._found.get(part.value, ())]
                found = [one for one in alike if one.part.kind == "said" and one not in taken]
                if found:
                    # The same may have been emitted often; its place tells, and a history goes on.
                    origins[at] = max(
                        found,
                        key=lambda one: (
                            one.place == place,
                            one.turn == last,
                            self._thoughts(one.turn, run),
                            one.turn >= last,
                            -one.turn,
                        ),
                    )
                    taken.add(origins[at])
                    last = origins[at].turn
            run = set()
        return origins

    def _thoughts(self, turn: int, run: Collection[str]) -> int:
        """Return how much reasoning of a turn is in a run."""
        return sum(one.part.value in run for one in self.turns[turn].parts)

    def _findings(self, parts: Sequence[Part], origins: dict[int, _Emitted]) -> Iterator[Finding]:
        sent: defaultdict[_Emitted, list[int]] = defaultdict(list)
        for at, one in origins.items():
            sent[one].append(at)
        judged: set[int] = set()
        for turn in sorted({one.turn for at, one in origins.items() if parts[at].kind == "said"}):
            for run, led in _runs(self.turns[turn].parts):
                first = min((at for one in led for at in sent[one]), default=None)
                if first is None:  # the client has left out what it led to
                    continue
                after = -1
                for number, one in enumerate(run):
                    places = sent[one]
                    if not places:  # is something unknown in its place?
                        place = first - len(run) + number
                        is_there = place >= 0 and parts[place].kind == "reasoning"
                        if not is_there or place in origins:
                            yield Finding("missing", parts[first].path, turn)
                            continue
                        judged.add(place)
                        yield Finding("damaged", parts[place].path, turn)
                        continue
                    judged |= {*places}
                    is_next = after < places[0] < first and not any(
                        parts[at].kind == "given" or (parts[at].kind == "said" and at in origins)
                        for at in range(places[0], first)
                    )
                    state = _state(parts, places, one, is_next=is_next)
                    after = places[0]
                    yield Finding(state, parts[places[-1]].path, turn)
        for at, part in enumerate(parts):
            if part.kind == "reasoning" and at not in judged:
                origin = origins.get(at)
                said = next((n for n in range(at, -1, -1) if parts[n].kind != "reasoning"), at)
                state = self._state_elsewhere(origin, origins.get(said), at - said)
                yield Finding(state, part.path, origin.turn if origin else 0)

    def _state_elsewhere(self, one: _Emitted | None, said: _Emitted | None, after: int) -> State:
        """Return the state of reasoning some parts after what was said; whole if it ended that."""
        if one is None:
            return "foreign"
        is_there = said is not None and (said.turn, said.at) == (one.turn, one.at - after)
        rest = self.turns[one.turn].parts[one.at - after + 1 :]
        is_end = all(each.part.kind == "reasoning" for each in rest)
        return "whole" if is_there and is_end else "misplaced"

    def _processed(self, frame: str, parts: Sequence[Part]) -> int:
        """Process a history; return the size of its longest prefix that was processed before."""
        whole = hashlib.sha256()
        size = cached = 0
        for text in (frame, *(part.value for part in parts)):
            whole.update(_digest(text))
            size += len(text)
            if whole.digest() in self._prefixes:
                cached = size
            self._prefixes[whole.digest()] = None
            if len(self._prefixes) > PREFIXES_MAX:
                del self._prefixes[next(iter(self._prefixes))]
        return cached

    def _drop(self, turn: Turn) -> None:
        for one in turn.parts:
            for key in _keys(one.part):
                self._found[key].remove(one)
                if not self._found[key]:
                    del self._found[key]


def _state(parts: Sequence[Part], places: Sequence[int], one: _Emitted, *, is_next: bool) -> State:
    """Return the state of reasoning that was sent at `places`: before what it led to, or not."""
    if len(places) > 1:
        return "repeated"
    (place,) = places
    part, names = parts[place], one.part.names
    is_renamed = bool(part.names) and bool(names) and set(part.names).isdisjoint(names)
    if part.value != one.part.value or is_renamed:
        return "damaged"
    return "whole" if is_next else "misplaced"


def _runs(turn: Sequence[_Emitted]) -> Iterator[tuple[list[_Emitted], list[_Emitted]]]:
    """Yield each run of reasoning in a turn, and what it led to."""
    run: list[_Emitted] = []
    led: list[_Emitted] = []
    for one in turn:
        if one.part.kind == "reasoning" and led:
            yield run, led
            run, led = [], []
        (run if one.part.kind == "reasoning" else led).append(one)
    yield run, led


def _keys(part: Part) -> set[str]:
    return {*part.names, part.value}


def _size(frame: str, parts: Sequence[Part]) -> int:
    return len(frame) + sum(len(part.value) for part in parts)


def _digests(frame: str, parts: Sequence[Part]) -> Iterator[bytes]:
    yield _digest(frame)
    for part in parts:
        yield _digest(part.value)


def _places(parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield for each part the digest of all before it that is no reasoning."""
    visible = hashlib.sha256()
    for part in parts:
        yield visible.digest()
        if part.kind != "reasoning":
            visible.update(_digest(part.value))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
