"""Rules: every refusal has its request, and every accepted form is accepted."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.standin.rules import family, reasons
from tests.standin.world import ASK, Item, World, answers, as_input, without

FC = "fc_0123456789abcdef"


# (one item of the input, the error for it)
SHAPES = [
    pytest.param(
        {"type": "function_call", "id": "call_1", "call_id": "c", "name": "f", "arguments": "{}"},
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
        id="prefix-fc",
    ),
    pytest.param(
        {"type": "reasoning", "id": "fc_1", "summary": [], "encrypted_content": "x"},
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'rs'.",
        id="prefix-rs",
    ),
    pytest.param(
        {"type": "message", "id": "rs_1", "role": "assistant", "content": "x"},
        "Invalid 'input[1].id': 'rs_1'. Expected an ID that begins with 'msg'.",
        id="prefix-msg",
    ),
    pytest.param(
        {"type": "custom_tool_call", "id": "fc_1", "call_id": "c", "name": "f", "input": ""},
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'ctc'.",
        id="prefix-ctc",
    ),
    pytest.param(
        {"type": "function_call", "id": "", "call_id": "c", "name": "f", "arguments": "{}"},
        "Invalid 'input[1].id': ''. Expected an ID that contains letters, numbers, underscores,"
        " or dashes, but this value contained additional characters.",
        id="empty-id",
    ),
    pytest.param(
        {"type": "item_reference", "id": "rs 1"},
        "Invalid 'input[1].id': 'rs 1'. Expected an ID that contains letters, numbers,"
        " underscores, or dashes, but this value contained additional characters.",
        id="charset",
    ),
    pytest.param(
        {"type": "message", "id": "msg_" + "0" * 61, "role": "user", "content": "x"},
        "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but"
        " got a string with length 65 instead.",
        id="long-id",
    ),
    pytest.param(
        {"type": "function_call", "call_id": "c" * 65, "name": "f", "arguments": "{}"},
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64,"
        " but got a string with length 65 instead.",
        id="long-call-id",
    ),
    pytest.param(
        {"type": "function_call", "name": "f", "arguments": "{}"},
        "Missing required parameter: 'input[1].call_id'.",
        id="no-call-id",
    ),
    pytest.param(
        {"type": "function_call", "id": None, "call_id": "c", "name": "f", "arguments": "{}"},
        "Invalid type for 'input[1].id': expected a string, but got null instead.",
        id="null-id",
    ),
    pytest.param(
        {"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed"},
        "Unknown parameter: 'input[1].status'.",
        id="reasoning-status",
    ),
    pytest.param(
        {"type": "reasoning", "id": "rs_1", "summary": [], "status": None},
        "Unknown parameter: 'input[1].status'.",
        id="reasoning-status-null",
    ),
    pytest.param(
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        "Missing required parameter: 'input[1].summary'.",
        id="no-summary",
    ),
    pytest.param(
        {"type": "reasoning", "summary": []},
        "Missing required parameter: 'input[1].id'.",
        id="reasoning-without-id-and-blob",
    ),
    pytest.param(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        "Invalid 'input[1].content': array too long. Expected an array with maximum length 0,"
        " but got an array with length 1 instead.",
        id="reasoning-content",
    ),
    pytest.param(
        {"role": "tool", "content": "x"},
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and"
        " 'user'.",
        id="role",
    ),
    pytest.param(
        {"type": "item_reference"},
        "Missing required parameter: 'input[1].id'.",
        id="reference-without-id",
    ),
    pytest.param(
        {"type": "function_call", "id": FC, "call_id": "c1", "name": "f", "arguments": "{}"},
        "No tool output found for function call c1.",
        id="no-output",
    ),
    pytest.param(
        {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": ""},
        "No tool output found for custom tool call c1.",
        id="no-custom-output",
    ),
    pytest.param(
        {"type": "function_call_output", "call_id": "c1", "output": ""},
        "No tool call found for function call output with call_id c1.",
        id="no-call",
    ),
    pytest.param(
        {"type": "reasoning", "id": "rs_1", "summary": []},
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."
        " Try again with `store` set to true, or remove this item from your input.",
        id="never-emitted",
    ),
    pytest.param(
        {"id": "msg_1"},
        "Item with id 'msg_1' not found. Items are not persisted when `store` is set to false."
        " Try again with `store` set to true, or remove this item from your input.",
        id="bare-reference",
    ),
]


@pytest.mark.parametrize(("item", "said"), SHAPES)
def test_a_bad_item_is_refused_in_the_words_of_the_api(item: Item, said: str) -> None:
    """One wrong item is enough for a refusal, and the error names its index."""
    assert World().message([ASK, item]) == said


def test_an_unknown_type_is_refused() -> None:
    """An item with a type outside the union is refused."""
    said = World().message([{"type": "context_compaction", "id": "x"}])

    assert said.startswith("Invalid value: 'context_compaction'. Supported values are: 'message',")


def test_a_foreign_id_with_the_right_prefix_is_a_plain_item() -> None:
    """Ids that were never emitted here are not looked up; the items are judged as sent."""
    call = {"type": "function_call", "id": FC, "call_id": "c", "name": "f", "arguments": "{}"}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    }

    assert World().message([ASK, message, call, *answers([call])]) == ""


def test_an_id_that_occurs_twice_is_a_duplicate() -> None:
    """Every id may occur only once, references included."""
    world = World()
    _, (thought, call) = world.emit()
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
    _, (thought, call) = world.emit(store=store)

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


def test_an_output_without_call_id_answers_by_name() -> None:
    """An output with a null `call_id` belongs to the call of its name."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": None, "output": ""}

    assert World().message([ASK, call, output | {"name": "f"}]) == ""
    assert World().message([ASK, call, output | {"name": "g"}]) != ""


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "gpt-5.2-chat"],
)
def test_models_without_reasoning_refuse_reasoning(model: str) -> None:
    """A model without reasoning refuses both the `include` for ciphertext and reasoning items."""
    world = World()
    _, (thought, call) = world.emit()
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
    assert not reasons(model)


