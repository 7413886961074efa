"""Notes of a capture: what upstream reports about reasoning and tokens; odd values cost no item."""

import pytest
from hypothesis import given
from reasoning_replay.core.dialects.cache_diagnoses import CacheDiagnosis
from reasoning_replay.core.dialects.captures import REMOVALS, Origin
from reasoning_replay.core.dialects.error_texts import NO_NAMES, ErrorNames
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.events import CONTEXTS
from reasoning_replay.core.dialects.usages import TOKENS_MAX, Usage, UsageReader
from reasoning_replay.core.history.turns import Context

from tests.core.documents import Written, values
from tests.core.streams import began, event, stream_of
from tests.core.world import Item, answer, call, reasoning

ITEMS = [reasoning("1"), call("1")]

READER = UsageReader("input_tokens", "output_tokens")


def captured() -> ResponsesCapture:
    """Return a capture that has read nothing yet."""
    return ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)


# (members of a response, removals that upstream reports, amount of reasoning that it used)
NOTES: list[tuple[Item, dict[str, int], str]] = [
    ({}, {}, ""),
    ({"input_transformations": [], "reasoning": {"context": "auto"}}, {}, "auto"),
    ({"input_transformations": [{"reason": r} for r in REMOVALS]}, dict.fromkeys(REMOVALS, 1), ""),
    ({"input_transformations": [{"reason": "new"}, {"action": "removed"}]}, {"other": 2}, ""),
    ({"input_transformations": [{"reason": ["new"]}]}, {"other": 1}, ""),
    ({"input_transformations": ["x", None], "reasoning": "x"}, {}, ""),
    ({"input_transformations": {"reason": "x"}, "reasoning": {"context": 1}}, {}, ""),
    ({"reasoning": {"effort": "low", "context": "of_the_future"}}, {}, "other"),
]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("more", "removed", "context"), NOTES)
def test_removed_reasoning_is_noted(
    more: Item, removed: dict[str, int], context: str, is_streamed: bool
) -> None:
    """The notes use words from a fixed list, so that they can be metric labels."""
    capture = captured()
    if is_streamed:
        capture.feed(stream_of(ITEMS, **more))
    else:
        capture.read(answer(ITEMS, "resp_1", **more))

    assert capture.removed == removed
    assert capture.reasoning_context == context
    assert context in ("", *CONTEXTS)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_missed_the_cache_is_noted(is_streamed: bool) -> None:
    """As upstream tells, once it was asked."""
    capture, more = captured(), {"prompt_cache_diagnostics": {"type": "cache_hit"}}
    if is_streamed:
        capture.feed(stream_of(ITEMS, **more))
    else:
        capture.read(answer(ITEMS, "resp_1", **more))
    assert capture.cache_diagnosis == CacheDiagnosis("hit")


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("more", "is_unknown"),
    [
        ({"type": "compaction", "encrypted_content": "gAAAA"}, False),
        ({"type": "agent_message", "encrypted_content": "gAAAA"}, False),
        ({"type": "memory", "encrypted_content": None}, False),
        ({"type": "memory", "content": '"encrypted_content":"gAAAA"'}, False),
        ({"type": "memory", "encrypted_content": "gAAAA"}, True),
    ],
)
def test_encrypted_content_of_an_unknown_item_is_noted(
    more: Item, is_unknown: bool, is_streamed: bool
) -> None:
    """A vendor may carry reasoning there from now on."""
    capture, items = captured(), [*ITEMS, {"id": "new_1", **more}, call("2")]
    if is_streamed:
        capture.feed(stream_of(items))
    else:
        capture.read(answer(items, "resp_1"))
    capture.catch_up()
    assert capture.has_unknown_carrier is is_unknown


@pytest.mark.parametrize("more", [{"model": 5}, {"status": ["completed"]}, {"store": "no"}])
def test_a_member_of_another_type_counts_as_absent(more: Item) -> None:
    """The rest of the response is captured."""
    plain, odd = captured(), captured()
    plain.read(answer(ITEMS, "resp_1", **dict.fromkeys(more)))
    odd.read(answer(ITEMS, "resp_1", **more))

    assert odd.snapshot(1) == plain.snapshot(1)


