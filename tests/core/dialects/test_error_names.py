"""Error names: words of an API, read from any form of an error, and never a text."""

import json
from typing import Any

import pytest
from hypothesis import given
from reasoning_replay.core.dialects.captures import NO_NAMES, ErrorNames
from reasoning_replay.core.dialects.error_names import error_names

from tests.core.documents import Written, values

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
