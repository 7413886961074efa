"""Description of an exchange for tests, by the field names of the log."""

from typing import Any

from reasoning_replay.web.exchange import Exchange

_PLACES = {
    "asked": "request.state",
    "way": "request.way",
    "model": "request.model",
    "outcomes": "request.outcomes",
    "repairs": "request.repairs",
    "injected_bytes": "request.injected_bytes",
    "summary": "request.summary",
    "healed": "request.healed",
    "parent": "request.parent",
    "capture": "response.capture",
    "captured": "response.state",
    "captured_items": "response.reasoning_items",
    "captured_bytes": "response.reasoning_bytes",
    "turn": "response.turn",
    "refusal": "response.refusal",
    "before_ms": "times.before_ms",
    "between_ms": "times.between_ms",
    "after_ms": "times.after_ms",
    "first_byte_ms": "times.first_byte_ms",
    "total_ms": "times.total_ms",
}


def describe(exchange: Exchange, **fields: Any) -> None:
    """Set fields of an exchange and of its parts."""
    for name, value in fields.items():
        part, _, attribute = _PLACES.get(name, name).rpartition(".")
        owner = getattr(exchange, part) if part else exchange
        assert hasattr(owner, attribute), name
        setattr(owner, attribute, value)
