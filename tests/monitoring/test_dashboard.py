"""The dashboard is whole: Grafana loads it from a file, and a reader understands each panel."""

import itertools
import re
from typing import Any

import pytest

from tests.monitoring.files import DASHBOARD, PANELS, queries

Json = dict[str, Any]

COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
EVERY: list[Json] = DASHBOARD["panels"]
VARIABLES: dict[str, Json] = {one["name"]: one for one in DASHBOARD["templating"]["list"]}


def named(panel: Json) -> str:
    """Say which one it is."""
    return str(panel["title"])


def test_it_loads_from_a_file() -> None:
    """Nothing is asked on import, no id of another Grafana is in it, and links to it stay good."""
    assert "__inputs" not in DASHBOARD
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "reasoning-replay"
    assert DASHBOARD["schemaVersion"] >= 39


def test_ids_and_titles_are_unique() -> None:
    """Links and legends mean one panel."""
    ids = [panel["id"] for panel in EVERY]
    titles = [panel["title"] for panel in EVERY]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)


def test_panels_neither_overlap_nor_leave_the_page() -> None:
    """Each cell of the grid has one panel, and no line of it is empty."""
    cells = [
        (at["x"] + x, at["y"] + y)
        for at in (panel["gridPos"] for panel in EVERY)
        for x, y in itertools.product(range(at["w"]), range(at["h"]))
    ]
    assert len(set(cells)) == len(cells)
    assert {x for x, _ in cells} == set(range(COLUMNS))
    lines = {y for _, y in cells}
    assert lines == set(range(len(lines)))


def test_no_row_is_left_ragged() -> None:
    """Each line of the grid is filled to its end."""
    width: dict[int, int] = {}
    for at in (panel["gridPos"] for panel in EVERY):
        for y in range(at["y"], at["y"] + at["h"]):
            width[y] = width.get(y, 0) + at["w"]
    assert {y for y, cells in width.items() if cells != COLUMNS} == set()


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_each_panel_says_what_it_shows(panel: Json) -> None:
    """In whole sentences, with a unit, and from the data source that was chosen."""
    assert re.fullmatch(r".{30,}\.", panel["description"])
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == SOURCE
    for target in panel["targets"]:
        assert target["datasource"] == SOURCE
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_rates_have_samples_where_it_is_scraped_once_a_minute(panel: Json) -> None:
    """
    Grafana looks back over four of what it takes for the interval of scrapes.

    That is 15 s unless its data source says otherwise, and Prometheus' own default a minute, of
    which there would be one sample: every such panel would be empty.
    """
    for target in panel["targets"]:
        if "$__rate_interval" in target["expr"]:
            assert target["interval"] == "1m"


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_each_panel_shows_what_was_chosen(panel: Json) -> None:
    """Every series of ours is looked for among the chosen jobs, namespaces and pods."""
    for target in panel["targets"]:
        ours = re.findall(r"reasoning_replay_\w+(\{[^}]*\})?", target["expr"])
        for conditions in ours:
            for name in ("job", "namespace", "pod"):
                assert f'{name}=~"${name}"' in conditions


def test_variables_work_where_there_is_no_kubernetes() -> None:
    """All selects series without such a label, too; what is offered comes from our own metrics."""
    assert list(VARIABLES) == ["datasource", "namespace", "job", "pod"]
    assert VARIABLES["datasource"]["query"] == "prometheus"
    for name in ("namespace", "job", "pod"):
        variable = VARIABLES[name]
        assert (variable["allValue"], variable["includeAll"]) == (".*", True)
        assert variable["current"]["value"] == ["$__all"]
        assert variable["datasource"] == SOURCE
        assert re.fullmatch(
            rf"label_values\(reasoning_replay_build_info.*, {name}\)", variable["query"]["query"]
        )


def test_legends_tell_apart_what_a_panel_asks() -> None:
    """No two expressions of one panel have the same legend."""
    assert len(queries()) == sum(len(panel["targets"]) for panel in PANELS)
