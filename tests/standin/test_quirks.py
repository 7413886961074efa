"""What other backends refuse, in their words, and what they accept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.standin.quirks import Foreign, Quirks
from tests.standin.rules import judge
from tests.standin.variants import Variant
from tests.standin.world import ASK, Item, World, answers, as_input, without

NEXT: Item = {"role": "user", "content": "And tomorrow?"}
Shape = Callable[[Sequence[Item]], list[Item]]


def said(
    world: World, items: Sequence[Item], quirks: Quirks, caller: str = "a", **more: Any
) -> tuple[int, str]:
    """Judge a request at such a backend: status and text of the refusal; (200, "") if none."""
    body = world.body(items, **more)
    refusal = judge(body, caller, world.ledger, world.sealer, quirks=quirks).refusal
    return (200, "") if refusal is None else (refusal.status, refusal.message)


# (quirks, loop, what is sent of [ASK, output with tool outputs, NEXT], the refusal's beginning)
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
    pytest.param(
        Quirks(prompt_outputs=True),
        "one_call",
        lambda i: [ASK, i[1], i[2], NEXT, i[3]],
        "No tool output found for function call call_",
        id="prompt-outputs",
    ),
    pytest.param(
        Quirks(needs_reasoning_ids=True),
        "one_call",
        lambda i: [ASK, without(i[1], "id"), without(i[2], "id"), i[3]],
        "Missing required parameter: 'input[1].id'.",
        id="needs-reasoning-ids",
    ),
    pytest.param(
        Quirks(takes_blobs=False),
        "one_call",
        lambda i: [ASK, *i[1:]],
        "Encrypted content is not supported.",
        id="takes-no-blobs",
    ),
    pytest.param(
        Quirks(thinks_aloud=True),
        "one_call",
        lambda i: [ASK, *i[1:]],
        "The `reasoning_text` in the thinking mode must be passed back to the API.",
        id="thinks-aloud",
    ),
    pytest.param(
        Quirks(thinks_aloud=True),
        "message",
        lambda i: [ASK, i[2] | {"id": "x"}, NEXT],
        "Invalid 'id': message id must be a string starting with 'msg_'",
        id="thinks-aloud-message-id",
    ),
]


@pytest.mark.parametrize(("quirks", "variant", "shape", "begins"), REFUSED)
def test_a_quirk_refuses_what_the_api_would_or_in_other_words(
    quirks: Quirks, variant: Variant, shape: Shape, begins: str
) -> None:
    """Without the quirk it is another refusal or none; with it the honest order is accepted."""
    world = World()
    _, output = world.emit(variant)
    history = [ASK, *as_input(output)]

    status, text = said(world, shape(history), quirks)
    _, plainly = said(world, shape(history), Quirks())

    assert (status, text.startswith(begins)) == (400, True), text
    assert plainly != text or begins == "Item 'rs_"


# The same columns, less the refusal.
ACCEPTED = [
    pytest.param(Quirks(blames_follower=True), "preamble", lambda i: i, id="blames-follower"),
    pytest.param(Quirks(blames_follower=True), "parallel", lambda i: i, id="shared-reasoning"),
    pytest.param(Quirks(grouped=True), "parallel", lambda i: i, id="grouped"),
    pytest.param(Quirks(prompt_outputs=True), "parallel", lambda i: i, id="prompt-outputs"),
    pytest.param(Quirks(needs_reasoning_ids=True), "one_call", lambda i: i, id="needs-ids"),
    pytest.param(
        Quirks(takes_blobs=False),
        "one_call",
        lambda i: [ASK, without(i[1], "encrypted_content"), *i[2:]],
        id="takes-no-blobs",
    ),
    pytest.param(
        Quirks(thinks_aloud=True),
        "parallel",
        lambda i: [ASK, aloud(i[1]), *i[2:]],
        id="thinks-aloud",
    ),
    pytest.param(Quirks(thinks_aloud=True), "message", lambda i: [ASK, i[2], NEXT], id="no-calls"),
]


@pytest.mark.parametrize(("quirks", "variant", "shape"), ACCEPTED)
def test_a_quirk_accepts_the_honest_history(quirks: Quirks, variant: Variant, shape: Shape) -> None:
    """A rule is about its own fault alone."""
    world = World()
    _, output = world.emit(variant)

    assert said(world, shape([ASK, *as_input(output)]), quirks) == (200, "")


def aloud(item: Item) -> Item:
    """Reasoning with its text, and no blob."""
    text = [{"type": "reasoning_text", "text": "It rains."}]
    return without(item, "encrypted_content") | {"content": text}


def test_a_call_emitted_without_reasoning_needs_none_where_reasoning_is_text() -> None:
    """A model may call a tool without a thought."""
    world = World()
    _, first = world.emit("chain")
    told = [ASK, aloud(first[0]), *as_input(first[1:])]
    _, (call,) = world.emit("chain", [ASK, *as_input(first)])

    assert said(world, [*told, call, *answers([call])], Quirks(thinks_aloud=True)) == (200, "")


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("organization", "The encrypted content for item rs_"),
        ("item", "The encrypted content for item rs_"),
        ("masked", "The encrypted content gAAA..."),
        ("damaged", "The encrypted content gAAA..."),
        ("caller", "reasoning `encrypted_content` was not issued to this caller"),
        ("resource", "The requested item was created under a different Azure OpenAI resource."),
    ],
)
def test_a_blob_of_another_account_is_refused_in_many_words(form: Foreign, begins: str) -> None:
    """Whatever the words, the rest of the history is not."""
    world = World()
    _, (thought, call) = world.emit(caller="a", store=False)
    history = [ASK, thought, call, *answers([call])]

    status, text = said(world, history, Quirks(foreign=form), "b", store=False)
    bare = [ASK, without(call, "id"), *answers([call])]

    assert (status, text.startswith(begins)) == (400, True), text
    assert ("Reason: Encrypted content could not be decrypted" in text) == (
        form in {"item", "damaged"}
    )
    assert said(world, bare, Quirks(foreign=form), "b", store=False) == (200, "")


# (quirks, status, part of the text)
LOST = [
    pytest.param(Quirks(), 404, "persisted when `store` is set to false", id="api"),
    pytest.param(Quirks(not_found="text"), 404, "persisted when `store`", id="text"),
    pytest.param(Quirks(not_found="azure"), 400, "persisted when `store`", id="azure"),
    pytest.param(
        Quirks(keeps_nothing=True), 404, "for Zero Data Retention organizations", id="zdr"
    ),
]


@pytest.mark.parametrize(("quirks", "status", "words"), LOST)
def test_what_is_no_longer_stored_is_not_found(quirks: Quirks, status: int, words: str) -> None:
    """An id alone leads nowhere then; with its blob reasoning needs no looking up."""
    world = World()
    _, (thought, call) = world.emit()
    rest = [call, *answers([call])]
    assert said(world, [ASK, without(thought, "encrypted_content"), *rest], quirks) == (200, "")

    world.ledger.expire()

    got, text = said(world, [ASK, without(thought, "encrypted_content"), *rest], quirks)
    assert (got, words in text) == (status, True)
    assert said(world, [ASK, thought, *rest], quirks) == (200, "")


def test_every_id_of_reasoning_may_be_looked_up() -> None:
    """Then a blob does not help, and an id that is not there does no harm."""
    world = World()
    _, (thought, call) = world.emit(store=False)
    quirks = Quirks(looks_up_all=True)
    bare = [without(thought, "id"), without(call, "id"), *answers([call])]

    assert said(world, [ASK, thought, call, *answers([call])], quirks)[0] == 404
    assert said(world, [ASK, *bare], quirks) == (200, "")


def test_every_refusal_of_a_group_names_its_reasoning() -> None:
    """An item that an output parts from its group asks for what it shares with it."""
    world = World()
    _, output = world.emit("parallel")
    i = [ASK, *as_input(output)]
    _, text = said(world, [ASK, i[1], i[2], i[5], *i[3:5], *i[6:]], Quirks(grouped=True))

    assert text == (
        f"Item '{i[3]['id']}' of type 'function_call' was provided without its required"
        f" 'reasoning' item: '{i[1]['id']}'."
    )


def test_what_upstream_holds_is_directly_ahead_of_what_is_new() -> None:
    """The items of a conversation count as being there, and in order."""
    world = World()
    turn, (_, call) = world.emit()
    more: Mapping[str, str] = {"previous_response_id": turn.answer.id}

    assert said(world, answers([call]), Quirks(blames_follower=True), **more) == (200, "")
