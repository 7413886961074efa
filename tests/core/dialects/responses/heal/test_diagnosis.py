"""Diagnosis of refusals: read from the words of the error, never from its status alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.heal.diagnosis import (
    Diagnosis,
    Form,
    RefusalKind,
    diagnose,
    is_failing_event,
    is_opening_event,
    is_refusing_event,
)

from tests.core.documents import values
from tests.fast_lane import examples

OTHER = Diagnosis(RefusalKind.OTHER)
INPUT = Diagnosis(RefusalKind.INPUT)
BLOB = Diagnosis(RefusalKind.BLOB)
FOREIGN = Diagnosis(RefusalKind.BLOB, is_foreign=True)

LOST = "Items are not persisted when `store` is set to false. Try again with `store` set to true"
LOST_ZDR = "Items are not persisted for Zero Data Retention organizations."
OTHER_ORGANIZATION = "Encrypted content organization_id did not match the target organization."
KIMI = "thinking is enabled but reasoning_content is missing in assistant tool call message"
REMOVE = "computer use model. Remove reasoning items from your input and try again."
SAME_RESOURCE = "Use the same resource that created the item to access it."
CHARACTERS = (
    "Expected an ID that contains letters, numbers, underscores, or dashes, but this value"
    " contained additional characters."
)
UNVERIFIED = "The encrypted content for item rs_1 could not be verified. Reason: "
UNMODIFIED = "Ensure the value is the unmodified encrypted_content"
NO_VARIANT = "data did not match any variant of untagged"
MASKED = "The encrypted content gAAA...ng== could not be verified."
DEEPSEEK = "For more information, please refer to https://api-docs.deepseek.com/guides/thinking"


def orphan(item_id: str, kind: str) -> str:
    """Return the error message of the API for an item without its reasoning."""
    return (
        f"Item '{item_id}' of type '{kind}' was provided without its required 'reasoning' item:"
        " 'rs_1'."
    )


def lacking(item_id: str) -> Diagnosis:
    """Return the diagnosis of that message."""
    return Diagnosis(RefusalKind.LACKS_REASONING, subject=item_id, wanted="rs_1")


# (message as seen from an upstream, verbatim except the ids; its diagnosis)
SAID = [
    (orphan("fc_1", "function_call"), lacking("fc_1")),
    (orphan("msg_1", "message"), lacking("msg_1")),
    (orphan("ws_1", "web_search_call")[:-1], lacking("ws_1")),
    (orphan("cu_1", "computer_call"), lacking("cu_1")),
    (
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        Diagnosis(RefusalKind.LACKS_FOLLOWER, subject="rs_1"),
    ),
    (
        "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
        Diagnosis(RefusalKind.DUPLICATE, subject="rs_1"),
    ),
    (
        f"Item with id 'rs_1' not found. {LOST}, or remove this item from your input.",
        Diagnosis(RefusalKind.NOT_FOUND, subject="rs_1"),
    ),
    (
        f"Item with id 'msg_1' not found. {LOST_ZDR}",
        Diagnosis(RefusalKind.NOT_FOUND, subject="msg_1"),
    ),
    (
        "Referenced reasoning item 'rs_1' was not found or has expired.",
        Diagnosis(RefusalKind.NOT_FOUND, subject="rs_1", form=Form.NAMELESS),
    ),
    (MASKED, Diagnosis(RefusalKind.BLOB, ends=("gAAA", "ng=="))),
    (
        f"{MASKED} Reason: Encrypted content could not be decrypted or parsed.",
        Diagnosis(RefusalKind.BLOB, ends=("gAAA", "ng==")),
    ),
    (
        f"{MASKED} Reason: {OTHER_ORGANIZATION}",
        Diagnosis(RefusalKind.BLOB, ends=("gAAA", "ng=="), is_foreign=True),
    ),
    (
        f"{UNVERIFIED}Encrypted content could not be decrypted or parsed.",
        Diagnosis(RefusalKind.BLOB, subject="rs_1"),
    ),
    (
        f"{UNVERIFIED}{OTHER_ORGANIZATION}",
        Diagnosis(RefusalKind.BLOB, subject="rs_1", is_foreign=True),
    ),
    (
        f"{UNVERIFIED}Encrypted content item_id did not match the target item id.",
        Diagnosis(RefusalKind.BLOB, subject="rs_1", form=Form.BY_VALUE),
    ),
    (
        "Encrypted content item_id did not match the target item id.",
        Diagnosis(RefusalKind.BLOB, form=Form.BY_VALUE),
    ),
    (OTHER_ORGANIZATION, FOREIGN),
    ("Encrypted content could not be decrypted or parsed.", BLOB),
    (
        f"The requested item was created under a different Azure OpenAI resource. {SAME_RESOURCE}",
        FOREIGN,
    ),
    ("reasoning `encrypted_content` was not issued to this caller", FOREIGN),
    (
        f"Could not decrypt the provided encrypted_content. {UNMODIFIED} from a previous response.",
        BLOB,
    ),
    (
        'input[1].type "reasoning" is not a valid input item type',
        Diagnosis(RefusalKind.NO_REASONING_MODEL),
    ),
    ("Encrypted content is not supported with this model.", Diagnosis(RefusalKind.INCLUDE)),
    (
        "Encrypted content is not supported.",
        Diagnosis(RefusalKind.FIELD, member="encrypted_content"),
    ),
    (
        f"Reasoning input items can only be provided to a reasoning or {REMOVE}",
        Diagnosis(RefusalKind.NO_REASONING_MODEL),
    ),
    (
        "The `reasoning_text` in the thinking mode must be passed back to the API.",
        Diagnosis(RefusalKind.LACKS_TEXT),
    ),
    (
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        Diagnosis(RefusalKind.LACKS_TEXT),
    ),
    (
        "The content[].thinking in the thinking mode must be passed back to the API",
        Diagnosis(RefusalKind.LACKS_TEXT),
    ),
    (
        f"Missing `reasoning_content` field in the assistant message at index 2. {DEEPSEEK}",
        Diagnosis(RefusalKind.LACKS_TEXT),
    ),
    (
        f"{KIMI} at index 3",
        Diagnosis(RefusalKind.LACKS_TEXT),
    ),
    (
        "Invalid 'input[3].id': 'call_1'. Expected an ID that begins with 'fc'.",
        Diagnosis(RefusalKind.BAD_ID, index=3),
    ),
    (f"Invalid 'input[2].id': ''. {CHARACTERS}", Diagnosis(RefusalKind.BAD_ID, index=2)),
    (
        "Invalid 'input[n].id': 'x'. Expected an ID that begins with 'fc'.",
        Diagnosis(RefusalKind.BAD_ID),
    ),
    (
        "Invalid 'id': message id must be a string starting with 'msg_'",
        Diagnosis(RefusalKind.BAD_ID),
    ),
    (
        "No tool output found for function call call_1.",
        Diagnosis(RefusalKind.LACKS_OUTPUT, subject="call_1"),
    ),
    (
        "No tool output found for custom tool call call_1.",
        Diagnosis(RefusalKind.LACKS_OUTPUT, subject="call_1"),
    ),
    (
        "No tool output found for function call functions.get:0. Received Model Group=gpt-5",
        Diagnosis(RefusalKind.LACKS_OUTPUT, subject="functions.get:0"),
    ),
    (
        "No tool call found for function call output with call_id call_1.",
        Diagnosis(RefusalKind.LACKS_CALL, subject="call_1"),
    ),
    (
        "No tool call found for custom tool call output with call_id resp_1:call_1",
        Diagnosis(RefusalKind.LACKS_CALL, subject="resp_1:call_1"),
    ),
    (
        "Unknown parameter: 'input[2].id'.",
        Diagnosis(RefusalKind.BAD_ID, index=2, form=Form.NAMELESS),
    ),
    (
        "Unknown parameter: 'input[2].encrypted_content'.",
        Diagnosis(RefusalKind.FIELD, index=2, member="encrypted_content", form=Form.BY_ID),
    ),
    (
        "Unknown parameter: 'input[2].status'.",
        Diagnosis(RefusalKind.FIELD, index=2, member="status"),
    ),
    (
        "Invalid 'input[i].content': array too long. Expected an array with maximum length 0...",
        Diagnosis(RefusalKind.FIELD, member="content"),
    ),
    ("Invalid 'input': value did not match any expected variant", INPUT),
    ("Invalid value: 'input[4].content[0].file_data'", INPUT),
    ("Encrypted content cannot be requested for persisted responses.", INPUT),
    ("Missing required parameter: 'input[1].summary'.", INPUT),
    ("Input[1] missing required field `summary`", INPUT),
    (
        "Could not decode the compaction blob. Ensure it is unmodified from the compact response.",
        INPUT,
    ),
    (
        f"Failed to deserialize the JSON body into the target type: {NO_VARIANT} enum ModelInput",
        INPUT,
    ),
    ("item['content'] is not an array", INPUT),
    ("Cannot determine type of 'item'", INPUT),
    ("Previous response with id 'resp_1' not found.", OTHER),
    ("Previous response cannot be used for this organization due to Zero Data Retention.", OTHER),
    ("Unsupported parameter: 'temperature' is not supported with this model.", OTHER),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", OTHER),
    ("The 'configuration_update' item type is not supported with pro or tournament models.", OTHER),
    ("llama.cpp does not support 'previous_response_id'.", OTHER),
    ("web search is not supported for this request", OTHER),
    ("The background parameter is not supported.", OTHER),
    ("function call `f` in the 2. content block is missing a `thought_signature`.", OTHER),
    ("messages.1.content.0: Invalid `signature` in `thinking` block", OTHER),
    ("", OTHER),
]


def enveloped(message: object, param: object = None, code: object = None) -> bytes:
    """Return an error body in OpenAI's format."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json.dumps({"error": error}, indent=2).encode()


