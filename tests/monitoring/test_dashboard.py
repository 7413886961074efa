"""The dashboard loads from a file, and every panel has a description."""

import itertools
import re
from typing import Any

import pytest

from tests.begun_metrics import begun_metrics
from tests.monitoring.files import DASHBOARD, EVERY, PANELS, queries

Json = dict[str, Any]

COLUMNS = 24
METRICS = begun_metrics(upstreams=["a"])
_ = METRICS.exchange_seconds["responses", "a"]  # it has no series yet
# Labels that a variable of the dashboard chooses -> the metrics with them, as in Prometheus.
CHOSEN = {
    label: {
        sample.name
        for family in METRICS.registry.collect()
        for sample in family.samples
        if label in sample.labels
    }
    for label in ("dialect", "upstream")
}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
VARIABLES: dict[str, Json] = {one["name"]: one for one in DASHBOARD["templating"]["list"]}


def named(panel: Json) -> str:
    """Return the title of a panel."""
    return str(panel["title"])


def test_it_loads_from_a_file() -> None:
    """The dashboard needs no input at import and has no foreign id; its links stay valid."""
    assert "__inputs" not in DASHBOARD
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "reasoning-replay"
    assert DASHBOARD["schemaVersion"] >= 39


def test_ids_and_titles_are_unique() -> None:
    """Ids and titles are unique, so that links and legends mean one panel."""
    ids = [panel["id"] for panel in EVERY]
    titles = [panel["title"] for panel in EVERY]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)


def lines_of(panels: list[Json], top: int = 0) -> int:
    """Return the number of lines of panels that begin at a line; fail unless they fill them."""
    cells = [
        (at["y"] + y, at["x"] + x)
        for at in (panel["gridPos"] for panel in panels)
        for y, x in itertools.product(range(at["h"]), range(at["w"]))
    ]
    lines: int = 1 + max(y for y, _ in cells)
    assert sorted(cells) == list(itertools.product(range(top, lines), range(COLUMNS)))
    return lines - top


def test_panels_fill_the_page() -> None:
    """No panels overlap, none leaves the page, and no row has a gap, folded or not."""
    assert lines_of(DASHBOARD["panels"]) > 1
    for row in (panel for panel in DASHBOARD["panels"] if panel.get("collapsed")):
        assert lines_of(row["panels"], row["gridPos"]["y"] + 1) > 1


def test_only_what_most_people_need_is_open() -> None:
    """A folded row asks Prometheus nothing until it is opened."""
    rows = [panel for panel in EVERY if panel["type"] == "row"]
    assert [row["title"] for row in rows if not row["collapsed"]] == ["Reasoning"]
    assert [row["title"] for row in rows if row["collapsed"] and not row["panels"]] == []
    assert rows[0]["title"] == "Reasoning"


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_each_panel_says_what_it_shows(panel: Json) -> None:
    """Each panel has a description in sentences, a unit, and the selected data source."""
    assert re.fullmatch(r".{30,}\.", panel["description"])
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == SOURCE
    for target in panel["targets"]:
        assert target["datasource"] == SOURCE
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_rates_have_samples_where_it_is_scraped_once_a_minute(panel: Json) -> None:
    """
    Each rate sets its interval to the scrape interval of one minute, Prometheus' default.

    Grafana's $__rate_interval covers four scrape intervals, which it assumes to be 15 s. In one
    minute there would be one sample, and every such panel would be empty.
    """
    for target in panel["targets"]:
        if "$__rate_interval" in target["expr"]:
            assert target["interval"] == "1m"


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_each_panel_shows_what_was_chosen(panel: Json) -> None:
    """Every series is filtered by all that is selected, as far as it has these labels."""
    for target in panel["targets"]:
        for name, conditions in re.findall(r"(reasoning_replay_\w+)(\{[^}]*\})?", target["expr"]):
            chosen = set(re.findall(r'(\w+)=~"\$\1"', conditions))
            assert chosen == {"job", "namespace", "pod"} | {
                label for label, names in CHOSEN.items() if name in names
            }


def test_variables_work_where_there_is_no_kubernetes() -> None:
    """`All` includes series without the label; the choices come from our own metrics."""
    assert list(VARIABLES) == ["datasource", "namespace", "job", "pod", "dialect", "upstream"]
    assert VARIABLES["datasource"]["query"] == "prometheus"
    for name in ("namespace", "job", "pod", "dialect", "upstream"):
        variable = VARIABLES[name]
        assert (variable["allValue"], variable["includeAll"]) == (".*", True)
        assert variable["current"]["value"] == ["$__all"]
        assert variable["datasource"] == SOURCE
        assert re.fullmatch(
            rf"label_values\(reasoning_replay_(build_info|requests_total).*, {name}\)",
            variable["query"]["query"],
        )


def test_legends_tell_apart_what_a_panel_asks() -> None:
    """The expressions of one panel have different legends."""
    assert len(queries()) == sum(len(panel["targets"]) for panel in PANELS)
