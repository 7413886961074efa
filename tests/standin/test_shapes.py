"""Types: requests are decoded leniently, responses are written in full."""

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
    """The content of a message may be a string, parts, or absent."""
    assert plain_text(content) == text


def test_unknown_members_are_skipped() -> None:
    """Clients may send members that are not judged."""
    body = read(b'{"model":"m","new":1,"input":[{"role":"user","content":"x","new":{}}]}')

    assert [item.role for item in body.items] == ["user"]


@pytest.mark.parametrize(
    ("raw", "name"),
    [(b'"conv_1"', "conv_1"), (b'{"id":"conv_1"}', "conv_1"), (b"null", None)],
)
def test_a_conversation_is_a_string_or_an_object(raw: bytes, name: str | None) -> None:
    """Both forms name the conversation by its id."""
    assert read(b'{"model":"m","conversation":' + raw + b"}").conversation_id == name


@pytest.mark.parametrize(
    ("member", "stores"), [(b"", True), (b',"store":null', True), (b',"store":false', False)]
)
def test_responses_are_stored_by_default(*, member: bytes, stores: bool) -> None:
    """`store` is true unless the request sets it to false."""
    assert read(b'{"model":"m"' + member + b"}").stores is stores


def test_tools_are_echoed_unchanged() -> None:
    """Tools are echoed as sent, and decoded only to be called."""
    tools = b'[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"web_search"}]'
    body = read(b'{"model":"m","tools":' + tools + b"}")

    assert [tool.name for tool in body.declared_tools()] == ["f", None]
    assert bytes(body.tools) == tools
    assert read(b'{"model":"m","tools":null}').declared_tools() == []


def test_emitted_items_are_written_in_recorded_order() -> None:
    """Members have the order of recorded responses; members without a value yet are left out."""
    call = FunctionCall(id="fc_1", arguments="{}", call_id="c", name="f")

    assert msgspec.json.encode(call) == (
        b'{"id":"fc_1","type":"function_call","status":"completed","arguments":"{}","call_id":"c",'
        b'"name":"f"}'
    )
    assert b"action" not in msgspec.json.encode(WebSearchCall(id="ws_1"))
