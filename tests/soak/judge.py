"""
Was that right? Every request as it arrives upstream, every answer as it arrives at its client.

Pure: it is told of both and compares. What it has found wrong is in `wrong`, in words.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.soak.claims import Claim, Item, Told, is_reasoning, rest, said

__all__ = ["AWAY", "Attempt", "Emitter", "Judge"]

# After these an error of the proxy's own is right: upstream was away.
AWAY = frozenset({"reset", "hang", "cut", "stall", "closed"})
KEPT = 2_000
WRONG_SHOWN = 20


@dataclass
class Attempt:
    """
    One answer as upstream sent it.

    Attributes:
        fault: What was done to it; "" is nothing.
        status: What it said.
        request_id: How it is known.
        body: As much as was sent.
        is_whole: Whether that is all of it.
    """

    fault: str = ""
    status: int = 0
    request_id: str = ""
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False

    def begins(self, told: Told) -> bool:
        """Tell whether it begins with what a client got."""
        if told.request_id != self.request_id or told.status != self.status:
            return False
        begun = memoryview(self.body)[: told.size]
        return len(begun) == told.size and hashlib.sha256(begun).hexdigest() == told.digest


class Emitter(Protocol):
    """What upstream knows of what it has emitted to the caller of a request."""

    def id_of(self, item: Item) -> str:
        """Name the reasoning that an item is, or refers to; "" when it says two things or none."""

    def owns(self, item_id: str) -> bool:
        """Tell whether that was emitted to this caller."""

    def fits(self, item_id: str, behind: Sequence[Item]) -> bool:
        """Tell whether what is behind it says all that it led to, as far as can be seen."""


@dataclass
class _Case:
    """
    A request that has arrived, as often as it did.

    Attributes:
        asked, given: Reasoning that its client has dropped, and how much of it was there.
        is_fragile: As its claim says.
        twins: Reasoning of answers that cannot be told from those of this history.
        attempts: One for each time.
    """

    asked: int = 0
    given: int = 0
    is_fragile: bool = False
    twins: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)


class Judge:
    """
    Compares, and counts.

    Attributes:
        counts: By what happened.
        wrong: What must not have happened, in words; not more than a few of them.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._cases: OrderedDict[str, _Case] = OrderedDict()

    def arrived(self, claim: Claim, body: Item, emitter: Emitter) -> Attempt:
        """Judge a request by what its client says of it; return its answer, to be filled in."""
        self.counts["requests"] += 1
        items = body["input"] if isinstance(body["input"], list) else []
        given = [emitter.id_of(item) for item in items if is_reasoning(item)]
        case = self._cases.get(claim.number)
        here = said(body)
        if rest(body) != claim.rest or not _follows(here, claim.said, is_first=case is None):
            self._blame("altered", claim.number, _altered(here, claim, items))
        elif case is None:
            case = self._open(claim, given)
        else:
            self.counts["sent once more"] += 1
        case = case or _Case()
        if len(here) == len(claim.said):
            for fault, index, one in _misplaced(claim.whole, items, emitter.id_of):
                if fault == "another's" and emitter.fits(one, items[index + 1 :]):
                    case.twins.append(one)
                else:
                    self._blame(fault, claim.number, f"input[{index}] is {one!r}")
        for one in given:
            if one and not emitter.owns(one):
                self._blame("foreign", claim.number, f"{one} was emitted to somebody else")
        attempt = Attempt()
        case.attempts.append(attempt)
        return attempt

    def _open(self, claim: Claim, given: Sequence[str]) -> _Case:
        asked = sum(map(bool, claim.whole)) if not claim.kept else 0
        case = _Case(asked, len(given) if asked else 0, claim.is_fragile)
        self._cases[claim.number] = case
        self.counts["asked"] += case.asked
        self.counts["given"] += case.given
        self.counts["put back"] += max(0, len(given) - claim.kept)
        while len(self._cases) > KEPT:
            self._cases.popitem(last=False)
        return case

    def told(self, told: Told) -> None:
        """Judge an answer."""
        self.counts["answers"] += 1
        case = self._cases.pop(told.number, _Case())
        if told.is_plain:
            self.counts["asked, nothing failed"] += case.asked
            self.counts["given, nothing failed"] += case.given
            if case.given < case.asked:
                self.counts["requests that missed, nothing failed"] += 1
        if case.twins and told.has_failed:
            self.counts["taken for a lost twin"] += len(case.twins)
        elif case.twins:
            self._blame("another's", told.number, f"{case.twins} instead of what is there")
        faults = {attempt.fault for attempt in case.attempts}
        if told.has_left and not told.status:
            self.counts["clients that left"] += 1
        elif not told.status:
            self._blame("ours", told.number, "no answer at all")
        elif "error=" in told.mark:
            self.counts["errors of ours, upstream away"] += 1
            if not faults & AWAY:
                self._blame(
                    "ours", told.number, f"{told.status} {told.mark}, but upstream was there"
                )
        else:
            self._compare(told, case)

    def _compare(self, told: Told, case: _Case) -> None:
        attempt = next((one for one in case.attempts if one.begins(told)), None)
        if attempt is None:
            sent = [(one.status, one.request_id, len(one.body)) for one in case.attempts]
            self._blame("bytes", told.number, f"{told} is no part of any of {sent}")
            return
        self.counts["bytes compared"] += told.size
        if told.is_whole:
            self.counts["answers that came whole"] += 1
            if not attempt.is_whole or told.size != len(attempt.body):
                self._blame("bytes", told.number, f"{told.size} bytes pass for a whole answer")
        elif told.has_left:
            self.counts["clients that left"] += 1
        elif attempt.is_whole or attempt.fault not in AWAY:
            self._blame("ours", told.number, f"cut off after {told.size} bytes")
        else:
            self.counts["cut off, as upstream was"] += 1
        if told.status >= 400 and not attempt.fault:
            if case.is_fragile and told.has_failed:
                # As its client wrote it, upstream does not take it; what would mend it is lost.
                self.counts["refused, as it was written"] += 1
                return
            self._blame("refused", told.number, f"{told.status}: {bytes(attempt.body[:300])!r}")

    def _blame(self, fault: str, number: str, what: str) -> None:
        self.counts[f"wrong: {fault}"] += 1
        if len(self.wrong) < WRONG_SHOWN:
            self.wrong.append(f"request {number}: {fault}: {what}")


