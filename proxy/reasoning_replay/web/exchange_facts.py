"""
Exchange facts: what the log line, the inspector and the trace tell of an exchange, in one table.

A fact has one name and one value for all readers. docs/observability.md describes the log's.
"""

from collections.abc import Callable
from enum import Flag, auto
from functools import partial
from itertools import compress
from operator import attrgetter, or_
from typing import Any, NamedTuple

from msgspec.structs import asdict

from reasoning_replay.adapters.telemetry.log import Value, called
from reasoning_replay.core.dialects.cache_diagnoses import CacheDiagnosis
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.web.exchange import DETAIL_MAX, Exchange

# Shown characters of the hash of a turn, enough to tell two apart.
HASH_CHARS = 12


class Reader(Flag):
    """A reader of facts."""

    LOG = auto()
    INSPECTOR = auto()
    SPAN = auto()


class Fact(NamedTuple):
    """
    One fact of an exchange.

    Attributes:
        name: Its name for all readers.
        path: Path of the attribute of an exchange that has its value.
        readers: Who gets it.
        shown: Returns a value as it is shown; None: it is shown as it is.
        has_zero: Whether the log and the span have it also if it is 0.
        is_mapping: Whether its value is a mapping, whose members are facts themselves.
    """

    name: str
    path: str
    readers: Reader
    shown: Callable[[Any], Any] | None = None
    has_zero: bool = False
    is_mapping: bool = False


def _hex(name: bytes | None) -> str:
    return "" if name is None else name.hex()


def _hash(turn: bytes) -> str:
    return turn.hex()[:HASH_CHARS]


def _counts(usage: Usage | None) -> dict[str, int | None]:
    if usage is None:
        return {}
    counts = asdict(usage)
    if usage.cache_write_tokens is None:  # most upstreams count no writes
        del counts["cache_write_tokens"], counts["cache_write_long_tokens"]
    return counts


def _told(cache: CacheDiagnosis | None) -> dict[str, Value]:
    if cache is None:
        return {}
    told: dict[str, Value] = {"cache": cache.result}
    if cache.reason:
        told |= {"cache_reason": cache.reason, "cache_missed_tokens": cache.missed_tokens}
    return told


def _total(time_ms: float | None) -> float | None:
    return None if time_ms is None else round(time_ms, 1)


_LOG, _PAGE, _SPAN = Reader
_ALL = _LOG | _PAGE | _SPAN
_MS_1, _MS_2 = partial(round, ndigits=1), partial(round, ndigits=2)

