"""
Judge of the soak: checks every request received by upstream, and every response of a client.

Pure: it is given both and compares them. `wrong` holds the faults, in words.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.soak.claims import MEMBER, Claim, Item, Told, is_reasoning, rest, said

# After these, an error of the proxy itself is right: upstream did not respond.
AWAY = frozenset({"reset", "hang", "cut", "stall", "closed"})
KEPT = 2_000
BEFORE_KEPT = 200_000
WRONG_SHOWN = 20


@dataclass
class Attempt:
    """
    One response, as upstream sent it.

    Attributes:
        fault: The fault applied to it; "" if none.
        status: Its status.
        request_id: Its request id.
        body: The bytes that were sent.
        is_whole: Whether those are all bytes of it.
    """

    fault: str = ""
    status: int = 0
    request_id: str = ""
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False

    def begins(self, told: Told) -> bool:
        """Return whether it begins with the bytes that a client received."""
        is_this = told.request_id == self.request_id and told.status == self.status
        return is_this and self.body.startswith(told.body)


class Emitter(Protocol):
    """Interface to the items that upstream has emitted to the caller of a request."""

    def id_of(self, item: Item) -> str:
        """Return the id of a reasoning item or reference; "" if it is invalid."""

    def owns(self, item_id: str) -> bool:
        """Return whether that item was emitted to this caller."""

    def fits(self, item_id: str, behind: Sequence[Item]) -> bool:
        """Return whether the following items equal the items it led to, as far as can be seen."""


@dataclass
class _Case:
    """
    A request that upstream received, once or several times.

    Attributes:
        asked, given: Number of reasoning items that its client dropped, and that were injected.
        is_fragile: See Claim.
        twins: Injected reasoning of other responses that look the same as those of this history.
        client: See Claim.
        attempts: One for each time.
    """

    asked: int = 0
    given: int = 0
    is_fragile: bool = False
    twins: list[str] = field(default_factory=list)
    client: str = ""
    attempts: list[Attempt] = field(default_factory=list)


class Judge:
    """
    Judge and counters.

    Attributes:
        counts: Numbers, by event.
        wrong: The first faults, in words; the number is limited.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._claims: OrderedDict[str, Claim] = OrderedDict()
        self._cases: OrderedDict[str, _Case] = OrderedDict()
        self._before: OrderedDict[tuple[str, str], None] = OrderedDict()

    def expects(self, claim: Claim) -> None:
        """Keep the claim of a client about the request that it is going to send."""
        self._claims[claim.number] = claim
        while len(self._claims) > KEPT:
            self._claims.popitem(last=False)

    def arrived(self, body: Item, emitter: Emitter) -> tuple[Claim, Attempt]:
        """
        Judge a request by the claim of its client.

        Returns:
            The claim, and the response, to be filled in.
        """
        claim = self._claims[body[MEMBER]]
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
            self.counts["retried"] += 1
        case = case or _Case()
        if len(here) == len(claim.said):
            for fault, index, one in _misplaced(claim.whole, items, emitter.id_of):
                is_like = fault == "other conversation" and emitter.fits(one, items[index + 1 :])
                if is_like and self._is_same_history(one, items[:index]):
                    self.counts["reasoning of the same bytes"] += 1
                elif is_like:
                    case.twins.append(one)
                else:
                    around = [(one.get("type"), one.get("id")) for one in items[index - 2 :][:6]]
                    what = f"input[{index}] is {one!r} in {around}; {claim.whole}; {claim.client}"
                    self._blame(fault, claim.number, what)
        self._remember(claim)
        for one in given:
            if one and not emitter.owns(one):
                self._blame("foreign", claim.number, f"{one} was emitted to another caller")
        attempt = Attempt()
        case.attempts.append(attempt)
        return claim, attempt

    def _remember(self, claim: Claim) -> None:
        """Record what stood before each reasoning item of a history."""
        history, said_ones = hashlib.sha256(), iter(claim.said)
        for one in claim.whole:
            if one:
                self._before[one, history.hexdigest()] = None
            else:
                history.update(next(said_ones, "").encode())
        while len(self._before) > BEFORE_KEPT:
            self._before.popitem(last=False)

    def _is_same_history(self, one: str, before: Sequence[Item]) -> bool:
        """
        Return whether a client has sent the same items before this reasoning of its own.

        Nothing tells such requests apart, and what the first one got is repeated.
        """
        history = hashlib.sha256("".join(said({"input": before})).encode())
        return (one, history.hexdigest()) in self._before

    def _open(self, claim: Claim, given: Sequence[str]) -> _Case:
        asked = sum(map(bool, claim.whole)) if not claim.kept else 0
        case = _Case(asked, len(given) if asked else 0, claim.is_fragile, client=claim.client)
        self._cases[claim.number] = case
        self.counts["asked"] += case.asked
        self.counts["given"] += case.given
        self.counts["injected"] += max(0, len(given) - claim.kept)
        while len(self._cases) > KEPT:
            self._cases.popitem(last=False)
        return case

    def told(self, told: Told) -> None:
        """Judge a response."""
        self.counts["answers"] += 1
        case = self._cases.pop(told.number, _Case())
        if told.is_plain:
            self.counts["asked, nothing failed"] += case.asked
            self.counts["given, nothing failed"] += case.given
            if case.given < case.asked:
                self.counts["requests that missed, nothing failed"] += 1
        if case.twins and told.has_failed:
            self.counts["replaced by a twin"] += len(case.twins)
        elif case.twins:
            what = f"{case.twins} injected; {case.client}"
            self._blame("other conversation", told.number, what)
        faults = {attempt.fault for attempt in case.attempts}
        if told.has_left and not told.status:
            self.counts["clients that left"] += 1
        elif not told.status:
            self._blame("proxy", told.number, "no response")
        elif "error=" in told.mark:
            self.counts["proxy errors, upstream away"] += 1
            if not faults & AWAY:
                self._blame(
                    "proxy", told.number, f"{told.status} {told.mark}, but upstream responded"
                )
        else:
            self._compare(told, case)

    def _compare(self, told: Told, case: _Case) -> None:
        attempt = next((one for one in case.attempts if one.begins(told)), None)
        if attempt is None:
            sent = [(one.status, one.request_id, len(one.body)) for one in case.attempts]
            self._blame(
                "bytes", told.number, f"{told.status} {told.request_id} is no part of {sent}"
            )
            return
        self.counts["bytes compared"] += len(told.body)
        if told.is_whole:
            self.counts["complete responses"] += 1
            if not attempt.is_whole or len(told.body) != len(attempt.body):
                self._blame(
                    "bytes", told.number, f"{len(told.body)} bytes look complete, but are not"
                )
        elif told.has_left:
            self.counts["clients that left"] += 1
        elif attempt.is_whole or attempt.fault not in AWAY:
            self._blame("proxy", told.number, f"cut off after {len(told.body)} bytes")
        else:
            self.counts["cut off by upstream"] += 1
        if told.status >= 400 and not attempt.fault:
            if case.is_fragile and told.has_failed:
                # Upstream refuses the request as its client wrote it; the items to repair it are
                # lost.
                self.counts["refused as sent"] += 1
                return
            self._blame("refused", told.number, f"{told.status}: {bytes(attempt.body[:300])!r}")

    def _blame(self, fault: str, number: str, what: str) -> None:
        self.counts[f"wrong: {fault}"] += 1
        if len(self.wrong) < WRONG_SHOWN:
            self.wrong.append(f"request {number}: {fault}: {what}")


