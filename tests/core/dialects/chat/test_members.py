"""Members: reasoning of a message or of a call, kept byte for byte."""

import pytest
from reasoning_replay.core.dialects.chat.members import (
    is_empty,
    is_of_call,
    name_of,
    reasoning_of,
    says_nothing,
    value_of,
)
from reasoning_replay.core.wire.digest import digest

DETAILS = (
    b'[{"type":"reasoning.text", "text":"a","signature":"Eg=="},'
    b'{"type":"reasoning.encrypted","data":"gAA","signature":null}]'
)


@pytest.mark.parametrize(
    ("name", "value", "blobs"),
    [
        ("reasoning_content", b'"a \\u00e9 \\/"', []),
        ("reasoning_details", DETAILS, ["Eg==", "gAA"]),
        ("extra_content", b'{ "google": {"thought_signature" : "Eg=="}}', ["Eg=="]),
        ("thought_signature", b'"Eg=="', ["Eg=="]),
        ("reasoning_opaque", b'"abc"', ["abc"]),
        ("thought_signature", b'""', []),
    ],
)
@pytest.mark.parametrize("of_call", [True, False])
def test_a_value_is_kept_byte_for_byte(
    name: str, value: bytes, blobs: list[str], of_call: bool
) -> None:
    """Its name and place are known again, and so are the strings that upstream checks."""
    part = reasoning_of(name, value, is_of_call=of_call)

    assert part is not None
    assert (name_of(part), value_of(part), is_of_call(part)) == (name, value, of_call)
    assert set(part.blobs) == {digest(b"blob", blob.encode()) for blob in blobs}
    assert part.has_blob is bool(blobs)


@pytest.mark.parametrize(
    "value",
    [b'"\\ud83d"', b'"\xff"', b"[" * 5000 + b"]" * 5000, b"", b'"open'],
    ids=["lone surrogate", "not UTF-8", "deep", "nothing", "unterminated"],
)
def test_a_value_that_would_damage_a_request_is_refused(value: bytes) -> None:
    """Nothing is injected that makes the request unreadable."""
    assert reasoning_of("reasoning", value, is_of_call=False) is None


@pytest.mark.parametrize(
    ("value", "empty"),
    [
        (b"null", True),
        (b'""', True),
        (b"[ ]", True),
        (b"{\n}", True),
        (b'" "', False),
        (b"[1]", False),
        (b"0", False),
    ],
)
def test_an_empty_value_says_nothing(value: bytes, empty: bool) -> None:
    """Vendors send such values where there is no reasoning."""
    assert is_empty(value) is empty


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("provider_specific_fields", b'{"thought_signatures":["Eg=="]}', True),
        ("provider_specific_fields", b'{"thought_signatures":[""],"refusal":null}', False),
        ("provider_specific_fields", b'{"signature":"\\ud83d"}', False),
        ("provider_specific_fields", b"null", False),
        ("extra_content", b'{"google":{"thought":true}}', True),
    ],
)
def test_fields_of_any_answer_say_something_if_they_are_signed(
    name: str, value: bytes, says: bool
) -> None:
    """LiteLLM sends some without any reasoning; what cannot be read says nothing."""
    assert says_nothing(name, value) is not says
