"""Runs: reasoning with the items that it led to, and what goes with it."""

import json

import pytest
from reasoning_replay.core.dialects.responses.heal.draft import Draft, runs_of
from reasoning_replay.core.dialects.responses.request import read_request

from tests.core.dialects.responses.heal.played import ASK, MORE, hollow, reference
from tests.core.world import Item, body, call, drawn, message, nameless, output, reasoning, search

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2 = call("1"), call("2")
SAID, WS = message("1", "Sunny."), search("1")
SCREEN: Item = {"type": "computer_call", "id": f"cu_{drawn(1)}", "call_id": f"call_{drawn(1)}"}
FRAME: Item = {"role": "system", "content": "Be brief."}


def draft_of(items: list[Item]) -> Draft:
    """Return the draft of a request with these items."""
    return Draft(read_request(body(items), {}))


# (history; for each run, the number of reasoning items and of items that follow them)
RUNS = [
    ([ASK, R1, C1, C2, output(C1)], [(1, 2)]),
    ([R1, R2, SAID, R3, C1], [(2, 1), (1, 1)]),
    ([R1, ASK, SAID], [(1, 0)]),
    ([SAID, R1], [(1, 0)]),
    ([R1, reference(SAID), output(C1), C2], [(1, 1)]),
    ([R1, FRAME, SAID], [(1, 0)]),
    ([ASK, SAID, C1], []),
]


@pytest.mark.parametrize(("items", "want"), RUNS)
def test_a_run_leads_to_the_items_after_it(items: list[Item], want: list[tuple[int, int]]) -> None:
    """The group of a run ends where another party speaks."""
    found = [(len(run.reasoning), len(run.group)) for run in runs_of(draft_of(items).items)]

    assert found == want


# (history, indexes of the refused items, items that are left)
DROPPED = [
    pytest.param([R1, C1], [0], [nameless(C1)], id="id-of-its-group"),
    pytest.param(
        [R1, SAID, C1, output(C1)],
        [0],
        [nameless(SAID), nameless(C1), output(C1)],
        id="all-ids-of-its-group",
    ),
    pytest.param([R1, WS, R2, SAID], [0], [R2, SAID], id="hosted"),
    pytest.param([R1, SCREEN, output(SCREEN)], [0], [SCREEN, output(SCREEN)], id="answered"),
    pytest.param([R1, C1, R2, C2], [2], [R1, C1, nameless(C2)], id="others-stay"),
    pytest.param([R1, R2, C1], [0], [nameless(R2), nameless(C1)], id="half-a-run-by-value"),
    pytest.param([R1, R2, WS], [0], [nameless(R2), WS], id="half-a-run-hosted"),
    pytest.param([R1, hollow(R2), C1], [0], [nameless(C1)], id="half-a-run-hollow"),
    pytest.param([R1, reference(SAID)], [0], [reference(SAID)], id="reference-keeps-its-id"),
    pytest.param([R1, nameless(C1)], [0], [nameless(C1)], id="no-ids"),
    pytest.param(
        [R1, C1, output(C1), C2, output(C2), SAID, ASK, SAID],
        [0],
        [nameless(C1), output(C1), nameless(C2), output(C2), nameless(SAID), ASK, SAID],
        id="calls-between-outputs",
    ),
    pytest.param([R1, C1, output(C1), WS], [0], [nameless(C1), output(C1), WS], id="hosted-later"),
    pytest.param([R1, C1, output(C1), R2, C2], [0], [nameless(C1), output(C1), R2, C2], id="next"),
    pytest.param([ASK, MORE], [], [ASK, MORE], id="nothing"),
]


@pytest.mark.parametrize(("items", "refused", "want"), DROPPED)
def test_reasoning_is_dropped_with_the_ids_that_demand_it(
    items: list[Item], refused: list[int], want: list[Item]
) -> None:
    """Ids of the group and hosted items are dropped with it, but never half of a unit."""
    draft = draft_of(items)
    draft.remove_reasoning({draft.items[n] for n in refused})

    assert [json.loads(draft.text(item)) for item in draft.items] == want
