"""Capture: a response becomes a turn, the same from a stream in any pieces and from JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.anthropic.capture import is_at_end, place_of
from reasoning_replay.core.dialects.anthropic.items import read_block
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Turn

from tests.core.dialects.anthropic.streams import (
    MODEL,
    REDACTED,
    THOUGHT,
    Block,
    answer,
    call,
    capture,
    ended,
    event,
    pieces_of,
    started,
    stream,
    text,
    thought,
    turn_of,
    whole_turn_of,
)
from tests.core.streams import heard
from tests.fast_lane import examples

BLANK = text("\n\n")
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "x"}]}


def shape(turn: Turn) -> list[tuple[str, list[Any], bool]]:
    """Return the type of each item, the reasoning before it, and whether it is withheld."""
    return [
        (item.type, [json.loads(part.raw) for part in item.run], item.withheld)
        for item in turn.items
    ]


@pytest.mark.parametrize("form", [answer, stream])
def test_reasoning_belongs_to_the_block_that_it_led_to(form: Any) -> None:
    """Each run comes before the next block that is not reasoning; blank text is no block."""
    blocks = [THOUGHT, REDACTED, BLANK, text("Hm"), call("a", x=1), thought("", "Eh=="), call("b")]
    turn = whole_turn_of(form(*blocks, reason="tool_use"))

    assert shape(turn) == [
        ("message", [THOUGHT, REDACTED], False),
        ("tool_use", [], False),
        ("tool_use", [thought("", "Eh==")], False),
    ]
    parts = [part for item in turn.items for part in item.run]
    assert [part.id for part in parts] == ["thinking.0", "redacted_thinking.0", "thinking.3"]
    assert [place_of(part) for part in parts] == [0, 0, 3]
    assert all(part.has_blob and len(part.blobs) == 1 for part in parts)
    assert [(i.call_id, i.name) for i in turn.items[1:]] == [("toolu_a", "a"), ("toolu_b", "b")]
    assert (turn.models, turn.is_stored, turn.created_ms) == ((MODEL,), False, 1)
    assert turn.conversation == turn.id


def test_the_bytes_of_a_json_response_are_kept() -> None:
    """Spacing, escapes, unknown members and their order stay as upstream wrote them."""
    block = b'{ "signature":"Eg==" , "thinking":"\\u00e9\\/" ,"new":1.0e1,"type":"thinking"}'
    body = b'{"content":[%b,{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}' % block
    (item,) = whole_turn_of(body).items
    assert [part.raw for part in item.run] == [block]


def test_hosted_tools_and_their_results_are_items() -> None:
    """The model emitted both, with one id."""
    search = call("web_search", "srvtoolu_1", "server_tool_use", query="x")
    turn = whole_turn_of(stream(THOUGHT, search, RESULT, text("Found.")))
    kinds = ["server_tool_use", "web_search_tool_result", "message"]
    assert [item.type for item in turn.items] == kinds
    assert [item.call_id for item in turn.items] == ["srvtoolu_1", "srvtoolu_1", ""]


def test_a_turn_without_reasoning_is_known() -> None:
    """It is a turn with nothing to inject, and not a miss."""
    assert shape(whole_turn_of(stream(text("Hi")))) == [("message", [], False)]
    assert turn_of(stream(BLANK)) is None
    assert turn_of(stream()) is None


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_the_reasoning_of_an_incomplete_response_is_withheld(reason: str) -> None:
    """All of it, also that before complete blocks."""
    turn = whole_turn_of(stream(THOUGHT, text("Hm"), call("a"), reason=reason))
    assert shape(turn) == [("message", [], True), ("tool_use", [], False)]


@pytest.mark.parametrize(
    "blocks",
    [
        [b'{"type":"thinking","thinking":"a","thinking":"b"}', text("Hm")],
        [b'{"type":"thinking","thinking":"\\ud83d","signature":"Eg=="}', text("Hm")],
        [b'{"type":"thinking","thinking":5,"signature":"Eg=="}', text("Hm")],
        [b'{"type":"thinking","thinking":"\xff","signature":"Eg=="}', text("Hm")],
    ],
)
def test_a_message_gets_all_its_reasoning_or_none(blocks: list[Any]) -> None:
    """A block that cannot be injected withholds the others as well."""
    raw = [b if isinstance(b, bytes) else json.dumps(b).encode() for b in blocks]
    body = b'{"content":[%b],"stop_reason":"end_turn"}' % b",".join(raw)
    assert shape(whole_turn_of(body)) == [("message", [], True)]


@pytest.mark.parametrize(
    "said", [thought("", ""), thought("", None), {"type": "redacted_thinking"}]
)
def test_reasoning_that_says_nothing_is_absent(said: Block) -> None:
    """It has neither text nor a signature."""
    assert shape(whole_turn_of(answer(said, text("Hm")))) == [("message", [], False)]


def test_unsigned_reasoning_is_captured() -> None:
    """Some upstreams do not sign; the profile decides whether it may be sent."""
    (item,) = whole_turn_of(stream(thought("Hm", None), text("Hi"))).items
    (part,) = item.run
    assert not part.has_blob
    assert part.blobs == (read_block(part.raw).blob,)


def test_a_response_of_two_models_gives_nothing() -> None:
    """After a fallback, each block before it is of another model than those after it."""
    moved = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    turn = whole_turn_of(stream(THOUGHT, text("Hm"), moved, thought("", "El=="), text("Hi")))
    assert shape(turn) == [("message", [], True), ("fallback", [], False), ("message", [], True)]


def test_a_lone_surrogate_outside_of_reasoning() -> None:
    """The block is known by what can be read of it."""
    body = b'{"content":[{"type":"text","text":"a \\ud83d"}],"stop_reason":"end_turn"}'
    assert shape(whole_turn_of(body)) == [("message", [], False)]


def test_a_turn_is_complete_at_its_reason_to_stop() -> None:
    """It is to be saved before the client gets that chunk; later events add only to the usage."""
    captured = capture(seen=Seen(b"", 0, ()), binding=b"p" * 16)
    captured.feed(started() + pieces_of(0, THOUGHT) + pieces_of(1, text("Hi")))
    before = captured.dirty, captured.snapshot(1).turn
    captured.feed(ended(stops=False, usage={"output_tokens": 8}))
    assert (before, captured.dirty) == ((False, None), True)

    snapshot = captured.snapshot(5)
    captured.feed(event("message_stop"))
    captured.feed(stream(text("more")))
    removed = [{"reason": "turn_boundary"}]
    captured.feed(ended(None, usage={"output_tokens": 9}, input_transformations=removed))
    captured.close()

    assert snapshot.status == "end_turn"
    assert not captured.dirty
    assert captured.snapshot(9).part is None
    assert captured.removed == {"turn_boundary": 1}
    assert (captured.reasoning_items, captured.reasoning_bytes) == (1, len(json.dumps(THOUGHT)) - 5)
    assert captured.usage == Usage(10, 3, 9)
    assert (captured.response_id, captured.model, captured.has_failed) == ("msg_1", MODEL, False)
    turn = snapshot.turn
    assert turn is not None
    assert (turn.created_ms, turn.seen, turn.binding) == (5, Seen(b"", 0, ()), b"p" * 16)


def test_a_stream_without_its_last_event() -> None:
    """The reason to stop is enough, once the stream is over."""
    made = started() + pieces_of(0, text("Hi"))
    assert turn_of(made) is None
    assert turn_of(made + ended(None, stops=False)) is None
    assert shape(whole_turn_of(made + ended(stops=False))) == [("message", [], False)]
    cut = (made + ended()).rstrip(b"\n")
    assert turn_of(cut) == turn_of(made + ended())
    without_reason = whole_turn_of(made + event("message_stop"))
    assert shape(without_reason) == [("message", [], False)]


@pytest.mark.parametrize(
    "failed",
    [
        started()
        + pieces_of(0, text("Hi"))
        + event("error", error={"type": "overloaded_error"})
        + ended(),
        b'{"type":"error","error":{"type":"overloaded_error"}}',
    ],
)
def test_a_failed_response_is_not_stored(failed: bytes) -> None:
    """Whatever came before the error."""
    captured = heard(capture(), failed)
    assert captured.has_failed
    assert captured.error.type == "overloaded_error"
    assert captured.snapshot(1).turn is None


@pytest.mark.parametrize("body", [b"", b"[]", b'{"content":5}', b"{}", b'{"content":null}'])
def test_a_response_without_content(body: bytes) -> None:
    """There is nothing to store."""
    assert turn_of(body) is None


def test_odd_events_change_nothing() -> None:
    """Comments, other data, unknown events and deltas are ignored."""
    odd = [
        b": comment\n\n",
        b"data: [DONE]\n\n",
        event("message_start", message=5),
        event("message_delta", delta=5),
        event("content_block_delta", index=7, delta={"text": "x"}),
        event("something_new", index=0),
        b'data: {"type":5}\n\n',
    ]
    whole = [started(), pieces_of(0, THOUGHT), pieces_of(1, text("Hi")), ended()]
    pieces = [whole[0], *odd, *whole[1:3], *odd[:1], whole[3]]
    assert turn_of(pieces) == turn_of(whole)


def test_removals_are_counted() -> None:
    """The end of a stream wins over its start."""
    said = [{"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}]
    more = [*said, {"reason": "model_binding_mismatch"}, {"reason": "new"}]
    captured = capture()
    captured.feed(started(input_transformations=said))
    captured.feed(ended(input_transformations=more))
    assert captured.removed == {"prefix_mismatch": 1, "model_mismatch": 1, "other": 1}
    whole = capture()
    whole.read(answer(text("Hi"), input_transformations=said))
    assert whole.removed == {"prefix_mismatch": 1}
    whole.read(answer(text("Hi"), input_transformations=5))
    assert whole.removed == {"prefix_mismatch": 1}


def test_the_models_are_known_as_they_are_named() -> None:
    """No date and no alias is removed: an alias may lead to a newer model tomorrow."""
    turn = whole_turn_of(answer(text("Hi"), model="claude-sonnet-4-6-20260101"))
    assert turn.models == (MODEL, "claude-sonnet-4-6-20260101")
    assert whole_turn_of(answer(text("Hi"), model=None)).models == (MODEL,)


LATE = thought("late", "El==")


@pytest.mark.parametrize("blocks", [[call("a")], [text("Hm")], [text("Hm"), call("a")]])
def test_reasoning_at_the_end_is_kept_with_the_last_item(blocks: list[Block]) -> None:
    """It led to nothing, but the API wants all of a message or none; alone it cannot come back."""
    both, alone = (whole_turn_of(answer(THOUGHT, *blocks, *end)) for end in ([LATE], []))
    before, (kind, run, _) = shape(alone)[:-1], shape(alone)[-1]
    assert shape(both) == [*before, (kind, [*run, LATE], False)]
    assert [is_at_end(part) for part in both.items[-1].run] == [False] * len(run) + [True]
    cut = whole_turn_of(answer(*blocks, LATE, reason="max_tokens"))
    assert shape(cut) == shape(whole_turn_of(answer(*blocks)))


def test_the_binding_names_the_blocks_before_the_last_run() -> None:
    """A run in the first place is bound to the prefix alone; without a prefix, nothing is bound."""
    prefix = b"p" * 16
    first = whole_turn_of(answer(THOUGHT, text("Hm"), call("a")), binding=prefix)
    ended = [
        whole_turn_of(answer(THOUGHT, call(name), LATE), binding=prefix).binding for name in "ab"
    ]
    inner = [
        whole_turn_of(answer(THOUGHT, text(words), REDACTED, call("a")), binding=prefix)
        for words in ("Hm", "Hm ")
    ]
    assert first.binding == prefix
    assert ended[0] != ended[1]
    assert [turn.binding[:16] for turn in inner] == [prefix] * 2
    assert inner[0].binding != inner[1].binding
    assert whole_turn_of(answer(THOUGHT, text("Hm"), REDACTED, call("a"))).binding == b""


WORDS = st.text(max_size=8) | st.sampled_from(["message_stop", '"error"', "\n\n", "data: "])
BLOCKS = st.lists(
    st.one_of(
        st.builds(thought, WORDS, st.sampled_from(["Eg==", "", None])),
        st.just(REDACTED),
        st.builds(text, WORDS),
        st.builds(call, st.sampled_from("ab"), x=WORDS),
        st.just(RESULT),
    ),
    max_size=5,
)


@examples(100)
@given(BLOCKS)
def test_both_forms_of_a_response_give_the_same_items(blocks: list[Block]) -> None:
    """A stream and a JSON response differ in spelling alone."""
    # The API sends a signature member even if it is empty.
    blocks = [b | {"signature": b.get("signature") or ""} if "thinking" in b else b for b in blocks]
    one, other = turn_of(stream(*blocks)), turn_of(answer(*blocks))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert shape(one) == shape(other)
        assert [item.content for item in one.items] == [item.content for item in other.items]