def _altered(here: Sequence[str], claim: Claim, items: Sequence[Item]) -> str:
    """Say what was altered, but not what it says."""
    missing = [at for at, one in enumerate(claim.said) if one not in here]
    others = [item for item in items if not is_reasoning(item)]
    new = [
        (at, item.get("type"), sorted(item))
        for at, (one, item) in enumerate(zip(here, others, strict=False))
        if one not in claim.said
    ]
    return (
        f"something else than reasoning and ids differs: {len(claim.said)} items said, "
        f"{len(here)} here; missing {missing}, new {new}"
    )


def _follows(here: Sequence[str], said: Sequence[str], *, is_first: bool) -> bool:
    """
    Tell whether nothing but what was said is here, in its order.

    All of it at first. Once upstream has refused that, less of it: what cannot do without its
    reasoning, and cannot do without its id, is left out.
    """
    if is_first or len(here) == len(said):
        return here == list(said)
    left = iter(said)
    return all(one in left for one in here)


def _misplaced(
    whole: Sequence[str], items: Sequence[Item], id_of: Callable[[Item], str]
) -> Iterator[tuple[str, int, str]]:
    """
    Walk along the history as it should be: reasoning that is there is in its place, or wrong.

    It may be missing.

    Yields:
        What is wrong, the index in `items`, and the id.
    """
    seen: set[str] = set()
    at = 0
    for index, item in enumerate(items):
        if not is_reasoning(item):
            while at < len(whole) and whole[at]:
                at += 1
            at += 1
            continue
        one = id_of(item)
        ends = next((n for n in range(at, len(whole)) if not whole[n]), len(whole))
        if not one:
            yield "invented", index, one
        elif one in seen:
            yield "doubled", index, one
        elif one in whole[at:ends]:
            at = whole.index(one, at) + 1
        else:
            yield "misplaced" if one in whole else "another's", index, one
        seen.add(one)
