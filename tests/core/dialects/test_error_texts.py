"""Error texts: found in every structure in which an upstream or a gateway reports an error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects import error_texts
from reasoning_replay.core.dialects.error_texts import ErrorText, is_refusal, read_error

from tests.core.documents import values

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
    ({"detail": "no"}, ErrorText("no")),
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


@pytest.mark.parametrize(
    ("status", "counts"), [(400, True), (422, True), (429, False), (500, False)]
)
def test_a_refusal_is_about_the_input(status: int, *, counts: bool) -> None:
    """Overload and failures are never diagnosed."""
    assert is_refusal(status) is counts
