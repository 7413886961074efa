"""Pairing: which pairs of reasoning and item are complete, and which blobs are valid."""

from collections.abc import Callable, Mapping

import pytest

from tests.standin.variants import Variant
from tests.standin.world import ASK, Item, World, answers, as_input, without


def lost(item: Mapping[str, str], thought: Mapping[str, str]) -> str:
    """Return the error text for an item without its reasoning."""
    return (
        f"Item '{item['id']}' of type '{item['type']}' was provided without its required"
        f" 'reasoning' item: '{thought['id']}'."
    )


def alone(thought: Mapping[str, str]) -> str:
    """Return the error text for reasoning without its follower."""
    return (
        f"Item '{thought['id']}' of type 'reasoning' was provided without its required following"
        " item."
    )


def test_a_run_is_shared_by_parallel_calls() -> None:
    """Every call of a group needs the one reasoning item before the group."""
    world = World()
    _, (thought, *calls) = world.emit("parallel")

    assert world.message([ASK, thought, *as_input(calls)]) == ""
    for call in calls:
        rest = [one if one is call else without(one, "id") for one in calls]
        assert world.message([ASK, *as_input(rest)]) == lost(call, thought)


def test_outputs_may_stand_between_parallel_calls() -> None:
    """The reasoning must come before a call, but not directly before it."""
    world = World()
    _, (thought, *calls) = world.emit("parallel")
    woven = [item for call in calls for item in as_input([call])]

    assert world.message([ASK, thought, *woven]) == ""


# (the item of "R ws R ws R A" that is left out, the error for it)
HOLES: list[tuple[int, Callable[[list[Item]], str]]] = [
    (0, lambda out: lost(out[1], out[0])),
    (1, lambda out: alone(out[0])),
    (2, lambda out: lost(out[3], out[2])),
    (3, lambda out: alone(out[2])),
    (4, lambda out: lost(out[5], out[4])),
    (5, lambda out: alone(out[4])),
]


@pytest.mark.parametrize(("hole", "said"), HOLES)
def test_each_reasoning_belongs_to_the_item_right_after_it(
    hole: int, said: Callable[[list[Item]], str]
) -> None:
    """If reasoning is interleaved with hosted tools, every incomplete pair is refused."""
    world = World()
    _, output = world.emit("interleaved")

    assert world.message([ASK, *output]) == ""
    assert world.message([ASK, *output[:hole], *output[hole + 1 :]]) == said(output)


def test_a_run_of_reasoning_belongs_to_the_next_other_item() -> None:
    """Of two reasoning items in a row both are required, and both are followed by the call."""
    world = World()
    _, (first, second, call) = world.emit("two_reasoning")
    rest = [call, *answers([call])]

    assert world.message([ASK, first, second, *rest]) == ""
    assert world.message([ASK, second, *rest]) == lost(call, first)
    assert world.message([ASK, first, *rest]) == lost(call, second)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param([], id="end"),
        pytest.param([{"role": "user", "content": "go on"}], id="user"),
        pytest.param([{"role": "assistant", "content": "another"}], id="other-message"),
    ],
)
def test_reasoning_needs_its_own_follower(tail: list[Item]) -> None:
    """A follower is recognised by its id: another item of the same type is refused."""
    world = World()
    _, (thought, _) = world.emit("message")

    assert world.message([ASK, thought, *tail]) == alone(thought)


@pytest.mark.parametrize("tail", [[], [{"role": "user", "content": "go on"}]])
def test_reasoning_without_id_needs_some_follower(tail: list[Item]) -> None:
    """Reasoning without its id must not be last, nor come before an item that no model emits."""
    world = World()
    _, (thought, _) = world.emit("message")

    assert world.message([ASK, without(thought, "id"), *tail]) == alone({"id": ""})


def test_reasoning_without_id_does_not_satisfy_an_id() -> None:
    """A call with its id requires reasoning with its id."""
    world = World()
    _, (thought, call) = world.emit()

    assert world.message([ASK, without(thought, "id"), call, *answers([call])]) == lost(
        call, thought
    )


# (variant, `store`, whether ciphertext is sent, whether the mixed form is accepted)
MIXED: list[tuple[Variant, bool, bool, bool]] = [
    ("one_call", False, True, True),
    ("custom", False, True, True),
    ("message", False, True, True),
    ("one_call", True, True, False),
    ("message", True, True, False),
    ("one_call", True, False, False),
]


@pytest.mark.parametrize(("variant", "store", "ciphertext", "accepted"), MIXED)
def test_the_mixed_form_is_for_store_false(
    *, variant: Variant, store: bool, ciphertext: bool, accepted: bool
) -> None:
    """`rs_` id and blob before the same item without id are accepted only if `store` is false."""
    world = World()
    _, (thought, item) = world.emit(variant)
    sent = thought if ciphertext else without(thought, "encrypted_content")

    said = world.message([ASK, sent, without(item, "id"), *answers([item])], store=store)

    assert said == ("" if accepted else alone(thought))


def test_the_mixed_form_is_for_the_same_call() -> None:
    """The mixed form is refused if the `call_id` differs."""
    world = World()
    _, (thought, call) = world.emit()
    other = without(call, "id") | {"call_id": "call_other"}

    assert world.message([ASK, thought, *as_input([other])], store=False) == alone(thought)


def test_reasoning_of_an_incomplete_response_is_refused() -> None:
    """A response that ended before its item was done leaves reasoning with no valid follower."""
    world = World()
    _, (thought, _) = world.emit(end="incomplete")

    assert world.message([ASK, thought]) == alone(thought)


def test_the_error_of_a_damaged_blob_shows_its_ends() -> None:
    """A changed character, a truncated blob and a foreign text all cannot be decrypted."""
    world = World()
    _, (thought, call) = world.emit()
    blob = thought["encrypted_content"]
    for damaged in (blob[:50] + ("A" if blob[50] != "A" else "B") + blob[51:], blob[:-8], "gAAA"):
        sent = thought | {"encrypted_content": damaged}
        refusal = world.refusal([ASK, sent, call, *answers([call])])

        assert refusal is not None
        assert refusal.code == "invalid_encrypted_content"
        assert refusal.param is None
        assert refusal.message == (
            f"The encrypted content {damaged[:4]}...{damaged[-4:]} could not be verified."
            " Reason: Encrypted content could not be decrypted or parsed."
        )


def test_the_snapshot_of_an_added_item_is_not_accepted() -> None:
    """The blob of `output_item.added` is shorter and unusable."""
    world = World()
    _, (thought, call) = world.emit()
    snapshot = world.sealer.snapshot(thought["id"], 0)
    sent = thought | {"encrypted_content": snapshot}

    assert len(snapshot) < len(thought["encrypted_content"])
    assert "could not be decrypted" in world.message([ASK, sent, call, *answers([call])])


def test_blobs_of_another_model_are_refused() -> None:
    """A blob is bound to the family of the model; the date of a model does not matter."""
    world = World()
    _, (thought, call) = world.emit()
    items = [ASK, thought, call, *answers([call])]
    blob = thought["encrypted_content"]

    assert world.message(items, model="gpt-5.4-2026-03-05") == ""
    assert world.message(items, model="gpt-6") == (
        f"The encrypted content {blob[:4]}...{blob[-4:]} could not be verified."
    )


def test_an_evicted_pair_is_not_checked() -> None:
    """A blob stays valid after its turn is deleted; any item of a model may follow it then."""
    world = World()
    turn, (thought, call) = world.emit()
    world.ledger.delete(turn.answer.id, "a")

    assert world.message([ASK, thought, call, *answers([call])]) == ""
