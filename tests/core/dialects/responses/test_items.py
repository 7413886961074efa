"""Items: known fields are read, fields of a wrong type count as absent; reading never raises."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.items import (
    ResponsesItem,
    _ItemFields,
    read_item,
)
from reasoning_replay.core.history.items import Role

from tests.core.documents import objects, values
from tests.fast_lane import examples


def item(**fields: object) -> ResponsesItem:
    """Read an item with these fields."""
    return read_item(json.dumps(fields).encode())


MODEL_TYPES = [
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "tool_search_call",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "program",
    "multi_agent_call",
    "call_of_the_future_call",
]
CLIENT_TYPES = [
    "function_call_output",
    "custom_tool_call_output",
    "computer_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "tool_search_output",
    "mcp_approval_response",
    "program_output",
    "multi_agent_call_output",
    "compaction",
    "compaction_trigger",
    "configuration_update",
    "context_compaction",
    "additional_tools",
    "agent_message",
    "of_the_future",
]


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_calls_have_the_role_of_the_model(kind: str) -> None:
    """Every type that ends in `_call` is emitted by a model, including types unknown today."""
    got = item(type=kind)

    assert (got.type, got.role, got.is_tool, got.takes_id) == (kind, Role.MODEL, True, True)


@pytest.mark.parametrize("kind", CLIENT_TYPES)
def test_other_types_have_the_role_of_the_client(kind: str) -> None:
    """Outputs, triggers and unknown types can never be the follower of reasoning."""
    got = item(type=kind, id="x")

    assert (got.type, got.role, got.is_tool, got.takes_id) == (kind, Role.CLIENT, False, False)


# (item, its type, its role)
ROLES = [
    pytest.param({"role": "user", "content": "x"}, "message", Role.CLIENT, id="easy-message"),
    pytest.param({"type": "message", "role": "user"}, "message", Role.CLIENT, id="user"),
    pytest.param({"type": "message", "role": "critic"}, "message", Role.CLIENT, id="unknown-role"),
    pytest.param({"type": "message"}, "message", Role.CLIENT, id="no-role"),
    pytest.param({"role": "assistant"}, "message", Role.MODEL, id="easy-assistant"),
    pytest.param({"type": "message", "role": "assistant"}, "message", Role.MODEL, id="assistant"),
    pytest.param({"role": "system"}, "message", Role.FRAME, id="system"),
    pytest.param({"role": "developer"}, "message", Role.FRAME, id="developer"),
    pytest.param(
        {"type": "additional_tools", "role": "developer"},
        "additional_tools",
        Role.FRAME,
        id="additional-tools",
    ),
    pytest.param({"type": "reasoning"}, "reasoning", Role.REASONING, id="reasoning"),
    pytest.param(
        {"type": "item_reference", "id": "rs_1"}, "item_reference", Role.REFERENCE, id="reference"
    ),
    pytest.param({"id": "rs_1"}, "item_reference", Role.REFERENCE, id="bare-reference"),
    pytest.param(
        {"type": None, "id": "rs_1"}, "item_reference", Role.REFERENCE, id="reference-null-type"
    ),
    pytest.param({}, "", Role.CLIENT, id="empty"),
    pytest.param({"type": 5, "role": 5, "id": 5}, "", Role.CLIENT, id="wrong-types"),
]


@pytest.mark.parametrize(("fields", "kind", "role"), ROLES)
def test_the_role_follows_from_the_type_and_role_fields(
    fields: dict[str, object], kind: str, role: Role
) -> None:
    """A missing type is inferred as the API does it: a role means a message, an id a reference."""
    got = item(**fields)

    assert (got.type, got.role, got.is_tool) == (kind, role, False)


def read_everything(raw: bytes) -> ResponsesItem:
    """Read an item and all its properties."""
    got = read_item(raw, 3, 4)
    asked = (got.type, got.id, got.call_id, got.name, got.status, got.blob, got.text, got.role)
    assert all(isinstance(value, str | Role) for value in asked)
    assert (got.raw, got.start, got.end) == (raw, 3, 4)
    assert len(got.content) in (0, 16)
    assert len(got.said) == 16
    assert {got.is_tool, got.id_is_optional, got.is_finished, got.takes_id} <= {True, False}
    return got


@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"5", b'"x"', b"[]", b"{", b'{"type":"message"', b"\xff", b"[" * 100_000],
)
def test_a_value_that_is_not_an_object_is_an_item_without_a_type(raw: bytes) -> None:
    """It counts as an item of the client."""
    got = read_everything(raw)

    assert (got.type, got.role, got.content) == ("", Role.CLIENT, b"")


@given(st.binary(max_size=40) | values.map(lambda written: written.text))
@examples(60)
def test_reading_never_raises(raw: bytes) -> None:
    """An item of an unknown shape never fails a request."""
    read_everything(raw)


parts = objects(values).map(lambda written: written.text) | st.sampled_from(
    [b'{"type":"output_text","text":5}', b'{"type":5,"text":"x"}', b'{"type":"refusal"}', b"1"]
)
WRAPPED = json.dumps(json.dumps(json.dumps(json.dumps("x")))).encode()
contents = st.lists(parts, max_size=3).map(lambda given: b"[" + b",".join(given) + b"]")


@given(
    st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "x"]),
    st.dictionaries(
        st.sampled_from(_ItemFields.__struct_fields__),
        values.map(lambda written: written.text) | contents,
        max_size=5,
    ),
)
@example("message", {"content": b'"\xff"'})
@example("message", {"content": b'[{"type":"text","text":"\xff"},{"text":"\xff"}]'})
@example("function_call", {"arguments": b'"\xff"', "name": b'"\xff"'})
@example("function_call", {"arguments": b"1e999"})
@example("function_call", {"arguments": b"[" * 900 + b"]" * 900})
@example("function_call", {"arguments": WRAPPED})
@example("message", {"content": b'[1,{"type":"input_text","text":"x"},{"type":"input_image"}]'})
@examples(60)
def test_wrong_types_anywhere_never_raise(kind: str, fields: dict[str, bytes]) -> None:
    """A field of a wrong type counts as absent."""
    named = {"type": b'"' + kind.encode() + b'"'} | fields
    members = (b'"' + key.encode() + b'":' + value for key, value in named.items())
    read_everything(b"{" + b",".join(members) + b"}")


@pytest.mark.parametrize(
    ("fields", "optional"),
    [
        *(({"type": kind}, True) for kind in ("function_call", "custom_tool_call", "shell_call")),
        *(({"type": kind}, True) for kind in ("apply_patch_call", "tool_search_call", "message")),
        *(({"type": kind}, False) for kind in ("web_search_call", "mcp_call", "computer_call")),
        *(({"type": kind}, False) for kind in ("program", "item_reference", "of_the_future")),
    ],
)
def test_ids_are_optional_only_for_known_types(
    fields: dict[str, object], *, optional: bool
) -> None:
    """An id that the API may demand is never removed."""
    assert item(**fields).id_is_optional is optional


PART = {"type": "output_text", "text": "x"}


@pytest.mark.parametrize(
    ("fields", "takes"),
    [
        pytest.param({"type": "message", "role": "assistant", "content": [PART]}, True, id="full"),
        pytest.param({"type": "message", "role": "assistant", "content": "x"}, False, id="words"),
        pytest.param({"role": "assistant", "content": [PART]}, False, id="easy"),
        pytest.param({"type": "message", "role": "assistant"}, False, id="no-content"),
    ],
)
def test_a_message_in_the_easy_form_takes_no_id(fields: dict[str, object], *, takes: bool) -> None:
    """The API reads the easy form with another schema, which has no id."""
    assert item(**fields).takes_id is takes


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        *((status, True) for status in ("completed", "failed", "generating", "", None)),
        *((status, False) for status in ("incomplete", "in_progress")),
    ],
)
def test_an_item_is_unfinished_only_by_its_status(status: str | None, *, finished: bool) -> None:
    """Finished items may have another status or none: images stay `generating`, tools may fail."""
    assert item(type="function_call", status=status).is_finished is finished


def test_only_messages_have_text() -> None:
    """White space in the text is folded; other items have an empty text."""
    assert item(role="user", content=" a  b\n").text == "a b"
    assert item(type="function_call", content="x").text == ""


def test_a_blob_is_the_encrypted_content() -> None:
    """A null or absent field is an empty blob."""
    assert item(type="reasoning", encrypted_content="gAAAA").blob == "gAAAA"
    assert item(type="reasoning", encrypted_content=None).blob == ""
    assert item(type="reasoning").blob == ""


# (item, whether it is reasoning that has only an id)
HOLLOW = [
    ({"type": "reasoning", "id": "rs_1", "summary": []}, True),
    ({"type": "reasoning", "id": "rs_1", "content": []}, True),
    ({"type": "reasoning", "id": "rs_1", "content": None, "encrypted_content": None}, True),
    ({"type": "reasoning", "id": "rs_1", "encrypted_content": ""}, True),
    ({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA"}, False),
    ({"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text"}]}, False),
    ({"type": "reasoning", "summary": []}, False),
    ({"type": "item_reference", "id": "rs_1"}, False),
    ({"type": "message", "role": "assistant", "id": "msg_1"}, False),
]


@pytest.mark.parametrize(("fields", "want"), HOLLOW)
def test_an_id_alone_is_hollow(fields: dict[str, object], want: bool) -> None:
    """A bare id is of use only to an upstream that stores items."""
    assert item(**fields).is_hollow is want
