"""Errors: their texts and names, in every structure that an upstream or a gateway sends."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects import error_texts
from reasoning_replay.core.dialects.error_texts import (
    NO_NAMES,
    ErrorNames,
    ErrorText,
    Refusal,
    error_names,
    is_refusal,
    read_error,
)
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind

from tests.core.documents import Written, values

RAW = json.dumps({"error": {"message": "no", "code": "invalid_request_error"}})
LOC = ["body", "messages", 2, "assistant", "reasoning_content"]
EXTRA = {"type": "extra_forbidden", "loc": LOC, "msg": "Extra inputs", "input": "secret"}
AT = "body.messages.2.assistant.reasoning_content: extra_forbidden Extra inputs"

# (body, its texts)
SAID = [
    (
        {"error": {"message": "no", "param": "input", "code": "x"}},
        ErrorText("no", ("input",), ("x",)),
    ),
    ({"error": "no", "code": "x"}, ErrorText("no", (), ("x",))),
    ("no", ErrorText("no")),
    ({"detail": "no"}, ErrorText("no")),
    ({"message": "no"}, ErrorText("no")),
    ({"type": "error", "message": "no"}, ErrorText("no")),
    ({"type": "error", "error": {"message": "no"}}, ErrorText("no")),
    ({"detail": [{"error": {"message": "no"}}]}, ErrorText("no")),
    ([{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}], ErrorText("no")),
    ({"detail": [EXTRA, EXTRA]}, ErrorText(f"{AT} {AT}")),
    ({"object": "error", "message": {"detail": [EXTRA]}}, ErrorText(AT)),
    ({"type": "response.failed", "response": {"error": {"message": "no"}}}, ErrorText("no")),
    ({"response": "no"}, ErrorText("no")),
    (
        {"error": {"message": "Provider returned error", "metadata": {"raw": RAW}}},
        ErrorText("Provider returned error no", (), ("invalid_request_error",)),
    ),
    ({"error": {"metadata": {"raw": "[not JSON"}}}, ErrorText("[not JSON")),
    ({"error": {"upstream_error": {"error": {"message": "no"}}}}, ErrorText("no")),
]


@pytest.mark.parametrize(("body", "texts"), SAID)
def test_the_texts_of_an_error(body: object, texts: ErrorText) -> None:
    """Messages are joined; the value of a refused member is not one of them."""
    assert read_error(json.dumps(body).encode()) == texts


@pytest.mark.parametrize("body", [b"Bad Request", b"\xff", b"{}", b"{", b"null", b"7", b""])
def test_a_body_without_a_known_structure_is_plain_text(body: bytes) -> None:
    """It is searched as it is."""
    assert read_error(body) == ErrorText(body.decode("utf-8", "replace"))


def test_only_the_beginning_counts() -> None:
    """The error comes first; the rest may quote any text of a client."""
    body = json.dumps({"error": {"message": "a" * 9000}}).encode()
    assert len(read_error(body).message) == error_texts.MESSAGE_MAX_CHARS
    assert len(read_error(b"a" * 9000).message) == error_texts.MESSAGE_MAX_CHARS


def test_a_deep_error_ends_the_search() -> None:
    """An error that is nested deeper than any known one has no texts of its own."""
    deep: object = "no"
    for _ in range(40):
        deep = {"error": deep}
    assert "no" not in read_error(json.dumps({"detail": "top", "error": deep}).encode()).message


@given(st.binary(max_size=40) | values.map(lambda written: b'{"error":' + written.text + b"}"))
def test_any_body_has_texts(body: bytes) -> None:
    """Whatever an upstream sends, reading it raises nothing."""
    assert isinstance(read_error(body), ErrorText)


def test_a_refusal_is_about_the_input() -> None:
    """Rate limits, outages and errors of authentication are never diagnosed."""
    assert [status for status in range(100, 600) if is_refusal(status)] == [400, 404, 409, 422]


ERROR = {"message": "secret", "code": "rate_limit_exceeded", "type": "tokens"}
NAMES = ErrorNames("rate_limit_exceeded", "tokens")


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({"error": ERROR}, NAMES),
        ([{"error": ERROR}], NAMES),
        ({"type": "error", "error": ERROR, "status": 400}, NAMES),
        ({"type": "response.failed", "response": {"id": "x", "error": ERROR}}, NAMES),
        ({"detail": ERROR}, NAMES),
        ({"type": "error", **{k: ERROR[k] for k in ("code", "message")}}, NAMES._replace(type="")),
        ({"code": "not_found", "error": "secret"}, ErrorNames("not_found")),
        ({"error": {"code": 429, "message": "secret"}}, ErrorNames("429")),
        ({"error": {"code": None, "type": "server_error"}}, ErrorNames("", "server_error")),
        ({"error": {"code": True, "type": ["x"]}}, NO_NAMES),
        ({"error": {"code": "a secret text", "type": "x" * 65}}, NO_NAMES),
        ({"error": {"code": "schlüssel", "type": "\n"}}, NO_NAMES),
        ({"error": "secret"}, NO_NAMES),
        ([], NO_NAMES),
        ("secret", NO_NAMES),
    ],
)
def test_an_error_is_named_by_its_code_and_type(said: Any, want: ErrorNames) -> None:
    """A value that is no word of an API could quote the request, so it is left out."""
    assert error_names(json.dumps(said).encode()) == want


@pytest.mark.parametrize("said", [b"", b"not JSON", b"[" * 9999, b'"\xff"'])
def test_a_body_that_is_not_json_has_no_names(said: bytes) -> None:
    """Neither a syntax error nor deep nesting raises."""
    assert error_names(said) == NO_NAMES


@given(values)
def test_any_json_has_bounded_names(said: Written) -> None:
    """Names are printable ASCII of at most 64 characters."""
    for name in error_names(said.text):
        assert name == "" or (name.isascii() and name.isprintable() and len(name) <= 64)


def test_a_refusal_may_be_cured_and_has_no_hint() -> None:
    """A dialect says otherwise of its own."""
    refused = Refusal(RefusalKind.BLOB)

    assert (refused.is_understood, refused.incurable, refused.hint) == (True, "", "")
