"""Reasoning index: finds captured reasoning by its blob or its id, unless two items share it."""

import json

import pytest
from reasoning_replay.core.dialects.responses.heal.captured import ReasoningIndex
from reasoning_replay.core.dialects.responses.items import read_item

from tests.core.dialects.responses.heal.played import hollow, reference, world_of
from tests.core.world import Item, call, message, nameless, reasoning

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, SAID = call("1"), message("1", "Sunny.")
TWIN = {**R2, "id": R1["id"]}

# (captured turns, item, its position: follower and index in the run; None if not found)
KNOWN = [
    pytest.param([[R1, R2, C1]], R2, (0, 1), id="whole"),
    pytest.param([[R1, C1, R2, SAID]], nameless(R2), (1, 0), id="by-blob"),
    pytest.param([[R1, C1]], hollow(R1), (0, 0), id="by-id"),
    pytest.param([[R1, C1]], reference(R1), (0, 0), id="by-reference"),
    pytest.param([[R1, C1]], {**R1, "encrypted_content": "x"}, (0, 0), id="damaged"),
    pytest.param([[R1, C1, TWIN, SAID]], TWIN, (1, 0), id="one-id-two-items"),
    pytest.param([[R1, C1, TWIN, SAID]], hollow(R1), None, id="one-id-two-items-hollow"),
    pytest.param([[R1, C1]], R3, None, id="unknown"),
    pytest.param([[R1, C1]], nameless(hollow(R1)), None, id="no-id-no-blob"),
]


@pytest.mark.parametrize(("turns", "item", "want"), KNOWN)
def test_reasoning_is_found_by_its_blob_or_its_id(
    turns: list[list[Item]], item: Item, want: tuple[int, int] | None
) -> None:
    """The result names the item that the reasoning led to, and its place in the response."""
    index = ReasoningIndex(world_of(*turns).turns.values())

    found = index.find(read_item(json.dumps(item).encode()))

    assert (None if found is None else (found.k, found.n)) == want
    if found is not None:
        assert found.follower is found.turn.items[found.k]
        assert found.part is found.follower.run[found.n]