@pytest.mark.parametrize("model", ["o1", "o3", "o4-mini", "gpt-5", "gpt-5.4-codex", "gpt-6-luna"])
def test_every_other_model_reasons(model: str) -> None:
    """The list of exceptions is short and closed; new models reason."""
    assert reasons(model)
    assert World().message([ASK], model=model, include=["reasoning.encrypted_content"]) == ""


def test_an_unknown_include_is_refused() -> None:
    """A value outside the closed list of `include` is refused."""
    said = World().message([ASK], include=["reasoning"])

    assert said.startswith("Invalid value: 'reasoning'. Supported values are:")


def test_a_dated_model_is_of_the_family_without_its_date() -> None:
    """A model and the dated name in its responses belong to one family."""
    assert family("gpt-5.4-2026-03-05") == family("gpt-5.4") == "gpt-5.4"
    assert family("gpt-5.4-mini") != family("gpt-5.4")


def test_a_response_is_continued_with_new_items() -> None:
    """The server adds the earlier items itself; only outputs for their calls are needed."""
    world = World()
    turn, (thought, call) = world.emit()
    previous = turn.answer.id

    assert world.message(answers([call]), previous_response_id=previous) == ""
    assert world.message([ASK], previous_response_id=previous) == (
        f"No tool output found for function call {call['call_id']}."
    )
    assert world.message([thought, call, *answers([call])], previous_response_id=previous) == (
        f"Duplicate item found with id {thought['id']}. Remove duplicate items from your input"
        " and try again."
    )


@pytest.mark.parametrize(("store", "caller"), [(False, "a"), (True, "b")])
def test_an_unknown_response_is_not_continued(*, store: bool, caller: str) -> None:
    """Only a response that was stored for this caller can be continued."""
    world = World()
    turn, (_, call) = world.emit(store=store)

    refusal = world.refusal(answers([call]), caller, previous_response_id=turn.answer.id)

    assert refusal is not None
    assert refusal.message == f"Previous response with id '{turn.answer.id}' not found."
    assert (refusal.param, refusal.code) == ("previous_response_id", "previous_response_not_found")


def test_a_conversation_holds_its_items() -> None:
    """The server adds the items of a conversation; `previous_response_id` is refused with it."""
    world = World()
    turn, (_, call) = world.emit(conversation={"id": "conv_1"})

    assert world.message(answers([call]), conversation="conv_1") == ""
    assert world.message(
        answers([call]), conversation="conv_1", previous_response_id=turn.answer.id
    ).startswith("Mutually exclusive parameters")


def test_a_bare_string_is_a_user_message() -> None:
    """A string as `input` is one user message."""
    body = World().body([ASK])
    body.input = "hello"

    assert [item.role for item in body.items] == ["user"]


_WORLD = World()
_ITEMS = [
    ASK,
    *as_input(_WORLD.emit("parallel")[1]),
    *as_input(_WORLD.emit("call_zero", store=False)[1]),
    *_WORLD.emit("interleaved")[1],
    {"role": "assistant", "content": "hi"},
    {"type": "item_reference", "id": "rs_unknown"},
]


@given(
    st.lists(
        st.tuples(st.sampled_from(_ITEMS), st.sets(st.sampled_from(["id", "call_id", "type"]))),
        max_size=9,
    ),
    st.sampled_from(["gpt-5.4", "gpt-4o"]),
    st.booleans(),
)
def test_any_history_gets_an_answer(
    drawn: list[tuple[Item, set[str]]],
    model: str,
    store: bool,
) -> None:
    """Any history is accepted or refused; strict refuses everything that normal refuses."""
    items = [without(item, *names) for item, names in drawn]
    normal = _WORLD.refusal(items, model=model, store=store)
    strict = _WORLD.refusal(items, continuity="strict", model=model, store=store)

    assert normal is None or normal == strict
