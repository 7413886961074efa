"""Rules of Responses: each bad request is refused, in the words of the API."""

from collections.abc import Callable, Mapping

import pytest

from tests.standin.variants import Variant
from tests.standin.world import ASK, Item, World, answers, without


def a_call(**more: object) -> Item:
    """Return a function call; a member that is None is left out."""
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **more}
    return {name: value for name, value in item.items() if value is not None}


def a_custom_call(**more: object) -> Item:
    """Return a call of a custom tool."""
    return {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "", **more}


def a_thought(**more: object) -> Item:
    """Return reasoning."""
    return {"type": "reasoning", "summary": [], **more}


def a_message(**more: object) -> Item:
    """Return a message."""
    return {"type": "message", "role": "assistant", "content": "x", **more}


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


CHARACTERS = (
    "Expected an ID that contains letters, numbers, underscores, or dashes, but this value"
    " contained additional characters."
)
NOT_KEPT = (
    "not found. Items are not persisted when `store` is set to false. Try again with `store` set to"
    " true, or remove this item from your input."
)
LONG = "string too long. Expected a string with maximum length 64, but got a string with length 65"

# (name, one item of the input, the error for it)
SHAPES: list[tuple[str, Item, str]] = [
    (
        "prefix-fc",
        a_call(id="call_1"),
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
    ),
    (
        "prefix-rs",
        a_thought(id="fc_1", encrypted_content="x"),
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'rs'.",
    ),
    (
        "prefix-msg",
        a_message(id="rs_1"),
        "Invalid 'input[1].id': 'rs_1'. Expected an ID that begins with 'msg'.",
    ),
    (
        "prefix-ctc",
        a_custom_call(id="fc_1"),
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'ctc'.",
    ),
    ("empty-id", a_call(id=""), f"Invalid 'input[1].id': ''. {CHARACTERS}"),
    (
        "charset",
        {"type": "item_reference", "id": "rs 1"},
        f"Invalid 'input[1].id': 'rs 1'. {CHARACTERS}",
    ),
    (
        "long-id",
        a_message(id="msg_" + "0" * 61, role="user"),
        f"Invalid 'input[1].id': {LONG} instead.",
    ),
    ("long-call-id", a_call(call_id="c" * 65), f"Invalid 'input[1].call_id': {LONG} instead."),
    ("no-call-id", a_call(call_id=None), "Missing required parameter: 'input[1].call_id'."),
    (
        "null-id",
        {**a_call(), "id": None},
        "Invalid type for 'input[1].id': expected a string, but got null instead.",
    ),
    (
        "reasoning-status",
        a_thought(id="rs_1", status="completed"),
        "Unknown parameter: 'input[1].status'.",
    ),
    (
        "reasoning-status-null",
        a_thought(id="rs_1", status=None),
        "Unknown parameter: 'input[1].status'.",
    ),
    (
        "no-summary",
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        "Missing required parameter: 'input[1].summary'.",
    ),
    ("reasoning-without-id-and-blob", a_thought(), "Missing required parameter: 'input[1].id'."),
    (
        "reasoning-content",
        a_thought(id="rs_1", content=[{"type": "reasoning_text", "text": "hm"}]),
        (
            "Invalid 'input[1].content': array too long. Expected an array with maximum length 0,"
            " but got an array with length 1 instead."
        ),
    ),
    (
        "role",
        {"role": "tool", "content": "x"},
        (
            "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and"
            " 'user'."
        ),
    ),
    (
        "reference-without-id",
        {"type": "item_reference"},
        "Missing required parameter: 'input[1].id'.",
    ),
    ("no-output", a_call(id="fc_1"), "No tool output found for function call c."),
    ("no-custom-output", a_custom_call(), "No tool output found for custom tool call c."),
    (
        "no-call",
        {"type": "function_call_output", "call_id": "c", "output": ""},
        "No tool call found for function call output with call_id c.",
    ),
    ("never-emitted", a_thought(id="rs_1"), f"Item with id 'rs_1' {NOT_KEPT}"),
    ("bare-reference", {"id": "msg_1"}, f"Item with id 'msg_1' {NOT_KEPT}"),
]


@pytest.mark.parametrize(("item", "text"), [pytest.param(*row, id=name) for name, *row in SHAPES])
def test_a_bad_item_is_refused_in_the_words_of_the_api(item: Item, text: str) -> None:
    """One wrong item is enough for a refusal, and the error names its index."""
    assert World().message([ASK, item]) == text


