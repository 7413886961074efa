"""Quirks: the requests that other backends refuse or accept, and their error texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.standin.quirks import Quirks
from tests.standin.rules import judge
from tests.standin.variants import Variant
from tests.standin.world import ASK, Item, World, answers, as_input, without

NEXT: Item = {"role": "user", "content": "And tomorrow?"}
Shape = Callable[[Sequence[Item]], list[Item]]


def said(
    world: World, items: Sequence[Item], quirks: Quirks, caller: str = "a", **more: Any
) -> tuple[int, str]:
    """Judge a request at such a backend; return status and text, (200, "") if it is accepted."""
    body = world.body(items, **more)
    refusal = judge(body, caller, world.ledger, world.sealer, quirks=quirks).refusal
    return (200, "") if refusal is None else (refusal.status, refusal.message)


# (quirks, loop, the items sent of [ASK, output with outputs, NEXT], start of the error text)
REFUSED = [
    pytest.param(
        Quirks(blames_follower=True),
        "preamble",
        lambda i: [ASK, i[1], i[3], i[2], i[4]],
        "Item 'msg_",
        id="blames-follower-moved",
    ),
    pytest.param(
        Quirks(blames_follower=True),
        "one_call",
        lambda i: [ASK, i[1], NEXT, i[2], i[3]],
        "Item 'fc_",
        id="blames-follower-apart",
    ),
    pytest.param(
        Quirks(blames_follower=True),
        "one_call",
        lambda i: [ASK, i[1], NEXT],
        "Item 'rs_",
        id="blames-reasoning-when-follower-is-gone",
    ),
    pytest.param(
        Quirks(grouped=True),
        "parallel",
        lambda i: [ASK, i[1], i[2], i[5], i[3], i[6], i[4], i[7]],
        "Item 'fc_",
        id="grouped",
    ),
    *(
        pytest.param(Quirks(reads_blobs=True), "preamble", sent, "Item 'rs_", id=f"blob-{name}")
        for name, sent in {
            "alone": lambda i: [ASK, without(i[1], "id"), NEXT],
            "before-the-call": lambda i: [ASK, *(without(one, "id") for one in (i[1], i[3])), i[4]],
            "before-a-named-call": lambda i: [ASK, without(i[1], "id"), i[3], i[4]],
        }.items()
    ),
    pytest.param(
        Quirks(reads_blobs=True),
        "one_call",
        lambda i: [ASK, i[1], i[2] | {"call_id": "call_9"}, i[3] | {"call_id": "call_9"}],
        "Item 'rs_",
        id="blob-before-a-renamed-call",
    ),
    pytest.param(
        Quirks(needs_reasoning_ids=True),
        "one_call",
        lambda i: [ASK, without(i[1], "id"), without(i[2], "id"), i[3]],
        "Missing required parameter: 'input[1].id'.",
        id="needs-reasoning-ids",
    ),
]


@pytest.mark.parametrize(("quirks", "variant", "shape", "begins"), REFUSED)
def test_a_quirk_changes_the_refusal(
    quirks: Quirks, variant: Variant, shape: Shape, begins: str
) -> None:
    """A quirk refuses a request that api.openai.com accepts, or refuses with another text."""
    world = World()
    _, output = world.emit(variant)
    history = [ASK, *as_input(output)]

    status, text = said(world, shape(history), quirks)
    _, plainly = said(world, shape(history), Quirks())

    assert (status, text.startswith(begins)) == (400, True), text
    assert plainly != text or begins == "Item 'rs_"


# The same columns, without the refusal.
ACCEPTED = [
    pytest.param(Quirks(blames_follower=True), "parallel", lambda i: i, id="shared-reasoning"),
    pytest.param(Quirks(needs_reasoning_ids=True), "one_call", lambda i: i, id="needs-ids"),
    pytest.param(
        Quirks(takes_blobs=False),
        "one_call",
        lambda i: [ASK, without(i[1], "encrypted_content"), *i[2:]],
        id="takes-no-blobs",
    ),
    pytest.param(Quirks(thinks_aloud=True), "message", lambda i: [ASK, i[2], NEXT], id="no-calls"),
    *(
        pytest.param(Quirks(reads_blobs=True), "preamble", sent, id=f"blob-{name}")
        for name, sent in {
            "whole": lambda i: i,
            "by-value": lambda i: [ASK, *(without(one, "id") for one in i[1:])],
            "by-reference": lambda i: [
                *i[:2],
                {"type": "item_reference", "id": i[2]["id"]},
                *i[3:],
            ],
        }.items()
    ),
]


@pytest.mark.parametrize(("quirks", "variant", "shape"), ACCEPTED)
def test_a_quirk_accepts_a_correct_history(quirks: Quirks, variant: Variant, shape: Shape) -> None:
    """A quirk does not affect a history without its fault."""
    world = World()
    _, output = world.emit(variant)

    assert said(world, shape([ASK, *as_input(output)]), quirks) == (200, "")


def aloud(item: Item) -> Item:
    """Return reasoning with its text and without a blob."""
    text = [{"type": "reasoning_text", "text": "It rains."}]
    return without(item, "encrypted_content") | {"content": text}


def test_a_call_emitted_without_reasoning_needs_none_where_reasoning_is_text() -> None:
    """If reasoning is text, a call that the model made without reasoning is accepted without it."""
    world = World()
    _, first = world.emit("chain")
    told = [ASK, aloud(first[0]), *as_input(first[1:])]
    _, (call,) = world.emit("chain", [ASK, *as_input(first)])

    assert said(world, [*told, call, *answers([call])], Quirks(thinks_aloud=True)) == (200, "")


def test_every_refusal_of_a_group_names_its_reasoning() -> None:
    """If an output separates an item from its group, the error names the reasoning of the group."""
    world = World()
    _, output = world.emit("parallel")
    i = [ASK, *as_input(output)]
    _, text = said(world, [ASK, i[1], i[2], i[5], *i[3:5], *i[6:]], Quirks(grouped=True))

    assert text == (
        f"Item '{i[3]['id']}' of type 'function_call' was provided without its required"
        f" 'reasoning' item: '{i[1]['id']}'."
    )


def test_items_that_upstream_holds_come_directly_before_new_ones() -> None:
    """The items of a continued response count as present, and in order."""
    world = World()
    turn, (_, call) = world.emit()
    more: Mapping[str, str] = {"previous_response_id": turn.answer.id}

    assert said(world, answers([call]), Quirks(blames_follower=True), **more) == (200, "")
