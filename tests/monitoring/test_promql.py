"""The PromQL reader finds the series and labels that an expression names."""

import pytest

from tests.monitoring.promql import Matcher, Selector, labels_of, selectors_of

A = Matcher("a", "=", "1")

CASES = [
    pytest.param("up", [Selector("up")], id="bare"),
    pytest.param('up{a="1"}[5m]', [Selector("up", (A,))], id="over-a-range"),
    pytest.param("rate(x_total[5m])", [Selector("x_total")], id="in-a-function"),
    pytest.param("sum by (a, b) (x)", [Selector("x")], id="labels-are-no-series"),
    pytest.param("sum(x) without (a)", [Selector("x")], id="labels-behind"),
    pytest.param(
        'x{a="1"} / on (a) group_left (b) y > 0.5 unless z{}',
        [Selector("x", (A,)), Selector("y"), Selector("z")],
        id="operators",
    ),
    pytest.param("x / on (a) group_left sum(y)", [Selector("x"), Selector("y")], id="joined"),
    pytest.param("a:b:rate1h offset 1h", [Selector("a:b:rate1h")], id="recorded"),
    pytest.param(
        'x{a="1", b!~"c|d"}', [Selector("x", (A, Matcher("b", "!~", "c|d")))], id="two-conditions"
    ),
]


@pytest.mark.parametrize(("expr", "found"), CASES)
def test_finds_every_series(expr: str, found: list[Selector]) -> None:
    """Every series is found, and no function, keyword, label or number."""
    assert selectors_of(expr) == found


def test_finds_labels_that_are_grouped_by() -> None:
    """Labels of grouping clauses are found at any position."""
    found = labels_of("sum by (a) (x) / on (b, c) group_left sum(y) without (d)")
    assert found == {"a", "b", "c", "d"}