def test_an_id_that_occurs_twice_is_a_duplicate() -> None:
    """Every id may occur only once, references included."""
    world = World()
    thought, call = world.emit()
    said = (
        f"Duplicate item found with id {thought['id']}. Remove duplicate items from your input"
        " and try again."
    )
    reference = {"type": "item_reference", "id": thought["id"]}

    assert world.message([ASK, thought, thought, call, *answers([call])]) == said
    assert world.message([ASK, reference, thought, call, *answers([call])]) == said


# (`store` of the first turn, the caller, whether the item is found)
LOOKUPS = [
    pytest.param(True, "a", True, id="stored"),
    pytest.param(False, "a", False, id="not-stored"),
    pytest.param(True, "b", False, id="stored-for-another"),
]


@pytest.mark.parametrize(("store", "caller", "found"), LOOKUPS)
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda item: {"type": "item_reference", "id": item["id"]}, id="reference"),
        pytest.param(lambda item: {"id": item["id"]}, id="bare-reference"),
        pytest.param(lambda item: without(item, "encrypted_content"), id="no-ciphertext"),
    ],
)
def test_an_id_alone_is_looked_up(
    *, form: Callable[[Item], Item], store: bool, caller: str, found: bool
) -> None:
    """An id without ciphertext is looked up among the stored items of the same caller."""
    world = World()
    thought, call = world.emit(store=store)

    refusal = world.refusal([ASK, form(thought), call, *answers([call])], caller)

    if found:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.status == 404
        assert refusal.message == (
            f"Item with id '{thought['id']}' not found. Items are not persisted when `store` is"
            " set to false. Try again with `store` set to true, or remove this item from your"
            " input."
        )


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "gpt-5.2-chat"],
)
def test_models_without_reasoning_refuse_reasoning(model: str) -> None:
    """A model without reasoning refuses both the `include` for ciphertext and reasoning items."""
    world = World()
    thought, call = world.emit()
    include = ["reasoning.encrypted_content"]

    asked = world.refusal([ASK], model=model, include=include)
    sent = world.message([ASK, thought, call, *answers([call])], model=model)
    refers = world.message([ASK, {"id": thought["id"]}], model=model)

    assert asked is not None
    assert asked.message == "Encrypted content is not supported with this model."
    assert asked.param == "include"
    assert sent == (
        "Reasoning input items can only be provided to a reasoning or computer use model. Remove"
        " reasoning items from your input and try again."
    )
    assert refers == sent
    assert world.message([ASK, call, *answers([call])], model=model) == ""


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
    output = world.emit("interleaved")

    assert world.message([ASK, *output]) == ""
    assert world.message([ASK, *output[:hole], *output[hole + 1 :]]) == said(output)


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
    thought, item = world.emit(variant)
    sent = thought if ciphertext else without(thought, "encrypted_content")

    said = world.message([ASK, sent, without(item, "id"), *answers([item])], store=store)

    assert said == ("" if accepted else alone(thought))


# (the blob that is sent in place of the emitted one)
DAMAGES: list[Callable[[str], str]] = [
    lambda blob: blob[:50] + ("A" if blob[50] != "A" else "B") + blob[51:],
    lambda blob: blob[:-8],
    lambda _: "gAAA",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_error_of_a_damaged_blob_shows_its_ends(damage: Callable[[str], str]) -> None:
    """A changed character, a truncated blob and a foreign text all cannot be decrypted."""
    world = World()
    thought, call = world.emit()
    damaged = damage(thought["encrypted_content"])
    sent = thought | {"encrypted_content": damaged}

    assert world.message([ASK, sent, call, *answers([call])]) == (
        f"The encrypted content {damaged[:4]}...{damaged[-4:]} could not be verified."
        " Reason: Encrypted content could not be decrypted or parsed."
    )


def test_blobs_of_another_model_are_refused() -> None:
    """A blob is bound to the family of the model; the date of a model does not matter."""
    world = World()
    thought, call = world.emit()
    items = [ASK, thought, call, *answers([call])]
    blob = thought["encrypted_content"]

    assert world.message(items, model="gpt-5.4-2026-03-05") == ""
    assert world.message(items, model="gpt-6") == (
        f"The encrypted content {blob[:4]}...{blob[-4:]} could not be verified."
    )
