"""Items: an assistant message is its text and its calls, read in the same way however spelled."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire.json_spans import Unspliceable

CALL_ID = "call_8hJd02kQpZ71"


def read(message: Any) -> list[ChatItem]:
    """Read a message."""
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    return read_message(raw, 100, 100 + len(raw))


def assistant(content: Any = None, **more: Any) -> dict[str, Any]:
    """Return an assistant message."""
    return {"role": "assistant", "content": content, **more}


def call(arguments: Any = "{}", name: str = "add", **more: Any) -> dict[str, Any]:
    """Return a tool call."""
    function = {"name": name, "arguments": arguments}
    return {"id": CALL_ID, "type": "function", "function": function, **more}


def text_of(content: Any) -> bytes:
    """Return the digest of a text."""
    (item,) = read(assistant(content))
    return item.content


@pytest.mark.parametrize(
    ("message", "items"),
    [
        ({"role": "user", "content": "Hi"}, [("message", Role.CLIENT)]),
        ({"role": "system", "content": "Hi"}, [("message", Role.FRAME)]),
        ({"role": "developer", "content": "Hi"}, [("message", Role.FRAME)]),
        ({"role": "tool", "content": "22"}, [("function_call_output", Role.CLIENT)]),
        ({"role": "function", "name": "add"}, [("function_call_output", Role.CLIENT)]),
        ({"role": 5, "content": "Hi"}, [("message", Role.CLIENT)]),
        (b"[", [("message", Role.CLIENT)]),
        (assistant("Hi"), [("message", Role.MODEL)]),
        (assistant(refusal="I will not"), [("message", Role.MODEL)]),
        (
            assistant("Hi", tool_calls=[call()]),
            [("message", Role.MODEL), ("function_call", Role.MODEL)],
        ),
        (assistant(), []),
        (assistant(""), []),
        (assistant([]), []),
        (assistant(" \n"), []),
        (assistant("<think>Hm</think>"), []),
        (assistant(tool_calls=[]), []),
        (assistant(5, tool_calls={}, function_call=5), []),
    ],
)
def test_each_message_is_its_items(message: Any, items: list[Any]) -> None:
    """Only an assistant message is several items or none; any shape is read."""
    read_items = read(message)

    assert [item.type for item in read_items] == [item[0] for item in items]
    assert all(
        item.role is want[1] for item, want in zip(read_items, items, strict=True) if want[1:]
    )


def test_parallel_calls_are_items_of_their_own() -> None:
    """Each call has its id, name, number and byte range."""
    calls = [call('{"a":1}'), call('{"a":1}'), call(name="mul", id="")]
    message = json.dumps(assistant("Both.", tool_calls=calls)).encode()
    text, first, second, third = read(message)

    assert (text.words, text.start, text.end) == ("Both.", 100, 100 + len(message))
    assert [first.number, second.number, third.number] == [0, 1, 2]
    assert (first.call_id, first.name, third.call_id, third.name) == (CALL_ID, "add", "", "mul")
    for item, made in zip((first, second, third), calls, strict=True):
        assert json.loads(item.raw) == made
    assert text.raw == message
    assert first.end <= second.start
    assert first.id == ""


@pytest.mark.parametrize(
    "other",
    [
        [{"type": "text", "text": "It is  sunny \u2013 fine."}],
        [{"type": "text", "text": "It is sunny "}, {"type": "text", "text": "- fine."}],
        "\n\nIt is sunny - fine. ",
        "<think>Look outside.</think>\n\nIt is sunny - fine.",
        "<thinking>Look outside.</thinking>It is sunny - fine.",
        [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Look outside."}]},
            {"type": "text", "text": "It is sunny - fine."},
        ],
    ],
)
def test_text_is_the_same_however_it_is_written(other: Any) -> None:
    """Parts, white space, typography, and reasoning in tags or parts do not change the digest."""
    assert text_of(other) == text_of("It is sunny - fine.")
    assert text_of(other) != text_of("It is sunny.")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
        ('{"a": 1}', {"a": 1}),
        ("", "{}"),
        ("", None),
        ("{}", "null"),
        ("not json", "not json"),
    ],
)
def test_arguments_are_the_same_however_they_are_written(one: Any, other: Any) -> None:
    """Spacing, key order, an object in place of a string, and empty forms count as equal."""
    (first,), (second,) = (read(assistant(tool_calls=[call(given)])) for given in (one, other))

    assert first.content == second.content
    assert first.content != read(assistant(tool_calls=[call('{"a":2}')]))[0].content
    assert first.content != read(assistant(tool_calls=[call(one, name="mul")]))[0].content


def test_custom_and_old_calls_count() -> None:
    """A custom tool's input and the old `function_call` are read like a function's arguments."""
    custom = {"id": CALL_ID, "type": "custom", "custom": {"name": "add", "input": "1+1"}}
    both = custom | {"function": {"name": "", "arguments": ""}}
    old = {"name": "add", "arguments": "1+1"}

    items = [
        read(assistant(tool_calls=[custom]))[0],
        read(assistant(tool_calls=[both]))[0],
        read(assistant(function_call=old))[0],
    ]

    assert len({item.content for item in items}) == 1
    assert [item.number for item in items] == [0, 0, -1]
    assert read(assistant(function_call={"name": "", "arguments": ""})) == []


@pytest.mark.parametrize(
    ("damaged", "name"),
    [
        (5, ""),
        ({"id": 5, "function": {"name": "add"}}, "add"),
        ({"id": "x", "function": {"name": 5}}, ""),
        ({"id": "x", "function": "add"}, ""),
        ({"id": "x"}, ""),
    ],
)
def test_a_damaged_call_is_still_an_item(damaged: Any, name: str) -> None:
    """The other calls keep their numbers."""
    items = read(assistant(tool_calls=[damaged, call()]))

    assert [item.name for item in items] == [name, "add"]
    assert items[1].number == 1
    assert items[0].content


def test_a_field_of_an_unexpected_type_counts_as_absent() -> None:
    """The rest of the message is read."""
    message = assistant("Hi", refusal=5, tool_calls=[call()], name=[])
    assert [item.type for item in read(message)] == ["message", "function_call"]


def test_the_id_is_the_trace_only_if_it_is_random() -> None:
    """Counted ids recur in every response, so the content distinguishes the call."""
    (drawn,) = read(assistant(tool_calls=[call()]))
    (counted,) = read(assistant(tool_calls=[call(id="functions.add:0")]))

    assert drawn.trace != drawn.content[:8]
    assert counted.trace == counted.content[:8]
    assert counted.trace == counted.trace


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"content": "22 °C"}, {"content": [{"type": "text", "text": "22  °C"}]}, True),
        ({"content": "22", "tool_call_id": "a"}, {"content": "22", "tool_call_id": "b"}, True),
        ({"content": "22"}, {"content": "23"}, False),
    ],
)
def test_an_output_is_a_link_by_its_text(one: Any, other: Any, is_same: bool) -> None:
    """The id does not count, because some clients renumber their calls."""
    (first,), (second,) = (read({"role": "tool", **given}) for given in (one, other))
    (user,) = read({"role": "user", **one})

    assert (first.said == second.said) is is_same
    assert first.said == first.said != user.said


def test_an_image_is_part_of_what_a_user_says() -> None:
    """Messages with other images are other links."""
    links = {
        read({"role": "user", "content": [{"type": "image_url", "image_url": url}]})[0].said
        for url in ("a", "b")
    }
    assert len(links) == 2


def test_characters_count_content_without_syntax() -> None:
    """Short content recurs by chance, so its length is evidence."""
    text, made = read(assistant("Sunny.", tool_calls=[call('{"a":1}')]))
    (user,) = read({"role": "user", "content": "Weather?"})

    assert (text.chars, made.chars, user.chars, user.chars) == (6, 2, 8, 8)
    assert text.is_anchor
    assert not user.is_anchor


@pytest.mark.parametrize(
    ("message", "count"),
    [
        (assistant("Hi"), 0),
        (assistant("Hi", reasoning_content="Hm"), 1),
        (assistant("Hi", reasoning_content=""), 0),
        (assistant("Hi", reasoning_content=None, reasoning="", reasoning_details=[]), 0),
        (assistant("Hi", reasoning_effort="low"), 0),
        (assistant("<think>Hm</think>Hi"), 1),
        (assistant([{"type": "thinking"}, {"type": "text", "text": "Hi"}]), 1),
        (assistant("thinking"), 0),
        (assistant([{"type": "text", "text": "thinking"}]), 0),
        (assistant(tool_calls=[call(), call(extra_content={"google": {}})]), 1),
        (assistant(tool_calls=[call(thought_signature="Eg==")], reasoning="Hm"), 2),
        (b'{"role":"assistant","content":"Hi","r\\u0065asoning":"Hm"}', 1),
        (b'{"role":"assistant","content":"Hi","reasoning":"a","reasoning":"b"}', 0),
        (b'{"role":"assistant","content":"Hi","tool_calls":null,"reasoning":"b"}', 1),
        (b'{"role":"assistant","content":"Hi","tool_calls":{},"reasoning":"b"}', 0),
    ],
)
def test_reasoning_that_the_client_sends_is_counted(message: Any, count: int) -> None:
    """An empty value says nothing, like null."""
    message_of = read(message)[0].message

    assert message_of.replayed == message_of.replayed == count


def test_places_in_a_message_are_byte_offsets() -> None:
    """Edits need the members of the message and of each call."""
    raw = b' {"role":"assistant", "tool_calls" : [ {"id":"a"} , {"id": "b"}]}'
    message = read(raw)[0].message

    assert raw[slice(*message.calls[1])] == b'{"id": "b"}'
    member = message.members_of_call(1)["id"]
    assert raw[member.start : member.end] == b'"b"'
    plain = read(assistant("Hi"))[0].message
    assert plain.calls == []
    assert [*plain.members] == ["role", "content"]
    with pytest.raises(Unspliceable):
        _ = message_of(b'{"role":"assistant","content":"a","content":"a"}').members


def message_of(raw: bytes) -> Any:
    """Return the message of a raw one."""
    return read(raw)[0].message


@given(st.binary(max_size=40) | st.text(max_size=30).map(str.encode))
def test_any_bytes_are_read(raw: bytes) -> None:
    """An unreadable message is one item of the client's side."""
    for item in read(raw):
        assert item.said
        assert item.content
        assert item.chars >= 0