@pytest.mark.parametrize(("message", "want"), SAID)
def test_every_known_message_is_diagnosed(message: str, want: Diagnosis) -> None:
    """A message is found in OpenAI's envelope, and in text; only a refusal is diagnosed."""
    assert diagnose(400, enveloped(message)) == want
    assert diagnose(422, message.encode()) == want
    assert diagnose(429, enveloped(message)) == OTHER


# (error message, its param, its code, diagnosis)
PARAMS = [
    ("Unknown item.", "input[3].id", None, INPUT),
    ("Please adjust your input.", "input", "context_length_exceeded", INPUT),
    ("Unsupported value.", "include", None, Diagnosis(RefusalKind.INCLUDE)),
    (
        "Encrypted content cannot be requested for persisted responses.",
        "include",
        None,
        Diagnosis(RefusalKind.INCLUDE),
    ),
    ("Unsupported value.", "prompt_cache_key", None, Diagnosis(RefusalKind.CACHE_KEY)),
    ("Unsupported value.", "include[0]", None, Diagnosis(RefusalKind.INCLUDE)),
    ("Something about blobs.", None, "invalid_encrypted_content", BLOB),
    (None, None, "invalid_encrypted_content", BLOB),
    (MASKED, "input", "x", Diagnosis(RefusalKind.BLOB, ends=("gAAA", "ng=="))),
    ("Unsupported value.", "inputs", None, OTHER),
    ("Unsupported value.", "included", None, OTHER),
    ("Unsupported value.", "temperature", "unsupported_value", OTHER),
    ("Unsupported value.", None, "input", OTHER),
    (None, None, None, OTHER),
    (5, ["input"], {"message": 5}, INPUT),
]


