"""Requests are read leniently, answers written in full."""

import msgspec
import pytest

from tests.standin.shapes import Body, FunctionCall, Part, WebSearchCall, plain_text


def read(raw: bytes) -> Body:
    """Decode a request."""
    return msgspec.json.decode(raw, type=Body)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        ([Part("output_text", "h"), Part("output_text", "i")], "hi"),
        ([Part("input_image")], ""),
        (None, ""),
        (msgspec.UNSET, ""),
    ],
)
def test_text_is_read_from_every_form_of_content(
    content: str | list[Part] | msgspec.UnsetType | None, text: str
) -> None:
    """A string, parts, or nothing."""
    assert plain_text(content) == text


def test_unknown_members_are_skipped() -> None:
    """Clients send more than is judged."""
    body = read(b'{"model":"m","new":1,"input":[{"role":"user","content":"x","new":{}}]}')

    assert [item.role for item in body.items] == ["user"]


@pytest.mark.parametrize(
    ("raw", "name"),
    [(b'"conv_1"', "conv_1"), (b'{"id":"conv_1"}', "conv_1"), (b"null", None)],
)
def test_a_conversation_is_a_string_or_an_object(raw: bytes, name: str | None) -> None:
    """Both forms name it by id."""
    assert read(b'{"model":"m","conversation":' + raw + b"}").conversation_id == name


@pytest.mark.parametrize(
    ("member", "stores"), [(b"", True), (b',"store":null', True), (b',"store":false', False)]
)
def test_responses_are_stored_unless_refused(*, member: bytes, stores: bool) -> None:
    """`store` is true by default."""
    assert read(b'{"model":"m"' + member + b"}").stores is stores


def test_tools_are_read_apart() -> None:
    """They are echoed as they came, and decoded only to be called."""
    tools = b'[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"web_search"}]'
    body = read(b'{"model":"m","tools":' + tools + b"}")

    assert [tool.name for tool in body.declared_tools()] == ["f", None]
    assert bytes(body.tools) == tools
    assert read(b'{"model":"m","tools":null}').declared_tools() == []


def test_emitted_items_are_written_in_recorded_order() -> None:
    """Members come in the order of recorded answers; what is not there yet is left out."""
    call = FunctionCall(id="fc_1", arguments="{}", call_id="c", name="f")

    assert msgspec.json.encode(call) == (
        b'{"id":"fc_1","type":"function_call","status":"completed","arguments":"{}","call_id":"c",'
        b'"name":"f"}'
    )
    assert b"action" not in msgspec.json.encode(WebSearchCall(id="ws_1"))
