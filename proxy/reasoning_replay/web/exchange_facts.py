"""
Exchange facts: what the log line, the inspector and the trace tell of an exchange, in one table.

A fact has one name and one value for all readers. docs/observability.md describes the log's.
"""

from collections.abc import Callable
from enum import Flag, auto
from operator import attrgetter
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
        value: Returns its value.
        readers: Who gets it.
        has_zero: Whether the log and the span have it also if it is 0.
        is_mapping: Whether its value is a mapping, whose members are facts themselves.
    """

    name: str
    value: Callable[[Exchange], Any]
    readers: Reader
    has_zero: bool = False
    is_mapping: bool = False


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
    Fact("route", attrgetter("route"), _LOG | _PAGE),
    Fact("dialect", attrgetter("dialect"), _ALL),
    Fact("status", attrgetter("status"), _LOG | _PAGE),
    Fact("outcome", lambda e: "" if e.is_open else e.outcome, _ALL),
    Fact("error", attrgetter("error"), _ALL),
    Fact("error_detail", lambda e: called(e.error_detail, DETAIL_MAX), _LOG | _PAGE),
    Fact("client", attrgetter("client"), _LOG),
    Fact("wrong_path", attrgetter("wrong_path"), _LOG | _PAGE),
    Fact("method", _method, _LOG),
    Fact("method", lambda e: called(e.method), _PAGE),
    Fact("model", lambda e: called(e.request.model), _LOG | _PAGE),
    Fact("asked", attrgetter("request.state"), _ALL),
    Fact("hint", attrgetter("request.hint"), _LOG),
    Fact("request", attrgetter("request.kind"), _PAGE),
    Fact("way", attrgetter("request.way"), _LOG | _SPAN),
    Fact("captured", attrgetter("response.state"), _ALL),
    Fact("healed", attrgetter("request.healed"), _ALL),
    Fact("unhealed", attrgetter("request.unhealed"), _ALL),
    Fact("repaired", attrgetter("request.repaired"), _LOG | _SPAN),
    Fact("repairs", attrgetter("request.repairs"), _PAGE),
    Fact("changes", attrgetter("request.changes"), _PAGE),
    Fact("outcomes", attrgetter("request.counts"), _ALL, is_mapping=True),
    Fact("injected_bytes", attrgetter("request.injected_bytes"), _ALL),
    Fact("captured_items", attrgetter("response.reasoning_items"), _ALL, has_zero=True),
    Fact("captured_bytes", attrgetter("response.reasoning_bytes"), _LOG | _SPAN),
    Fact("tokens", _tokens, _LOG | _PAGE, is_mapping=True),
    Fact("before_ms", lambda e: round(e.times.before_ms, 2), _ALL, has_zero=True),
    Fact("between_ms", lambda e: round(e.times.between_ms, 2), _ALL, has_zero=True),
    Fact("after_ms", lambda e: round(e.times.after_ms, 2), _ALL, has_zero=True),
    Fact("first_byte_ms", lambda e: round(e.times.first_byte_ms, 1), _ALL, has_zero=True),
    Fact("total_ms", _total_ms, _LOG | _PAGE, has_zero=True),
    Fact("received_bytes", attrgetter("received_bytes"), _ALL, has_zero=True),
    Fact("sent_bytes", _sent_bytes, _ALL, has_zero=True),
    Fact("upstream_bytes", attrgetter("upstream_bytes"), _PAGE),
    Fact("scope", lambda e: (e.tenant or b"").hex(), _ALL),
    Fact("conversation", lambda e: e.conversation.hex(), _ALL),
    Fact("turn", lambda e: e.response.turn.hex()[:HASH_CHARS], _PAGE),
    Fact("parent", lambda e: e.request.parent.hex()[:HASH_CHARS], _PAGE),
    Fact("request_id", attrgetter("id"), _ALL),
    Fact("upstream_request_id", lambda e: called(e.upstream_request_id), _LOG | _PAGE),
    Fact("trace_id", attrgetter("trace_id"), _LOG | _PAGE),
    Fact("error_code", attrgetter("response.error.code"), _PAGE),
    Fact("error_type", attrgetter("response.error.type"), _PAGE),
)
_READ_BY = {reader: [fact for fact in FACTS if reader in fact.readers] for reader in Reader}
_READ_FLAT = {
    reader: [("" if one.is_mapping else one.name, one.value, one.has_zero) for one in facts]
    for reader, facts in _READ_BY.items()
}


def facts_of(exchange: Exchange, reader: Reader) -> dict[str, Any]:
    """Return all facts for a reader, by name."""
    return {fact.name: fact.value(exchange) for fact in _READ_BY[reader]}


def flat_facts_of(exchange: Exchange, reader: Reader) -> dict[str, Value]:
    """Return the facts for a reader, with the members of mappings and without empty ones."""
    facts: dict[str, Value] = {}
    for name, value_of, has_zero in _READ_FLAT[reader]:
        value = value_of(exchange)
        if value:
            if name:
                facts[name] = value
            else:
                facts |= value
        elif has_zero and value is not None:
            facts[name] = value
    return facts
