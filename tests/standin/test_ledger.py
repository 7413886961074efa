"""Ledger: what is recorded, for which caller, how long, and how items are paired."""

import pytest
from msgspec.structs import replace

from tests.standin.ledger import Ledger, Turn, pair
from tests.standin.shapes import (
    FunctionCall,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    WebSearchCall,
)
from tests.standin.world import ASK, World, answers


def output(line: str) -> list[OutputItem]:
    """Build a response from its short form: R1, A2, fc3, ws4 are items with those ids."""
    made: list[OutputItem] = []
    for item_id in line.split():
        match item_id.rstrip("0123456789"):
            case "R":
                made.append(Reasoning(id=item_id))
            case "fc":
                made.append(FunctionCall(id=item_id, arguments="{}", call_id=item_id, name="f"))
            case "ws":
                made.append(WebSearchCall(id=item_id))
            case _:
                text = (OutputText(text="hi"),)
                made.append(Message(id=item_id, content=text, phase="final_answer"))
    return made


# (the response, the reasoning that each item requires, the follower of each reasoning item)
PAIRS = [
    pytest.param("R1 fc2", {"fc2": ("R1",)}, {"R1": "fc2"}, id="one"),
    pytest.param(
        "R1 fc2 fc3", {"fc2": ("R1",), "fc3": ("R1",)}, {"R1": "fc2"}, id="parallel-calls-share"
    ),
    pytest.param(
        "R1 ws2 R3 A4", {"ws2": ("R1",), "A4": ("R3",)}, {"R1": "ws2", "R3": "A4"}, id="interleaved"
    ),
    pytest.param("R1 R2 fc3", {"fc3": ("R1", "R2")}, {"R1": "fc3", "R2": "fc3"}, id="run-is-one"),
    pytest.param(
        "R1 A2 fc3", {"A2": ("R1",), "fc3": ("R1",)}, {"R1": "A2"}, id="preamble-in-group"
    ),
    pytest.param("fc1", {"fc1": ()}, {}, id="no-reasoning"),
    pytest.param("R1 fc2 R3", {"fc2": ("R1",)}, {"R1": "fc2", "R3": None}, id="trailing"),
]


@pytest.mark.parametrize(("line", "required", "follower"), PAIRS)
def test_items_are_paired_with_the_reasoning_before_their_group(
    line: str, required: dict[str, tuple[str, ...]], follower: dict[str, str | None]
) -> None:
    """A run of reasoning belongs to all items after it, up to the next run."""
    paired = {item.id: item for item in pair("resp_1", output(line))}

    assert {key: paired[key].required for key in required} == required
    assert {key: paired[key].follower for key in follower} == follower


def test_items_are_found_by_id_call_and_text_of_their_caller() -> None:
    """A caller finds the items that were emitted to it, and no others."""
    world = World()
    _, (thought, call) = world.emit()
    _, (_, said) = world.emit("message")
    text = said["content"][0]["text"]

    found = world.ledger.maybe_item(thought["id"], "a")
    assert found is not None
    assert found.type == "reasoning"
    assert [item.id for item in world.ledger.by_call(call["call_id"], "a")] == [call["id"]]
    assert [item.id for item in world.ledger.by_text(text, "a")] == [said["id"]]
    assert world.ledger.maybe_item(thought["id"], "b") is None
    assert not world.ledger.by_call(call["call_id"], "b")
    assert not world.ledger.by_text(text, "b")


def test_the_oldest_turn_is_evicted_entirely() -> None:
    """The ledger is bounded, and an evicted turn is removed from every index."""
    world = World()
    world.ledger = Ledger(turns_kept=2)
    first, (thought, call) = world.emit("call_zero", items=[ASK])
    world.emit("call_zero", items=[ASK])
    world.emit("call_zero", items=[ASK])

    assert len(world.ledger) == 2
    assert world.ledger.maybe_turn(first.answer.id, "a") is None
    assert world.ledger.maybe_item(thought["id"], "a") is None
    assert len(world.ledger.by_call("call_0", "a")) == 2
    assert call["id"] not in {item.id for item in world.ledger.by_call("call_0", "a")}


def test_only_a_stored_turn_can_be_looked_up() -> None:
    """A turn with `store: false` is known to the rules, but cannot be retrieved."""
    world = World()
    turn, (thought, _) = world.emit(store=False)

    assert world.ledger.maybe_turn(turn.answer.id, "a") is not None
    assert world.ledger.maybe_stored_turn(turn.answer.id, "a") is None
    assert not world.ledger.is_stored(thought["id"], "a")


def test_a_deleted_response_is_gone() -> None:
    """Only its own caller may delete a response, and only once."""
    world = World()
    turn, (thought, _) = world.emit("message")

    assert not world.ledger.delete(turn.answer.id, "b")
    assert world.ledger.delete(turn.answer.id, "a")
    assert not world.ledger.delete(turn.answer.id, "a")
    assert not world.ledger.is_stored(thought["id"], "a")
    assert len(world.ledger) == 0


def test_a_chain_is_followed_back_to_its_start() -> None:
    """The server's own history is oldest first, and ends where a turn is not stored."""
    world = World()
    first, (_, call) = world.emit("chain")
    second, _ = world.emit("chain", items=answers([call]), previous_response_id=first.answer.id)

    def earlier(previous: Turn) -> list[str]:
        return [turn.answer.id for turn in world.ledger.earlier("a", previous.answer.id, None)]

    assert earlier(second) == [first.answer.id, second.answer.id]
    world.ledger.delete(first.answer.id, "a")
    assert earlier(second) == [second.answer.id]


def test_a_conversation_is_its_turns_in_order() -> None:
    """A conversation consists of the turns with its id and caller."""
    world = World()
    mine, _ = world.emit("message", conversation="conv_1")
    world.emit("message", conversation="conv_2")
    world.ledger.record(replace(mine, caller="b", answer=replace(mine.answer, id="resp_b")))

    assert world.ledger.earlier("a", None, "conv_1") == (mine,)