# In the order of the log's fields.
FACTS = (
    Fact("route", "route", _LOG | _PAGE),
    Fact("upstream", "upstream", _ALL),
    Fact("dialect", "dialect", _ALL),
    Fact("status", "status", _LOG | _PAGE),
    Fact("outcome", "final_outcome", _ALL),
    Fact("error", "error", _ALL),
    Fact("error_detail", "error_detail", _LOG | _PAGE, partial(called, most=DETAIL_MAX)),
    Fact("client", "client", _LOG),
    Fact("wrong_path", "wrong_path", _LOG | _PAGE),
    Fact("method", "unusual_method", _LOG, called),
    Fact("method", "method", _PAGE, called),
    Fact("model", "request.model", _LOG | _PAGE, called),
    Fact("asked", "request.state", _ALL),
    Fact("hint", "request.hint", _LOG),
    Fact("request", "request.kind", _PAGE),
    Fact("way", "request.way", _LOG | _SPAN),
    Fact("captured", "response.state", _ALL),
    Fact("healed", "request.healed", _ALL),
    Fact("unhealed", "request.unhealed", _ALL),
    Fact("repaired", "request.repaired", _LOG | _SPAN),
    Fact("repairs", "request.repairs", _PAGE),
    Fact("outcomes", "request.counts", _ALL, is_mapping=True),
    Fact("injected_bytes", "request.injected_bytes", _ALL),
    Fact("captured_items", "response.reasoning_items", _ALL, has_zero=True),
    Fact("captured_bytes", "response.reasoning_bytes", _LOG | _SPAN),
    Fact("tokens", "response.tokens", _LOG | _PAGE, _counts, is_mapping=True),
    Fact("cache", "cache", _LOG | _PAGE, _told, is_mapping=True),
    Fact("before_ms", "times.before_ms", _ALL, _MS_2, has_zero=True),
    Fact("between_ms", "times.between_ms", _ALL, _MS_2, has_zero=True),
    Fact("after_ms", "times.after_ms", _ALL, _MS_2, has_zero=True),
    Fact("first_byte_ms", "times.first_byte_ms", _ALL, _MS_1, has_zero=True),
    Fact("total_ms", "times.total_ms", _LOG | _PAGE, _total, has_zero=True),
    Fact("received_bytes", "received_bytes", _ALL, has_zero=True),
    Fact("sent_bytes", "counted_sent_bytes", _ALL, has_zero=True),
    Fact("upstream_bytes", "upstream_bytes", _PAGE),
    Fact("scope", "tenant", _ALL, _hex),
    Fact("conversation", "conversation", _ALL, bytes.hex),
    Fact("turn", "response.turn", _PAGE, _hash),
    Fact("parent", "request.parent", _PAGE, _hash),
    Fact("request_id", "id", _ALL),
    Fact("upstream_request_id", "upstream_request_id", _LOG | _PAGE, called),
    Fact("trace_id", "trace_id", _LOG | _PAGE),
    Fact("error_code", "response.error.code", _PAGE),
    Fact("error_type", "response.error.type", _PAGE),
)


class _Reading:
    """
    The facts of one reader.

    Attributes:
        facts: Themselves, in their order.
        values_of: Returns the values of all of them, in one call.
    """

    def __init__(self, reader: Reader) -> None:
        self.facts = facts = [fact for fact in FACTS if reader in fact.readers]
        self.values_of = attrgetter(*(fact.path for fact in facts))
        self._names = [fact.name for fact in facts]
        self._shown = [(at, fact.shown) for at, fact in enumerate(facts) if fact.shown is not None]
        self._have_zero = [fact.has_zero for fact in facts]
        # The facts before each mapping with its place, and those after the last one.
        self._parts: list[tuple[slice[int, int], int | None]] = []
        start = 0
        for at, fact in enumerate(facts):
            if fact.is_mapping:
                self._parts.append((slice(start, at), at))
                start = at + 1
        self._parts.append((slice(start, len(facts)), None))

    def flat(self, exchange: Exchange) -> dict[str, Value]:
        """Return the facts with the members of mappings; of the empty ones, only 0 and None."""
        values = list(self.values_of(exchange))
        for at, shown in self._shown:
            if value := values[at]:
                values[at] = shown(value)
        has_value = list(map(or_, map(bool, values), self._have_zero))
        told: dict[str, Value] = {}
        for part, mapping_at in self._parts:
            named = zip(self._names[part], values[part], strict=True)
            told.update(compress(named, has_value[part]))
            if mapping_at is not None and values[mapping_at]:
                told.update(values[mapping_at])
        return told


_READINGS = {reader: _Reading(reader) for reader in Reader}


def facts_of(exchange: Exchange, reader: Reader) -> dict[str, Any]:
    """Return all facts for a reader, by name."""
    reading = _READINGS[reader]
    values = zip(reading.facts, reading.values_of(exchange), strict=True)
    return {fact.name: value if fact.shown is None else fact.shown(value) for fact, value in values}


def flat_facts_of(exchange: Exchange, reader: Reader) -> dict[str, Value]:
    """
    Return the facts for a reader, with the members of mappings and without empty ones.

    One that may be 0 is None if it is not known.
    """
    return _READINGS[reader].flat(exchange)
