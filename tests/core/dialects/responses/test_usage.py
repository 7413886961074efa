"""Usage of a response: the token counts that upstream reports; impossible counts are ignored."""

from typing import Any

import pytest
from hypothesis import given
from reasoning_replay.core.dialects.captures import TOKENS_MAX, Origin, Usage, read_usage
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.turns import Context

from tests.core.documents import Written, values
from tests.core.streams import began, event, stream_of
from tests.core.world import answer, call, reasoning

ITEMS = [reasoning("1"), call("1")]
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


def capture() -> ResponsesCapture:
    """Return a capture that has read nothing yet."""
    return ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)


@pytest.mark.parametrize(("said", "want"), ODD)
def test_impossible_token_counts_are_ignored(said: object, want: Usage | None) -> None:
    """The other counts are still read, and so is the rest of the response."""
    streamed, plain = capture(), capture()
    streamed.feed(stream_of(ITEMS, usage=said))
    plain.read(answer(ITEMS, "resp_1", usage=said))
    assert (streamed.usage, plain.usage) == (want, want)
    assert plain.reasoning_items == streamed.reasoning_items
    turn = plain.snapshot(1).turn
    assert turn is not None
    assert plain.reasoning_bytes == sum(len(part.raw) for item in turn.items for part in item.run)


@pytest.mark.parametrize("more", [{"model": 5}, {"output": {}}])
def test_odd_members_elsewhere_do_not_affect_usage(more: dict[str, Any]) -> None:
    """The usage is read independently of the other members."""
    one = capture()
    one.read(answer(ITEMS, "resp_1", usage=SAID, **more))
    assert one.usage == READ


def test_usage_is_read_from_the_last_event() -> None:
    """Usage in an earlier event is not yet final."""
    one = capture()
    one.feed(began(usage=SAID))
    assert one.usage is None
    one.feed(event("response.incomplete", response={"id": "resp_1", "usage": SAID}))
    assert one.usage == READ


@given(said=values)
def test_reading_usage_never_raises(said: Written) -> None:
    """The result is None or has only possible counts."""
    usage = read_usage(said.text)
    odd = read_usage(b'{"input_tokens":' + said.text + b',"output_tokens":3}')
    assert usage is None or isinstance(usage, Usage)
    assert odd is not None
    assert odd.input_tokens is None or 0 <= odd.input_tokens <= TOKENS_MAX


def test_a_count_out_of_range_is_ignored() -> None:
    """No reader holds such a number; the other counts are still read."""
    assert read_usage(b'{"input_tokens":1e999,"output_tokens":5}') == Usage(output_tokens=5)
