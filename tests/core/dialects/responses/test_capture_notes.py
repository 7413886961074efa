"""What upstream says it did to the reasoning that it was given."""

import pytest
from reasoning_replay.core.dialects.base import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.history.turns import Context

from tests.core.streams import stream_of
from tests.core.world import Item, answer, call, reasoning

ITEMS = [reasoning("1"), call("1")]

# (members of a response, what upstream says it removed, how much reasoning it went by)
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
def test_what_upstream_did_to_reasoning_is_noted(
    more: Item, removed: dict[str, int], context: str, is_streamed: bool
) -> None:
    """In words of a fixed list, so that they can label a metric."""
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    if is_streamed:
        capture.feed(stream_of(ITEMS, **more))
    else:
        capture.read(answer(ITEMS, "resp_1", **more))

    assert capture.removed == removed
    assert capture.reasoning_context == context
    assert context in ("", *CONTEXTS)


def test_what_cannot_be_decoded_is_not_noted() -> None:
    """A value may be skipped by a reader and be no text all the same; its items are learned."""
    whole = answer(ITEMS, "resp_1", reasoning={"context": "auto"}).replace(b"auto", b"\xff")
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(whole)

    assert capture.reasoning_context == ""
    assert capture.snapshot(1).turn is not None


def test_removals_that_cannot_be_decoded_are_none() -> None:
    """What is no text costs the note, and the rest of the answer is read all the same."""
    marked = [{"reason": "mark"}]
    whole = answer(ITEMS, "resp_1", input_transformations=marked).replace(b"mark", b"\xff")
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(whole)

    assert capture.removed == {}
    assert capture.snapshot(1).turn is not None


@pytest.mark.parametrize("more", [{"model": 5}, {"status": ["completed"]}, {"store": "no"}])
def test_a_member_of_another_type_counts_as_absent(more: Item) -> None:
    """Nothing else of the answer is lost by it."""
    plain, odd = (ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20) for _ in range(2))
    plain.read(answer(ITEMS, "resp_1", **dict.fromkeys(more)))
    odd.read(answer(ITEMS, "resp_1", **more))

    assert odd.snapshot(1) == plain.snapshot(1)


@pytest.mark.parametrize("model", ["gpt-5.6", 5])
@pytest.mark.parametrize("output", [None, "x", {}])
def test_an_output_that_is_no_list_holds_nothing(output: object, model: object) -> None:
    """Whatever it is: there is no turn to keep."""
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(answer([], "resp_1", output=output, model=model))

    assert capture.dirty
    assert capture.snapshot(1).turn is None


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_answer_that_is_none_says_so(status: str) -> None:
    """Whoever asks for it is told."""
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(answer([], "resp_1", status=status))

    assert capture.has_failed
