"""Notes of a capture: what upstream reports about the reasoning that it received."""

import pytest
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.error_texts import NO_NAMES, ErrorNames
from reasoning_replay.core.dialects.removals import REMOVALS
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.events import CONTEXTS
from reasoning_replay.core.history.turns import Context

from tests.core.streams import event, stream_of
from tests.core.world import Item, answer, call, reasoning

ITEMS = [reasoning("1"), call("1")]

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
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    if is_streamed:
        capture.feed(stream_of(ITEMS, **more))
    else:
        capture.read(answer(ITEMS, "resp_1", **more))

    assert capture.removed == removed
    assert capture.reasoning_context == context
    assert context in ("", *CONTEXTS)


def test_an_undecodable_context_is_not_noted() -> None:
    """A value with invalid UTF-8 gives no note, and the items are still captured."""
    whole = answer(ITEMS, "resp_1", reasoning={"context": "auto"}).replace(b"auto", b"\xff")
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(whole)

    assert capture.reasoning_context == ""
    assert capture.snapshot(1).turn is not None


def test_undecodable_removals_are_not_noted() -> None:
    """Invalid UTF-8 costs only the note, and the rest of the response is still captured."""
    marked = [{"reason": "mark"}]
    whole = answer(ITEMS, "resp_1", input_transformations=marked).replace(b"mark", b"\xff")
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(whole)

    assert capture.removed == {}
    assert capture.snapshot(1).turn is not None


@pytest.mark.parametrize("more", [{"model": 5}, {"status": ["completed"]}, {"store": "no"}])
def test_a_member_of_another_type_counts_as_absent(more: Item) -> None:
    """The rest of the response is captured."""
    plain, odd = (ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20) for _ in range(2))
    plain.read(answer(ITEMS, "resp_1", **dict.fromkeys(more)))
    odd.read(answer(ITEMS, "resp_1", **more))

    assert odd.snapshot(1) == plain.snapshot(1)


@pytest.mark.parametrize("model", ["gpt-5.6", 5])
@pytest.mark.parametrize("output", [None, "x", {}])
def test_an_output_that_is_not_a_list_is_empty(output: object, model: object) -> None:
    """No turn is stored."""
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(answer([], "resp_1", output=output, model=model))

    assert capture.dirty
    assert capture.snapshot(1).turn is None


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_failed_response_is_reported(status: str) -> None:
    """The capture reports failed and cancelled responses to its caller."""
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    capture.read(answer([], "resp_1", status=status))

    assert capture.has_failed


def test_the_error_of_a_failed_response_is_named() -> None:
    """It is in the response, or in an event of its own."""
    error = {"code": "rate_limit_exceeded", "message": "a secret"}
    plain = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    plain.read(answer([], "resp_1", status="failed", error=error))
    streamed = ResponsesCapture(Origin(Context(), "gpt-5.6"), 1 << 20)
    streamed.feed(event("error", **error))

    assert plain.error == streamed.error == ErrorNames("rate_limit_exceeded")
    assert ResponsesCapture(Origin(Context(), ""), 1).error == NO_NAMES
