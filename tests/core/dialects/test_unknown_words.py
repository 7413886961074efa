"""Unknown words: what may be about the history is sent once more, and nothing else."""

import json
from dataclasses import replace

import pytest
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.error_texts import ErrorNames
from reasoning_replay.core.dialects.unknown_words import form_of, is_about_request, or_form

OTHER = Diagnosis(RefusalKind.OTHER)

UNKNOWN = [
    b'{"error":{"message":"Element 3 of the history is not acceptable.","type":"bad_request"}}',
    b'{"fault":{"reason":"thought block rejected"}}',
    b'{"errors":[{"title":"Unprocessable","source":{"pointer":"/input/3"}}]}',
    b'{"detail":[{"loc":["body","input",3,"summary"],"msg":"field required","type":"missing"}]}',
    b'{"error":{"message":"Unacceptable.","param":"input[3].summary","code":"x17"}}',
    b"Bad thought in item 3\n",
    b"",
]
KNOWN = [
    "This model's maximum context length is 128000 tokens.",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "Your request was flagged by our content policy.",
    "You exceeded your current quota, please check your plan and billing details.",
    "The model 'gpt-9' does not exist or you do not have access to it.",
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
    "Invalid schema for function 'f': None is not of type 'object'.",
    "Previous response with id 'resp_1' not found.",
    "Unknown parameter: 'foo'.",
    "The requested model 'x' is not available.",
    "Content Exists Risk",
    "Credit limit reached for this workspace.",
    "Total tokens of image and text exceed max message tokens",
]


@pytest.mark.parametrize("body", UNKNOWN)
@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_words_of_any_shape_may_be_about_the_history(status: int, body: bytes) -> None:
    """Which error shape a vendor has does not matter."""
    assert or_form(OTHER, status, body).kind == "form"


@pytest.mark.parametrize("status", [200, 401, 403, 413, 429, 500, 503])
def test_other_statuses_are_not(status: int) -> None:
    """They say what is at fault by themselves."""
    assert or_form(OTHER, status, UNKNOWN[0]) is OTHER


@pytest.mark.parametrize("message", KNOWN)
def test_what_is_known_to_be_about_something_else_is_not(message: str) -> None:
    """Whatever the shape of the error."""
    assert or_form(OTHER, 400, json.dumps({"error": {"message": message}}).encode()) is OTHER
    assert or_form(OTHER, 400, json.dumps({"detail": message}).encode()) is OTHER


@pytest.mark.parametrize("param", ["tools[0].parameters", "model", "reasoning.effort"])
def test_a_parameter_that_is_named_is_not(param: str) -> None:
    """The proxy never edits it."""
    error = {"error": {"message": "No.", "param": param}}
    assert or_form(OTHER, 400, json.dumps(error).encode()) is OTHER


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>Bad Request</html>", id="page"),
        pytest.param(b'{"error":', id="cut-off"),
        pytest.param(b"x" * 20_000, id="long"),
        pytest.param(
            b'{"error":{"message":"This model is only supported in v1/responses and not in '
            b'v1/chat/completions."}}',
            id="wrong-path",
        ),
    ],
)
def test_what_is_no_error_of_this_api_is_not(body: bytes) -> None:
    """A server before it wrote it, or the path is wrong."""
    assert or_form(OTHER, 404, body) is OTHER


def test_what_is_understood_stays() -> None:
    """A table of the dialect knows the words."""
    known = replace(OTHER, kind=RefusalKind.BLOB)
    assert or_form(known, 400, UNKNOWN[0]) is known
    assert form_of(known) is RefusalKind.FORM


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (ErrorNames("", "invalid_request_error"), True),
        (ErrorNames("400", ""), True),
        (ErrorNames("server_error", ""), False),
        (ErrorNames("", "overloaded_error"), False),
        (ErrorNames(), False),
    ],
)
def test_an_event_must_say_that_the_request_is_at_fault(names: ErrorNames, *, want: bool) -> None:
    """It has no status; an upstream that failed by itself is not asked again."""
    assert is_about_request(names) is want


@pytest.mark.parametrize("name", ["input[1].status", "messages.1.content", "contents[0].parts"])
def test_an_unknown_parameter_of_the_history_is(name: str) -> None:
    """The history may be written in another form."""
    error = {"error": {"message": f"Unknown parameter: '{name}'."}}
    assert or_form(OTHER, 400, json.dumps(error).encode()).kind == "form"
