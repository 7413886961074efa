"""
Rows of the bench, by name: what is measured, of which dialect, and at which size.

A further row is one line here: a measurement with other arguments. A limit guards against a
regression: it is a quarter more than the largest figure in docs/internals/performance.md.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from tests.bench.contenders import Bench
from tests.bench.exchanges import footprint, latency, small
from tests.bench.growing import growing, growth, steep
from tests.bench.histories import PATIENT, history, long
from tests.bench.repeats import huge, repeats
from tests.bench.shapes.dialect import Dialect
from tests.bench.shapes.dialects import DIALECTS
from tests.bench.shapes.responses import RESPONSES
from tests.bench.streams import scale, stream
from tests.bench.table import Figure
from tests.bench.work import work


class _Measure(Protocol):
    def __call__(self, bench: Bench, row: str, dialect: Dialect) -> Awaitable[list[Figure]]: ...


# For 200 long conversations (docs/capacity.md).
WIDE = {**PATIENT, "local_max_bytes": "192MiB"}
# Rows of each dialect, by the name that they have for Responses.
_OF_EACH: tuple[tuple[str, _Measure], ...] = (
    ("small", small),
    ("work", work),
    ("latency", latency),
    ("stream", stream),
    ("big", partial(repeats, limit=3.2, is_known=False)),
    ("inject", partial(repeats, limit=4.8)),
    ("inject-redis", partial(repeats, limit=7, on_redis=True)),
    ("inject-redis-16", partial(repeats, limit=8, on_redis=True, at_once=16)),
    ("growing", partial(growing, limit=5.6)),
    ("growing-redis", partial(growing, limit=7.6, on_redis=True)),
    ("growing-redis-no-ids", partial(growing, limit=8.4, on_redis=True, drops=("id",))),
    ("steep", steep),
    ("huge", partial(huge, limit=7.4)),
    ("huge-16", partial(huge, limit=7.4, at_once=16)),
    ("history", history),
    ("growth", growth),
)
_OF_RESPONSES: tuple[tuple[str, _Measure], ...] = (
    ("long", long),
    ("inject-30", partial(repeats, limit=4.8, conversations=30)),
    ("inject-100", partial(repeats, limit=4.8, conversations=100)),
    ("inject-200", partial(repeats, limit=4.8, conversations=200, settings=WIDE)),
    ("scale", scale),
    ("footprint", footprint),
)


def _row(
    name: str, measure: _Measure, dialect: Dialect
) -> Callable[[Bench], Awaitable[list[Figure]]]:
    return partial(measure, row=name, dialect=dialect)


ROWS: Mapping[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    row: _row(row, measure, dialect)
    for name, measure in _OF_EACH
    for dialect in DIALECTS.values()
    for row in [name if dialect is RESPONSES else f"{dialect.name}-{name}"]
} | {name: _row(name, measure, RESPONSES) for name, measure in _OF_RESPONSES}
"""Such as `("huge-ids", partial(history, items=3_000, drops={"id"}))`."""
