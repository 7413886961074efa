"""
Rows of the bench, by name: what is measured, of which dialect, and at which size.

A further row is one line here: a measurement with other arguments.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from tests.bench.bench import Bench
from tests.bench.exchanges import small
from tests.bench.footprint import footprint
from tests.bench.growth import growth
from tests.bench.histories import history, long
from tests.bench.shapes.chat import CHAT
from tests.bench.shapes.dialect import Dialect
from tests.bench.shapes.messages import MESSAGES
from tests.bench.shapes.responses import RESPONSES
from tests.bench.streams import scale, stream
from tests.bench.table import Figure

__all__ = ["ROWS"]


class _Measure(Protocol):
    def __call__(self, bench: Bench, row: str, dialect: Dialect) -> Awaitable[list[Figure]]: ...


# Each has a name, a measurement, and the dialect that is sent.
_ROWS: tuple[tuple[str, _Measure, Dialect], ...] = (
    ("small", small, RESPONSES),
    ("chat-small", small, CHAT),
    ("messages-small", small, MESSAGES),
    ("stream", stream, RESPONSES),
    ("chat-stream", stream, CHAT),
    ("messages-stream", stream, MESSAGES),
    ("history", history, RESPONSES),
    ("chat-history", history, CHAT),
    ("messages-history", history, MESSAGES),
    ("growth", growth, RESPONSES),
    ("chat-growth", growth, CHAT),
    ("messages-growth", growth, MESSAGES),
    ("long", long, RESPONSES),
    ("scale", scale, RESPONSES),
    ("footprint", footprint, RESPONSES),
)
ROWS: Mapping[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    name: partial(measure, row=name, dialect=dialect) for name, measure, dialect in _ROWS
}
"""Such as `("huge-ids", partial(history, items=3_000, drops={"id"}), RESPONSES)`."""