def _altered(here: Sequence[str], claim: Claim, items: Sequence[Item]) -> str:
    """Describe the changes without the content."""
    missing = [at for at, one in enumerate(claim.said) if one not in here]
    others = [item for item in items if not is_reasoning(item)]
    new = [
        (at, item.get("type"), sorted(item))
        for at, (one, item) in enumerate(zip(here, others, strict=False))
        if one not in claim.said
    ]
    return (
        f"differs in more than reasoning and ids: {len(claim.said)} items sent, "
        f"{len(here)} received; missing {missing}, new {new}"
    )


def _follows(here: Sequence[str], said: Sequence[str], *, is_first: bool) -> bool:
    """
    Return whether the received items are those that were sent, in their order.

    At first, all of them. A retry after a refusal may have fewer: an item that requires both its
    reasoning and its id may be left out.
    """
    if is_first or len(here) == len(said):
        return here == list(said)
    left = iter(said)
    return all(one in left for one in here)


def _misplaced(
    whole: Sequence[str], items: Sequence[Item], id_of: Callable[[Item], str]
) -> Iterator[tuple[str, int, str]]:
    """
    Yield the reasoning items that are not in their place in the complete history.

    Missing ones are not reported.

    Yields:
        The fault, the index in `items`, and the id.
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
            yield "misplaced" if one in whole else "other conversation", index, one
        seen.add(one)
