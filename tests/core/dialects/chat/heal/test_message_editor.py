"""Message editor: it changes the named members of assistant messages, and no other byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.chat.heal.message_editor import (
    edited,
    filled,
    messages_of,
    without,
)
from reasoning_replay.core.dialects.chat.members import (
    CALL_MEMBERS,
    MESSAGE_MEMBERS,
    ChatMessage,
    Part,
)
from reasoning_replay.core.dialects.chat.request import read_request

from tests.core.dialects.chat.heal.requests import ASK, SIGNED, Json, body, call, message, read


def one(raw: str) -> ChatMessage:
    """Return the only message of a request that can be edited."""
    request = read_request(b'{"messages":[' + raw.encode() + b"]}", {})
    (found,) = messages_of(request).values()
    return found


def test_only_assistant_messages_that_can_be_edited_are_found() -> None:
    """Messages of other roles, and those that parsers could read differently, are left out."""
    request = read_request(
        b'{"messages":[{"role":"user"},{"role":"assistant","content":"a"},{"content":"b"},'
        b'{"role":"assistant","role":"user"},{"role":"assistant","tool_calls":7},7,'
        b'{"role":"assistant","tool_calls":[{"id":"x","id":"y"}]},'
        b'{"role":"assistant","tool_calls":null},{"role":1}]}',
        {},
    )
    assert set(messages_of(request)) == {1, 7}
    assert messages_of(read_request(b'{"messages":"none"}', {})) == {}
    assert messages_of(read_request(b"{}", {})) == {}


def test_parts_are_members_that_have_a_value() -> None:
    """An empty text is a value; null is none."""
    found = one(
        '{"role":"assistant","reasoning_content":"","reasoning":null,"x":"y","tool_calls":['
        '{"id":"c"},{"extra_content":{ "a":1},"thought_signature":null}]}'
    )
    assert found.parts == [
        Part(None, "reasoning_content", b'""'),
        Part(1, "extra_content", b'{ "a":1}'),
    ]


# (as sent, as the client gave it, what is left without any part)
TAKEN_OUT = [
    (
        '{"reasoning_content":"a","role":"assistant","content":"b"}',
        '{"role":"assistant","content":"b"}',
    ),
    (
        '{"role":"assistant", "reasoning" : "a","reasoning_details":[1] ,"content":"b"}',
        '{"role":"assistant", "content":"b"}',
    ),
    (
        '{"role":"assistant","reasoning_content":"a" ,"content":"b"}',
        '{"role":"assistant","reasoning_content":null ,"content":"b"}',
    ),
    (
        '{"role":"assistant","tool_calls":[{"extra_content":{"a":1},"id":"c"} , {"id":"d"}]}',
        '{"role":"assistant","tool_calls":[{"id":"c"} , {"id":"d"}]}',
    ),
    (
        '{"reasoning":"x","role":"assistant","tool_calls":[{"id":"c","thought_signature":"s"}]}',
        '{"role":"assistant","tool_calls":[{"id":"c"}]}',
    ),
]


@pytest.mark.parametrize(("sent", "before"), TAKEN_OUT)
def test_without_its_parts_a_message_is_as_the_client_sent_it(sent: str, before: str) -> None:
    """What was injected is removed, and a null in its place is restored."""
    assert without(one(sent), one(before), lambda _: True).decode() == before


def test_a_value_of_the_client_that_is_not_refused_is_restored() -> None:
    """It was replaced by the refused one. If it is refused as well, the member is removed."""
    sent = one('{"role":"assistant","reasoning":"a","tool_calls":[{"thought_signature":"b"}]}')
    given = one('{"role":"assistant","reasoning":"","tool_calls":[{"thought_signature":"c"}]}')

    assert without(sent, given, lambda part: part.value in {b'"a"', b'"b"'}) == given.raw
    left = without(sent, given, lambda part: part.name == "reasoning")
    assert left == b'{"role":"assistant","tool_calls":[{"thought_signature":"b"}]}'


def test_a_part_that_is_not_refused_stays() -> None:
    """Each part is decided on its own."""
    both = one('{"reasoning":"a","reasoning_content":"b","role":"assistant"}')
    left = without(both, both, lambda part: part.name == "reasoning")
    assert left == b'{"reasoning_content":"b","role":"assistant"}'
    assert without(both, both, lambda _: False) is both.raw


@pytest.mark.parametrize(
    ("raw", "name", "filling"),
    [
        (
            '{"role":"assistant"}',
            "reasoning_content",
            '{"reasoning_content":"-","role":"assistant"}',
        ),
        (
            '{ "role":"assistant","reasoning_content": null}',
            "reasoning_content",
            '{ "role":"assistant","reasoning_content": "-"}',
        ),
        (
            '{"role":"assistant","tool_calls":[{},{"id":"d"}]}',
            "extra_content",
            '{"role":"assistant","tool_calls":[{"extra_content":"-"},{"id":"d"}]}',
        ),
    ],
)
def test_a_filler_is_one_member_more(raw: str, name: str, filling: str) -> None:
    """It is written to the message or to its first call, and takes the place of a null."""
    assert filled(one(raw), name, b'"-"').decode() == filling


def test_a_body_changes_only_where_a_message_does() -> None:
    """Without another message, the body is the same object."""
    request = read(ASK, message(call(1)), ASK, message(content="b"))
    messages = messages_of(request)
    assert edited(request, {}) is request.body
    assert edited(request, {1: messages[1].raw}) is request.body
    changed = edited(request, {3: b'{"role":"assistant"}'})
    assert changed == request.body.replace(messages[3].raw, b'{"role":"assistant"}')


members: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.sampled_from(MESSAGE_MEMBERS), st.sampled_from(["", "a", None, [], SIGNED]), max_size=4
)
of_calls: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.sampled_from(CALL_MEMBERS), st.sampled_from(["a", None, SIGNED])
)
messages = st.builds(
    lambda more, calls: message(*[call(n, **extra) for n, extra in enumerate(calls)], **more),
    members,
    st.lists(of_calls, max_size=3),
)


@given(st.lists(messages | st.just(ASK), max_size=4))
def test_without_all_parts_nothing_but_reasoning_is_gone(history: list[Json]) -> None:
    """Whatever the messages hold, all that is not reasoning stays, in its order."""
    request = read_request(body(*history), {})
    found = messages_of(request)
    bare = edited(request, {n: without(m, m, lambda _: True) for n, m in found.items()})
    assert all(not m.parts for m in messages_of(read_request(bare, {})).values())

    def plain(one: Json, names: tuple[str, ...]) -> Json:
        return {key: value for key, value in one.items() if key not in names}

    for before, after in zip(history, json.loads(bare)["messages"], strict=True):
        want, got = plain(before, MESSAGE_MEMBERS), plain(after, MESSAGE_MEMBERS)
        calls = [plain(one, CALL_MEMBERS) for one in want.pop("tool_calls", ())]
        assert [plain(one, CALL_MEMBERS) for one in got.pop("tool_calls", ())] == calls
        assert got == want