@pytest.mark.parametrize(
    "notes", [{"reasoning": {"context": "mark"}}, {"input_transformations": [{"reason": "mark"}]}]
)
def test_notes_that_cannot_be_decoded_are_none(notes: Item) -> None:
    """Invalid UTF-8 costs only the note: the items are still captured."""
    capture = captured()
    capture.read(answer(ITEMS, "resp_1", **notes).replace(b"mark", b"\xff"))

    assert (capture.reasoning_context, capture.removed) == ("", {})
    assert capture.snapshot(1).turn is not None


@pytest.mark.parametrize("output", [None, "x", {}])
def test_an_output_that_is_not_a_list_is_empty(output: object) -> None:
    """No turn is stored."""
    capture = captured()
    capture.read(answer([], "resp_1", output=output, model=5))

    assert capture.dirty
    assert capture.snapshot(1).turn is None


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_the_error_of_a_failed_response_is_named(status: str) -> None:
    """It is in the response, or in an event of its own."""
    error = {"code": "rate_limit_exceeded", "message": "a secret"}
    plain, streamed = captured(), captured()
    assert plain.error == NO_NAMES
    plain.read(answer([], "resp_1", status=status, error=error))
    streamed.feed(event("error", **error))

    assert plain.has_failed
    assert streamed.has_failed
    assert plain.error == streamed.error == ErrorNames("rate_limit_exceeded")


SAID = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 768},
    "output_tokens": 120,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 1020,
}
READ = Usage(900, 768, 120, 64)

# (reported usage, usage that is read)
ODD: list[tuple[object, Usage | None]] = [
    (SAID, READ),
    (None, None),
    ("many", None),
    ([SAID], None),
    ({}, None),
    ({"total_tokens": 3}, None),
    ({"input_tokens": 5}, Usage(input_tokens=5)),
    ({"input_tokens": 0, "output_tokens": 0}, Usage(input_tokens=0, output_tokens=0)),
    (SAID | {"input_tokens": -1}, Usage(output_tokens=120, reasoning_tokens=64)),
    (SAID | {"input_tokens": TOKENS_MAX + 1}, Usage(output_tokens=120, reasoning_tokens=64)),
    (SAID | {"output_tokens": 10**400}, Usage(900, 768)),
    (SAID | {"output_tokens": True}, Usage(900, 768)),
    (SAID | {"output_tokens": 1.5}, Usage(900, 768)),
    (SAID | {"output_tokens": "120"}, Usage(900, 768)),
    (SAID | {"output_tokens_details": None}, Usage(900, 768, 120)),
    (SAID | {"output_tokens_details": [64]}, Usage(900, 768, 120)),
    (SAID | {"output_tokens_details": {"reasoning_tokens": 121}}, Usage(900, 768, 120)),
    (SAID | {"input_tokens_details": {"cached_tokens": -768}}, Usage(900, None, 120, 64)),
]


@pytest.mark.parametrize(("said", "want"), ODD)
def test_impossible_token_counts_are_ignored(said: object, want: Usage | None) -> None:
    """The other counts are still read, and so is the rest of the response."""
    streamed, plain = captured(), captured()
    streamed.feed(stream_of(ITEMS, usage=said))
    plain.read(answer(ITEMS, "resp_1", usage=said))
    assert (streamed.usage, plain.usage) == (want, want)
    assert plain.reasoning_items == streamed.reasoning_items
    turn = plain.snapshot(1).turn
    assert turn is not None
    assert plain.reasoning_bytes == sum(len(part.raw) for item in turn.items for part in item.run)


def test_usage_is_read_from_the_last_event() -> None:
    """Usage in an earlier event is not yet final."""
    one = captured()
    one.feed(began(usage=SAID))
    assert one.usage is None
    one.feed(event("response.incomplete", response={"id": "resp_1", "usage": SAID}))
    assert one.usage == READ


@given(said=values)
def test_reading_usage_never_raises(said: Written) -> None:
    """The result is None or has only possible counts."""
    usage = READER.read(said.text)
    odd = READER.read(b'{"input_tokens":' + said.text + b',"output_tokens":3}')
    assert usage is None or isinstance(usage, Usage)
    assert odd is not None
    assert odd.input_tokens is None or 0 <= odd.input_tokens <= TOKENS_MAX


def test_a_count_out_of_range_is_ignored() -> None:
    """No reader holds such a number; the other counts are still read."""
    assert READER.read(b'{"input_tokens":1e999,"output_tokens":5}') == Usage(output_tokens=5)
