"""Item changes: the difference of two versions of a request, without content."""

import json

import pytest
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.history.item_changes import CHANGES_MAX, ItemChange, item_changes

from tests.core.world import Item, call, output, reasoning, user

R1, C1 = reasoning("1"), call("1")
O1 = output(C1, "secret")
HISTORY = [user("secret"), R1, C1, O1]


def items(given: list[Item]) -> list[ResponsesItem]:
    """Return parsed items."""
    raws = [json.dumps(item).encode() for item in given]
    return [read_item(raw, 0, len(raw)) for raw in raws]


def told(before: list[Item], after: list[Item]) -> list[tuple[str, str, str]]:
    """Return the changes without sizes."""
    return [change[:3] for change in item_changes(items(before), items(after))]


@pytest.mark.parametrize(
    ("after", "want"),
    [
        (HISTORY, []),
        ([HISTORY[0], C1, O1], [("removed", "reasoning", R1["id"])]),
        ([*HISTORY, R1], [("added", "reasoning", R1["id"])]),
        ([*HISTORY, user("b")], [("added", "message", "")]),
        ([*HISTORY[:3], {**O1, "output": "x"}], [("changed", O1["type"], O1["call_id"])]),
        ([HISTORY[0], C1, R1, O1], [("reordered", "", "")]),
        (
            [user("b"), R1, C1, O1],
            [("removed", "message", ""), ("added", "message", "")],
        ),
    ],
)
def test_changes_are_told_by_type_and_id(
    after: list[Item], want: list[tuple[str, str, str]]
) -> None:
    """An item with the same type and id on both sides is changed, not removed and added."""
    assert told(HISTORY, after) == want
    assert "secret" not in str(item_changes(items(HISTORY), items(after)))


def test_changes_are_bounded() -> None:
    """A last entry counts the changes that are left out, and names are cut."""
    many = [call(f"{n}") for n in range(CHANGES_MAX + 5)]
    changes = item_changes(items(many), [])
    assert len(changes) == CHANGES_MAX + 1
    assert changes[-1] == ItemChange("more", number=5)
    (cut,) = item_changes([], items([{"type": "t" * 99, "id": "i" * 99}]))
    assert (len(cut.type), len(cut.id)) == (40, 64)
    assert cut.number == len(json.dumps({"type": "t" * 99, "id": "i" * 99}))
