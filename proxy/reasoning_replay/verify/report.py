"""
Report of a verification: what a client brought back in each request, and the verdict.

The verdict is about reasoning: a prefix that moved costs the cache, but is often intended, so it
counts in strict runs only.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from reasoning_replay.strict_api import Exchange

__all__ = ["LOST", "UNVERIFIED", "Run", "Verdict"]

Verdict = Literal["whole", "lost", "silent", "untested", "failed"]

LOST: Final = 1
UNVERIFIED: Final = 2
_EXIT_CODES: Final[dict[Verdict, int]] = {"whole": 0, "lost": LOST}
_LOSSES_SHOWN: Final = 20
_ADVICE: Final = " Add --through-proxy to see the same run with the proxy in between."


@dataclass(frozen=True, slots=True)
class Run:
    """
    One run of a client.

    Attributes:
        exchanges: Its requests, in the order in which they arrived.
        exit_code: That of its command; None if the command was ended.
        is_command: Whether a command ran; otherwise a test called the API.
        is_strict: Whether a prefix that moved counts as lost.
        through_proxy: Whether the proxy stood in between.
        unserved: Requests that the API does not serve: how many of each.
    """

    exchanges: Sequence[Exchange]
    exit_code: int | None = 0
    is_strict: bool = False
    through_proxy: bool = False
    unserved: Mapping[str, int] = field(default_factory=dict)
    is_command: bool = True

    @property
    def verdict(self) -> Verdict:
        """
        The result: whole, lost, or why nothing was verified.

        silent: there was no request. untested: no reasoning had to come back. failed: the command
        failed for another reason.
        """
        if not self.exchanges:
            return "silent"
        is_moved = self.is_strict and any(one.judgement.moved for one in self._judged)
        if is_moved or self._lost or any(one.refused for one in self.exchanges):
            return "lost"
        if self.exit_code != 0:
            return "failed"
        return "whole" if self._due else "untested"

    @property
    def code(self) -> int:
        """The exit code for the verdict: 0, LOST or UNVERIFIED."""
        return _EXIT_CODES.get(self.verdict, UNVERIFIED)

    @property
    def _judged(self) -> Iterator[Any]:
        return (one for one in self.exchanges if one.judgement is not None)

    @property
    def _due(self) -> int:
        return sum(len(one.judgement.findings) for one in self._judged)

    @property
    def _lost(self) -> int:
        return sum(len(one.judgement.lost) for one in self._judged)

    @property
    def _cached_share(self) -> float | None:
        """The share of the known prefixes that was cached; None if nothing was known."""
        known = sum(one.judgement.known for one in self._judged)
        cached = sum(min(one.judgement.cached, one.judgement.known) for one in self._judged)
        return cached / known if known else None

    def lines(self) -> Iterator[str]:
        """Yield the report as plain text."""
        way = "through the proxy" if self.through_proxy else "straight to the API"
        clients = ", ".join(sorted({one.client for one in self.exchanges if one.client}))
        yield f"{way}: {clients or 'no client'}"
        if self.exchanges:
            yield ""
            yield f"  {'request':<9}{'API':<11}{'emits':<10}{'brought back':<32}{'cached':<8}prefix"
        for number, one in enumerate(self.exchanges, 1):
            yield self._row(number, one)
        yield ""
        yield from self._losses()
        yield self._sentence()

    def _row(self, number: int, one: Exchange) -> str:
        states = Counter(each.state for each in one.judgement.findings) if one.judgement else {}
        back = ", ".join(f"{count} {state}" for state, count in states.items()) or "-"
        cached, prefix = "-", "new"
        if one.judgement is not None and one.judgement.known:
            share = min(1.0, one.judgement.cached / one.judgement.known)
            cached, prefix = f"{share:.0%}", "moved" if one.judgement.moved else "kept"
        emits = f"HTTP {one.refused.status}" if one.refused else str(one.emitted)
        return f"  {number:<9}{one.dialect:<11}{emits:<10}{back:<32}{cached:<8}{prefix}".rstrip()

    def _losses(self) -> Iterator[str]:
        """Yield a line for each loss, for each prefix that moved, and for each refusal."""
        lines = []
        for number, one in enumerate(self.exchanges, 1):
            for each in one.judgement.lost if one.judgement else ():
                of = f" of turn {each.turn}" if each.turn else ""
                lines.append(f"  request {number}: reasoning{of} is {each.state} at {each.path}")
            if one.judgement is not None and one.judgement.moved:
                lines.append(f"  request {number}: the prefix moved at {one.judgement.moved}")
            if one.refused is not None:
                seen = "seen in " if "/" in one.refused.source else ""
                source = f" ({seen}{one.refused.source})" if one.refused.source else ""
                lines.append(f"  request {number}: {one.refused.status}: {one.refused}{source}")
        yield from lines[:_LOSSES_SHOWN]
        if len(lines) > _LOSSES_SHOWN:
            yield f"  and {len(lines) - _LOSSES_SHOWN} lines more; --json FILE has all"
        for words, count in self.unserved.items():
            yield f"  not served: {words} ({_times(count)})"
        if lines or self.unserved:
            yield ""

    def _sentence(self) -> str:
        how = "was ended" if self.exit_code is None else f"exited with {self.exit_code}"
        client = f"the command {how} and" if self.is_command else "the test"
        refused = sum(one.refused is not None for one in self.exchanges)
        share = self._cached_share
        cached = "" if share is None else f"; {share:.0%} of the known prefixes was cached"
        match self.verdict:
            case "whole":
                return f"Whole: reasoning came back each of {self._due} times{cached}."
            case "lost":
                told = f"{_times(self._due)}, and was not whole {_times(self._lost)}"
                ended = f" The command {how}." if self.is_command else ""
                advice = "" if self.through_proxy or not self.is_command else _ADVICE
                return (
                    f"Lost: reasoning was due {told}; {refused} request(s) refused{cached}."
                    f"{ended}{advice}"
                )
            case "silent" if self.unserved:
                return (
                    f"Not verified: {client} called only paths that this API does not serve, listed"
                    " above. Does it use one of the four APIs, and a base URL without more?"
                )
            case "silent":
                return (
                    f"Not verified: {client} never called the API. Does it read the base URL from"
                    " its environment?"
                )
            case "failed":
                return f"Not verified: nothing was lost, but the command {how}."
            case "untested":
                return (
                    "Not verified: no request had reasoning to bring back. The command must go on"
                    " after an answer: declare a tool, or ask two questions."
                )

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "through_proxy": self.through_proxy,
            "verdict": self.verdict,
            "command_exit_code": self.exit_code,
            "clients": sorted({one.client for one in self.exchanges if one.client}),
            "emitted": sum(one.emitted for one in self.exchanges),
            "due": self._due,
            "whole": self._due - self._lost,
            "cached_share": self._cached_share,
            "requests": [_request(one) for one in self.exchanges],
            "unserved": dict(self.unserved),
        }


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _request(one: Exchange) -> dict[str, Any]:
    judged: dict[str, Any] = {"findings": [], "moved": "", "tokens": 0, "cached": 0, "known": 0}
    if one.judgement is not None:
        judged = {name: getattr(one.judgement, name) for name in judged}
        judged["findings"] = [each._asdict() for each in one.judgement.findings]
    refused = None
    if one.refused is not None:
        refused = {
            "status": int(one.refused.status),
            "message": str(one.refused),
            "source": one.refused.source,
        }
    return {"dialect": one.dialect, "emitted": one.emitted, **judged, "refused": refused}
