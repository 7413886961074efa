"""Bench: the same bytes for all contenders, checks that can fail, and a fair table."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.bench.contenders import Bench, Contender, bare, direct, ours
from tests.bench.exchanges import connected
from tests.bench.histories import play, verify
from tests.bench.load import Arrivals, LoadError
from tests.bench.runs import Rounds, running
from tests.bench.shapes.dialect import Dialect, History
from tests.bench.shapes.dialects import DIALECTS
from tests.bench.streams import streamed
from tests.bench.table import against_bare, table
from tests.bench.work import SORTS, counted

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Keep connections open until the test has ended."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """Run the upstream."""
    async with running(is_quick=True) as bench:
        yield bench


@pytest.fixture
async def those(bench: Bench) -> AsyncIterator[list[Contender]]:
    """Start the contenders that are always available."""
    async with bare(bench) as plain, ours(bench) as product:
        yield [direct(bench), plain, product]


@EACH_DIALECT
async def test_all_contenders_return_the_same(
    bench: Bench, those: list[Contender], stack: AsyncExitStack, dialect: Dialect
) -> None:
    """Small responses are the same bytes through each, streams are whole, and both are measured."""
    numbers = range(100, 105)
    for one in those:
        [line] = await connected(stack, one, 1)
        asks = [dialect.request(f"small {n}", dialect.small_body(n)) for n in numbers]
        assert [await line.exchange(each) for each in asks] == [
            dialect.small_answer(n) for n in numbers
        ]
        arrivals = await streamed(bench, dialect, line, 20, 1_000)
        assert arrivals.is_whole(20)
        assert min(arrivals.late_s) > 0

    nothing, plain, product = those
    assert nothing.cpu_s() == nothing.rss_bytes() == 0
    for one in (plain, product):
        assert one.cpu_s() > 0.05
        assert one.rss_bytes() > 10_000_000
    assert product.starts_s > plain.starts_s == 0


@pytest.mark.parametrize("drops", [(), ("id",)], ids=["ids-kept", "ids-dropped"])
@EACH_DIALECT
async def test_a_history_counts_only_if_upstream_receives_all_of_it(
    those: list[Contender], stack: AsyncExitStack, dialect: Dialect, drops: tuple[str, ...]
) -> None:
    """Injection is verified at the upstream, so that no contender is fast by doing nothing."""
    told = History(dialect, 1, 4, 200, drops)
    _, plain, product = those
    await play(stack, product, told)

    with pytest.raises(LoadError, match="saw 0 of 4"):
        await verify(stack, plain, told)


@pytest.mark.parametrize("sort", SORTS)
@EACH_DIALECT
def test_work_is_counted_and_not_timed(dialect: Dialect, sort: str) -> None:
    """The counts are of the product's code, and the exchange is one that the row describes."""
    work = counted(sort, dialect)

    totals = work.summed()
    assert 300 < totals["calls"] < totals["opcodes"]
    assert work.hops["tasks"] == 1
    functions = {function for _, function in work.calls}
    assert {"ProxyHandler.handle", "ExchangeLog.settle"} < functions
    assert ("Events.feed" in functions) == (sort == "stream")


@EACH_DIALECT
def test_shapes_of_all_dialects_have_about_the_same_size(dialect: Dialect) -> None:
    """A row of one dialect can be compared with the same row of another."""
    histories = [
        History(each, 1, 60 // each.items_a_turn, 700) for each in (*DIALECTS.values(), dialect)
    ]

    assert len({told.items for told in histories}) == 1
    sizes = [len(told.asks(told.turns)) for told in histories]
    assert max(sizes) < 1.1 * min(sizes)
    assert 1_200 < len(dialect.small_body(1)) < 1_400
    assert 1_600 < len(dialect.small_answer(1)) < 1_800
    assert 250 < len(dialect.delta(1) % (1, 1)) < 350


@EACH_DIALECT
def test_events_are_read_from_any_pieces(dialect: Dialect) -> None:
    """A stamp is read when its event is complete, for any pieces that a proxy sends."""
    said = b"".join([dialect.delta(1) % (n, 1) for n in range(3)] + [*dialect.closing(1, 3)])
    for size in (1, 7, len(said)):
        arrivals = Arrivals(dialect.ending)
        for at in range(0, len(said), size):
            arrivals.hear(said[at : at + size])

        assert (len(arrivals.late_s), arrivals.ends) == (3, 1)


# (us of bare, us of the product, limit, whether it is met)
VERDICTS = [
    pytest.param([10, 10, 10], [12, 13, 90], 1.3, True, id="within"),
    pytest.param([10, 10, 10], [14, 12, 14], 1.3, False, id="beyond"),
    pytest.param([10, 20, 40], [12, 24, 48], 1.2, True, id="machine-slows-down"),
]


@pytest.mark.parametrize(("bare_us", "ours_us", "limit", "is_met"), VERDICTS)
def test_the_median_of_ratios_is_judged(
    bare_us: list[float], ours_us: list[float], limit: float, is_met: bool
) -> None:
    """A single bad round does not change the result."""
    measured = {"bare": bare_us, "proxy": ours_us}
    rounds = Rounds({name: [{"cpu": one} for one in values] for name, values in measured.items()})

    figure = against_bare("small", "CPU us", rounds, "cpu", limit)

    assert figure.is_met == is_met
    assert ("BEYOND" in table([figure])) != is_met