@pytest.mark.parametrize(("message", "param", "code", "want"), PARAMS)
def test_the_parameter_and_the_code_are_read_after_the_message(
    message: object, param: object, code: object, want: Diagnosis
) -> None:
    """`param` and `code` name the refused field, but a known message has priority over them."""
    assert diagnose(400, enveloped(message, param, code)) == want


# (event, whether the response failed, whether that is a refusal that may be healed)
EVENTS = [
    ({"type": "error", "message": "x"}, True, True),
    ({"type": "error", "error": {"message": "x"}, "status": 400}, True, True),
    ({"type": "error", "error": {"message": "x"}, "status": 429}, True, False),
    ({"type": "error", "status": None}, True, True),
    ({"type": "error", "status": {}}, True, False),
    ({"type": "response.failed", "response": {"error": {"message": "x"}}}, True, True),
    ({"type": "response.created", "response": {}}, False, False),
    ({"type": "response.completed"}, False, False),
    ({"error": {"message": "x"}}, False, False),
    ({"type": {}}, False, False),
    ([], False, False),
    ("error", False, False),
]


@pytest.mark.parametrize(("event", "is_failing", "is_refusing"), EVENTS)
def test_an_event_may_refuse_as_well(event: object, *, is_failing: bool, is_refusing: bool) -> None:
    """An error event is a refusal if it has no status, or one of these statuses."""
    data = json.dumps(event).encode()
    assert is_failing_event(data) is is_failing
    assert is_refusing_event(data) is is_refusing


@given(st.binary(max_size=40) | values.map(lambda written: b'{"error":' + written.text + b"}"))
@examples(80)
def test_no_error_body_raises(body: bytes) -> None:
    """Any bytes can be diagnosed without an exception."""
    assert diagnose(400, body).kind in RefusalKind
    assert is_refusing_event(body) in (True, False)


@pytest.mark.parametrize(
    ("event", "opens"),
    [
        (b'{"type":"response.created"}', True),
        (b'{"type":"response.in_progress"}', True),
        (b'{"type":"error"}', False),
        (b'{"type":"response.output_item.added"}', False),
        (b"[]", False),
    ],
)
def test_the_events_that_open_a_stream(event: bytes, *, opens: bool) -> None:
    """A refusal may follow them."""
    assert is_opening_event(event) is opens
