"""
Exchange facts: what the log line, the inspector and the trace tell of an exchange, in one table.

A fact has one name and one value for all readers. docs/observability.md describes the log's.
"""

from collections.abc import Callable
from enum import Flag, auto
from typing import Any, NamedTuple

from msgspec.structs import asdict

from reasoning_replay.adapters.telemetry.log import Value, called
from reasoning_replay.core.dialects.registry import HANDLED_ROUTES
from reasoning_replay.core.dialects.states import Route
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
        value: Returns its value. The members of a mapping are facts themselves.
        readers: Who gets it.
        has_zero: Whether the log and the span have it also if it is 0.
    """

    name: str
    value: Callable[[Exchange], Any]
    readers: Reader
    has_zero: bool = False


def _method(exchange: Exchange) -> str | None:
    """Return the method; None on routes that imply it."""
    return None if exchange.route in HANDLED_ROUTES else called(exchange.method)


def _tokens(exchange: Exchange) -> dict[str, int | None]:
    capture, usage = exchange.response.capture, exchange.response.usage
    if capture is not None:
        usage = capture.usage
    return {} if usage is None else asdict(usage)


def _total_ms(exchange: Exchange) -> float | None:
    total_ms = exchange.times.total_ms
    return None if total_ms is None else round(total_ms, 1)


def _sent_bytes(exchange: Exchange) -> int | None:
    """Return the bytes sent to the client; those of a `response.create` are not counted."""
    return None if exchange.route == Route.CREATE else exchange.sent_bytes


_LOG, _PAGE, _SPAN = Reader
_ALL = _LOG | _PAGE | _SPAN

# In the order of the log's fields.
FACTS = (
    Fact("route", lambda e: e.route, _LOG | _PAGE),
    Fact("dialect", lambda e: e.dialect, _ALL),
    Fact("status", lambda e: e.status, _LOG | _PAGE),
    Fact("outcome", lambda e: "" if e.is_open else e.outcome, _ALL),
    Fact("error", lambda e: e.error, _ALL),
    Fact("error_detail", lambda e: called(e.error_detail, DETAIL_MAX), _LOG | _PAGE),
    Fact("client", lambda e: e.client, _LOG),
    Fact("wrong_path", lambda e: e.wrong_path, _LOG | _PAGE),
    Fact("method", _method, _LOG),
    Fact("method", lambda e: called(e.method), _PAGE),
    Fact("model", lambda e: called(e.request.model), _LOG | _PAGE),
    Fact("asked", lambda e: e.request.state, _ALL),
    Fact("hint", lambda e: e.request.hint, _LOG),
    Fact("request", lambda e: e.request.kind, _PAGE),
    Fact("way", lambda e: e.request.way, _LOG | _SPAN),
    Fact("captured", lambda e: e.response.state, _ALL),
    Fact("healed", lambda e: e.request.healed, _ALL),
    Fact("unhealed", lambda e: e.request.unhealed, _ALL),
    Fact("repaired", lambda e: e.request.repaired, _LOG | _SPAN),
    Fact("repairs", lambda e: e.request.repairs, _PAGE),
    Fact("changes", lambda e: e.request.changes, _PAGE),
    Fact("outcomes", lambda e: e.request.counts, _ALL),
    Fact("injected_bytes", lambda e: e.request.injected_bytes, _ALL),
    Fact("captured_items", lambda e: e.response.reasoning_items, _ALL, has_zero=True),
    Fact("captured_bytes", lambda e: e.response.reasoning_bytes, _LOG | _SPAN),
    Fact("tokens", _tokens, _LOG | _PAGE),
    Fact("before_ms", lambda e: round(e.times.before_ms, 2), _ALL, has_zero=True),
    Fact("between_ms", lambda e: round(e.times.between_ms, 2), _ALL, has_zero=True),
    Fact("after_ms", lambda e: round(e.times.after_ms, 2), _ALL, has_zero=True),
    Fact("first_byte_ms", lambda e: round(e.times.first_byte_ms, 1), _ALL, has_zero=True),
    Fact("total_ms", _total_ms, _LOG | _PAGE, has_zero=True),
    Fact("received_bytes", lambda e: e.received_bytes, _ALL, has_zero=True),
    Fact("sent_bytes", _sent_bytes, _ALL, has_zero=True),
    Fact("upstream_bytes", lambda e: e.upstream_bytes, _PAGE),
    Fact("scope", lambda e: (e.tenant or b"").hex(), _ALL),
    Fact("conversation", lambda e: e.conversation.hex(), _ALL),
    Fact("turn", lambda e: e.response.turn.hex()[:HASH_CHARS], _PAGE),
    Fact("parent", lambda e: e.request.parent.hex()[:HASH_CHARS], _PAGE),
    Fact("request_id", lambda e: e.id, _ALL),
    Fact("upstream_request_id", lambda e: called(e.upstream_request_id), _LOG | _PAGE),
    Fact("trace_id", lambda e: e.trace_id, _LOG | _PAGE),
    Fact("error_code", lambda e: e.response.error.code, _PAGE),
    Fact("error_type", lambda e: e.response.error.type, _PAGE),
)
_READ_BY = {reader: [fact for fact in FACTS if reader in fact.readers] for reader in Reader}


def facts_of(exchange: Exchange, reader: Reader) -> dict[str, Any]:
    """Return all facts for a reader, by name."""
    return {name: value(exchange) for name, value, _, _ in _READ_BY[reader]}


def flat_facts_of(exchange: Exchange, reader: Reader) -> dict[str, Value]:
    """Return the facts for a reader, with the members of mappings and without empty ones."""
    facts: dict[str, Value] = {}
    for name, value_of, _, has_zero in _READ_BY[reader]:
        value = value_of(exchange)
        if isinstance(value, dict):
            facts |= value
        elif value or (has_zero and value is not None):
            facts[name] = value
    return facts
