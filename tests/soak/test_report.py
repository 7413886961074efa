"""Report: every broken bound is named, and a good run has none."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.soak.gauges import Gauges, Lag, Sample
from tests.soak.report import MIB, broken, table
from tests.soak.run import Options, Result

WELL = {
    "requests": 1000,
    "complete responses": 900,
    "injected": 500,
    "asked": 400,
    "given": 390,
    "asked, nothing failed": 300,
    "given, nothing failed": 300,
}


def result(
    *,
    rss_grows: int = 0,
    files_grow: int = 0,
    kept: int = 0,
    busy: int = 0,
    stalls_s: tuple[float, ...] = (),
) -> Result:
    """Build the result of a good run, except for these values."""
    gauges = Gauges(1)
    for at in range(100):
        late = at > 50
        gauges.samples.append(Sample(70 * MIB + rss_grows * late, 20 + files_grow * late, at / 10))
    lag = Lag("http://127.0.0.1:9")
    lag.took_s += [0.001] * 1000 + [*stalls_s]
    return Result(Counter(WELL), [], [gauges], [lag], [(20, 20 + kept)], busy, 60.0)


def counted_as(name: str, count: int) -> Result:
    """Build a result with another count."""
    made = result()
    made.counts[name] = count
    return made


@pytest.mark.parametrize(
    ("make", "word"),
    [
        pytest.param(lambda: result(rss_grows=20 * MIB), "memory", id="memory"),
        pytest.param(lambda: result(files_grow=60), "files", id="files"),
        pytest.param(lambda: result(kept=60), "keeps", id="files-left-open"),
        pytest.param(lambda: result(busy=1), "never ended", id="never-ended"),
        pytest.param(lambda: result(stalls_s=(3.0,)), "lags", id="one-long-stall"),
        pytest.param(lambda: result(stalls_s=(0.3,) * 25), "lags", id="many-stalls"),
        pytest.param(lambda: counted_as("wrong: bytes", 1), "bytes", id="bytes"),
        pytest.param(lambda: counted_as("given, nothing failed", 200), "injected", id="missed"),
        pytest.param(lambda: counted_as("injected", 0), "nothing", id="idle"),
    ],
)
def test_a_broken_bound_is_named(make: Callable[[], Result], word: str) -> None:
    """The text of a broken bound contains the word for it."""
    (fault,) = broken(make())
    assert word in fault


def test_a_good_run_breaks_no_bound() -> None:
    """A good run breaks no bound, and its table has the figures."""
    assert broken(result()) == []
    assert "97.5% of all" in table(result(), Options(seed="s"))
