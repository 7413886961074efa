"""A refusal is told by what upstream says, never by its status alone."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.heal.diagnosis import Diagnosis, Fault, diagnose, is_refusal
from tests.core.documents import values

LOST = "Items are not persisted when `store` is set to false. Try again with `store` set to true"
REMOVE = "Remove reasoning items from your input and try again."
SAME_RESOURCE = "Use the same resource that created the item to access it."
CHARACTERS = (
    "Expected an ID that contains letters, numbers, underscores, or dashes, but this value"
    " contained additional characters."
)
UNVERIFIED = "The encrypted content for item rs_1 could not be verified. Reason: "

# Verbatim but for the ids: what upstreams were seen to say.
ABOUT_INPUT = [
    "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'r'.",
    "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
    "Item 'ws_1' of type 'web_search_call' was provided without its required 'reasoning' item: 'r'",
    "Item 'cu_1' of type 'computer_call' was provided without its required 'reasoning' item: 'r'.",
    "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
    f"Item with id 'rs_1' not found. {LOST}, or remove this item from your input.",
    "The encrypted content gAAA...ng== could not be verified.",
    f"{UNVERIFIED}Encrypted content could not be decrypted or parsed.",
    f"{UNVERIFIED}Encrypted content organization_id did not match the target organization.",
    f"{UNVERIFIED}Encrypted content item_id did not match the target item id.",
    f"The requested item was created under a different Azure OpenAI resource. {SAME_RESOURCE}",
    "reasoning `encrypted_content` was not issued to this caller",
    f"Reasoning input items can only be provided to a reasoning or computer use model. {REMOVE}",
    "Invalid 'input[3].id': 'x'. Expected an ID that begins with 'fc'.",
    f"Invalid 'input[2].id': ''. {CHARACTERS}",
    "Invalid 'input': value did not match any expected variant",
    "The `reasoning_text` in the thinking mode must be passed back to the API.",
    "Encrypted content is not supported.",
    "Invalid 'id': message id must be a string starting with 'msg_'",
]
ABOUT_INCLUDE = ["Encrypted content is not supported with this model."]
ABOUT_OTHERS = [
    "Previous response with id 'resp_1' not found.",
    "Previous response cannot be used for this organization due to Zero Data Retention.",
    "Unsupported parameter: 'temperature' is not supported with this model.",
    "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
    "llama.cpp does not support 'previous_response_id'.",
    "The background parameter is not supported.",
    "",
]
SAID = [
    *((message, Refusal.INPUT) for message in ABOUT_INPUT),
    *((message, Refusal.INCLUDE) for message in ABOUT_INCLUDE),
    *((message, Refusal.OTHER) for message in ABOUT_OTHERS),
]


def enveloped(message: object, param: object = None, code: object = None) -> bytes:
    """Return an error body as OpenAI writes it."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json.dumps({"error": error}, indent=2).encode()


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(enveloped, id="envelope"),
        pytest.param(lambda message: json.dumps({"error": message}).encode(), id="error-string"),
        pytest.param(lambda message: json.dumps({"detail": message}).encode(), id="detail"),
        pytest.param(
            lambda message: json.dumps([{"error": {"message": message}}]).encode(), id="array"
        ),
        pytest.param(
            lambda message: json.dumps({"detail": [{"msg": message}]}).encode(), id="list"
        ),
        pytest.param(str.encode, id="plain-text"),
        pytest.param(lambda message: message.encode() + b"\xff", id="not-utf-8"),
    ],
)
@pytest.mark.parametrize(("message", "want"), SAID)
def test_every_known_saying_is_understood(
    message: str, want: Refusal, wrap: Callable[[str], bytes]
) -> None:
    """In OpenAI's envelope, in those of gateways, and in none."""
    assert diagnose(400, wrap(message)) is want


# (message, param, what it is about)
PARAMS = [
    ("No tool output found for function call call_1.", "input", Refusal.INPUT),
    ("No tool call found for function call output with call_id call_1.", "input", Refusal.INPUT),
    ("Unknown item.", "input[3].id", Refusal.INPUT),
    ("Unsupported value.", "include", Refusal.INCLUDE),
    ("Encrypted content cannot be requested for persisted responses.", "include", Refusal.INCLUDE),
    ("Unsupported value.", "include[0]", Refusal.INCLUDE),
    ("Unsupported value.", "inputs", Refusal.OTHER),
    ("Unsupported value.", "included", Refusal.OTHER),
    ("Unsupported value.", "temperature", Refusal.OTHER),
    ("Unsupported value.", None, Refusal.OTHER),
    (None, None, Refusal.OTHER),
    (5, ["input"], Refusal.OTHER),
]


@pytest.mark.parametrize(("message", "param", "want"), PARAMS)
def test_the_parameter_tells_what_the_message_does_not(
    message: object, param: object, want: Refusal
) -> None:
    """It names the field that was refused."""
    assert diagnose(400, enveloped(message, param)) is want


@pytest.mark.parametrize("status", [400, 404, 422])
def test_refusals_of_input_are_read(status: int) -> None:
    """The statuses that bad input is answered with."""
    assert is_refusal(status)
    assert diagnose(status, enveloped(ABOUT_INPUT[0])) is Refusal.INPUT


@pytest.mark.parametrize("status", [200, 401, 403, 408, 409, 429, 500, 502, 503])
def test_other_answers_are_never_ours_to_heal(status: int) -> None:
    """Limits and outages have their own clients and their own cure."""
    assert not is_refusal(status)
    assert diagnose(status, enveloped(ABOUT_INPUT[0], "input")) is Refusal.OTHER


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b'{"error":null}',
        b'{"error":[]}',
        b"<html>502</html>",
        b"\xff",
        b"[" * 9999,
    ],
)
def test_garbage_is_about_others(body: bytes) -> None:
    """Nothing is guessed from what cannot be read."""
    assert diagnose(400, body) is Refusal.OTHER


@given(st.binary(max_size=40) | values.map(lambda written: b'{"error":' + written.text + b"}"))
@settings(max_examples=80, deadline=None)
def test_no_body_raises(body: bytes) -> None:
    """An error page is the last place to fail at."""
    assert diagnose(400, body) in Refusal
