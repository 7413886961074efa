"""
Report: what the proxy was worth since it started, from the metrics of one or more processes.

It needs nothing but their `/metrics`. Prices are the user's: none is built in.
"""

import json
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES

PREFIX: Final = "reasoning_replay_"
TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 32 << 20
PROBLEM: Final = 1
# The prices of a model, for a million tokens. A long lifetime in the cache may cost more to write.
PRICES: Final = ("input", "cache_read", "cache_write", "cache_write_long", "output")
ANY_MODEL: Final = "*"
_PER: Final = 1_000_000
# Names of the kinds of `tokens_total` in the report.
_KINDS: Final = {
    "input": "input",
    "cache_read": "cached",
    "cache_write": "cache_write",
    "output": "output",
    "reasoning": "reasoning",
}

Labels = Mapping[str, str]


class ReportError(Exception):
    """A report that cannot be made; the text says why, and the way out."""


@dataclass(slots=True)
class Sums:
    """
    The sums of the metrics of all processes.

    Attributes:
        counts: By name, as in the report.
        tokens: By model, kind of request and kind of token.
        missed: By the vendor's reason.
        diagnoses: By result.
    """

    counts: Counter[str] = field(default_factory=Counter)
    tokens: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    diagnoses: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Add the metrics of one process, in Prometheus' text format."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name, value = sample.name.removeprefix(PREFIX), int(sample.value)
                self._add(name, sample.labels, value)

    def _add(self, name: str, labels: Labels, value: int) -> None:
        match name:
            case "requests_total":
                self.counts["requests"] += value
            case "items_total" if labels["outcome"] in {"injected", "lacking"}:
                self.counts["injected" if labels["outcome"] == "injected" else "lost"] += value
            case "exchanges_total" if labels["outcome"] == "refused":
                is_theirs = labels["route"] in CAPTURED_ROUTES and labels["status"] == "400"
                self.counts["refused"] += value if is_theirs else 0
            case "heals_total" if labels["result"] == "cured":
                self.counts["cured"] += value
            case "tokens_total":
                self.tokens[labels.get("model", ""), labels["request"], labels["kind"]] += value
            case "cache_missed_tokens_total":
                self.missed[labels["reason"]] += value
            case "cache_diagnoses_total":
                self.diagnoses[labels["result"]] += value

    def of(self, kind: str, *, request: str = "", model: str | None = None) -> int:
        """Return the tokens of a kind: of one kind of request or of all, of one model or of all."""
        return sum(
            count
            for (of_model, of_request, one), count in self.tokens.items()
            if one == kind and request in {"", of_request} and model in {None, of_model}
        )

    def cached_share(self, request: str = "") -> float | None:
        """Return the share of the input tokens that was read from the cache; None without any."""
        taken = self.of("input", request=request)
        return self.of("cached", request=request) / taken if taken else None

    def as_json(self, money: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the report for programs."""
        names = ("requests", "injected", "lost", "refused", "cured")
        tokens = {name: self.of(kind) for name, kind in _KINDS.items()}
        missed = {reason: count for reason, count in self.missed.most_common() if count}
        report = {name: self.counts[name] for name in names} | {"tokens": tokens, "missed": missed}
        return report if money is None else report | {"money": money}


def report(urls: Sequence[str], prices: Path | None, *, is_json: bool) -> int:
    """
    Print the report of the processes with these admin ports.

    Returns:
        The exit code: 0, or PROBLEM if one does not answer, or the prices cannot be read.
    """
    sums = Sums()
    try:
        table = {} if prices is None else read_prices(prices)
        for url in urls:
            sums.add(_fetched(url))
    except ReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return PROBLEM
    money = money_of(sums, table) if table else None
    if is_json:
        print(json.dumps(sums.as_json(money)))
    else:
        print(*_lines(sums, money, urls), sep="\n")
    return 0


def read_prices(path: Path) -> dict[str, dict[str, float]]:
    """
    Return the prices for a million tokens, by model.

    Raises:
        ReportError: The file cannot be read, or is no such table.
    """
    example = "gpt-5.6: {input: 2, cache_read: 0.2, cache_write: 2.5, output: 10}"
    try:
        given = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ReportError(f"--prices: {path} cannot be read: {error}") from error
    if not isinstance(given, dict) or not given:
        raise ReportError(f"--prices: {path} has no table; write {example}")
    for model, row in given.items():
        unknown = [*row.keys() - set(PRICES)] if isinstance(row, dict) else [str(row)]
        if unknown or not {"input", "output"} <= row.keys():
            names = ", ".join(PRICES)
            raise ReportError(f"--prices: {model}: use {names} ({', '.join(unknown) or 'missing'})")
        if not all(isinstance(one, (int, float)) and one >= 0 for one in row.values()):
            raise ReportError(f"--prices: {model}: a price is a number from 0 on")
    return {str(model): row for model, row in given.items()}


def money_of(sums: Sums, prices: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    """
    Return what the tokens cost; None if no model has prices.

    `cost` is that of all models with prices. `saved_estimate` is what the input of requests with
    injected reasoning would have cost more if only the share of lacking ones were cached; None
    without lacking requests to compare with. `unpriced` are models with tokens and without prices.
    """
    cost = saved = 0.0
    unpriced: list[str] = []
    shares = sums.cached_share("injected"), sums.cached_share("lacking")
    for model in sorted({model for model, _, _ in sums.tokens}):
        row = prices.get(model, prices.get(ANY_MODEL))
        if not sums.of("input", model=model):
            continue
        if row is None:
            unpriced.append(model)
            continue
        full = row["input"]
        read = row.get("cache_read", full)
        written = row.get("cache_write", full)
        long = sums.of("cache_write_long", model=model)
        cost += sums.of("uncached", model=model) * full
        cost += sums.of("cached", model=model) * read
        cost += (sums.of("cache_write", model=model) - long) * written
        cost += long * row.get("cache_write_long", written)
        cost += sums.of("output", model=model) * row["output"]
        if None not in shares:
            more = (shares[0] or 0.0) - (shares[1] or 0.0)
            saved += sums.of("input", request="injected", model=model) * more * (full - read)
    if unpriced and not cost:
        return None
    return {
        "cost": round(cost / _PER, 6),
        "saved_estimate": None if None in shares else round(saved / _PER, 6),
        "unpriced": unpriced,
    }


def _fetched(url: str) -> str:
    """
    Return the metrics of one process.

    Raises:
        ReportError: It does not answer, or with something else.
    """
    place = url if "://" in url else f"http://{url}"
    place = f"{place.rstrip('/').removesuffix('/metrics')}/metrics"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(place, timeout=TIMEOUT_S) as response:
            text: str = response.read(MAX_BYTES).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ReportError(
            f"{place} does not answer ({reason}); give the admin port of a running proxy, such as"
            " http://127.0.0.1:9090"
        ) from error
    if f"{PREFIX}build_info" not in text:
        raise ReportError(f"{place} has no metrics of this program; give its admin port")
    return text


def _lines(sums: Sums, money: Mapping[str, Any] | None, urls: Iterable[str]) -> Iterator[str]:
    """Yield the report as plain text, one screen at most."""
    counts = sums.counts
    yield f"Since the start of: {', '.join(urls)}"
    yield ""
    due = counts["injected"] + counts["lost"]
    yield f"{'requests':<28}{counts['requests']:>14,}"
    yield f"{'reasoning injected':<28}{counts['injected']:>14,}  of {due:,} that clients left out"
    yield f"{'refusals cured':<28}{counts['cured']:>14,}  and {counts['refused']:,} not cured"
    yield ""
    yield f"{'tokens':<28}{'input':>14}{'from cache':>14}{'share':>9}"
    rows = {
        "all requests": "",
        "  reasoning injected": "injected",
        "  reasoning lacking": "lacking",
    }
    for title, request in rows.items():
        share = sums.cached_share(request)
        told = "-" if share is None else f"{share:.1%}"
        taken, cached = (sums.of(kind, request=request) for kind in ("input", "cached"))
        yield f"{title:<28}{taken:>14,}{cached:>14,}{told:>9}"
    for title, kind in {"written to the cache": "cache_write", "at full price": "uncached"}.items():
        yield f"{title:<28}{sums.of(kind):>14,}"
    yield f"{'output':<28}{sums.of('output'):>14,}  of which {sums.of('reasoning'):,} reasoning"
    yield from _diagnosed(sums)
    yield from _valued(money)


def _diagnosed(sums: Sums) -> Iterator[str]:
    """Yield what the vendors say about misses of the cache."""
    asked = sum(sums.diagnoses.values())
    if not asked:
        return
    yield ""
    told = asked - sums.diagnoses["none"] - sums.diagnoses["pending"]
    yield f"{'asked why the cache missed':<28}{asked:>14,}  of which {told:,} were diagnosed"
    for reason, count in sums.missed.most_common():
        if count:
            yield f"{'  ' + reason:<28}{count:>14,}  tokens missed"


def _valued(money: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what it cost, as far as prices are known."""
    if money is None:
        return
    yield ""
    yield f"{'cost, by your prices':<28}{money['cost']:>14,.2f}"
    saved = money["saved_estimate"]
    told = "unknown: no request lacked reasoning" if saved is None else f"{saved:,.2f}"
    yield f"{'saved by the cache, estimate':<28}{told:>14}"
    if money["unpriced"]:
        yield f"without a price: {', '.join(one or 'all models' for one in money['unpriced'])}"
