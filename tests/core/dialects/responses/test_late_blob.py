"""Reasoning whose blob comes only with the end of the response."""

import pytest
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.turns import Context, Reasoning

from tests.core.streams import began, done, ended
from tests.core.world import Item, call, reasoning

UNSTORED = Origin(Context(b"c" * 16, is_known=True), "gpt-5.6")
R1, C1 = reasoning("1"), call("1")
BARE: Item = {name: R1[name] for name in R1 if name != "encrypted_content"}
OPEN = BARE | {"content": [{"type": "reasoning_text", "text": "It may rain."}]}


def run_after(chunks: list[bytes], max_bytes: int = 1 << 20) -> tuple[Reasoning, ...]:
    """Return the reasoning that is captured of the call; a snapshot after each event."""
    capture = ResponsesCapture(UNSTORED, max_bytes)
    runs: list[tuple[Reasoning, ...]] = []
    for chunk in chunks:
        capture.feed(chunk)
        turn = capture.snapshot(5).turn
        runs += [item.run for item in turn.items] if turn is not None else []
    capture.close()
    turn = capture.snapshot(5).turn
    runs += [item.run for item in turn.items] if turn is not None else []
    assert len(runs) == 1
    return runs[0]


@pytest.mark.parametrize(
    ("last", "has_blob"),
    [
        pytest.param([R1, C1], True, id="blob-at-the-end"),
        pytest.param([BARE, C1], False, id="no-blob-at-all"),
        pytest.param([reasoning("2"), C1], False, id="blob-of-another"),
        pytest.param(None, False, id="no-output"),
    ],
)
def test_the_blob_of_the_end_completes_reasoning(
    last: list[Item] | None, *, has_blob: bool
) -> None:
    """Its own event stays the authority, except for the blob that it does not have."""
    (got,) = run_after([began(store=False), done(0, BARE), done(1, C1), ended(last)])

    assert (got.id, got.has_blob) == (R1["id"], has_blob)
    assert (b"gAAAA1" in got.raw) is has_blob


def test_a_blob_of_its_own_event_stays() -> None:
    """A later blob only identifies the item."""
    end = ended([R1 | {"encrypted_content": "gAAAAlast"}, C1])
    (got,) = run_after([began(store=False), done(0, R1), done(1, C1), end])

    assert b"gAAAA1" in got.raw


def test_an_end_that_is_too_large_gives_up() -> None:
    """The blob counts as the rest of the response does."""
    capture = ResponsesCapture(UNSTORED, 3_000)
    large = R1 | {"encrypted_content": "gAAAA" * 500}
    for chunk in (began(store=False), done(0, BARE), done(1, C1), ended([large, C1])):
        capture.feed(chunk)
    capture.close()

    assert capture.gave_up


@pytest.mark.parametrize(
    ("first", "item"),
    [
        pytest.param(began(store=True), BARE, id="stored"),
        pytest.param(began(store=False), OPEN, id="plain-text"),
        pytest.param(began(store=False), R1, id="with-its-blob"),
    ],
)
def test_only_what_may_be_completed_waits_for_the_end(first: bytes, item: Item) -> None:
    """Other items are saved at once: the client may go on before the end."""
    capture = ResponsesCapture(UNSTORED, 1 << 20)
    for chunk in (first, done(0, item), done(1, C1)):
        capture.feed(chunk)
    turn = capture.snapshot(5).turn

    assert turn is not None
    assert [each.id for each in turn.items] == [C1["id"]]


def test_a_response_that_breaks_off_keeps_what_it_has() -> None:
    """Without an end there is no later blob to wait for."""
    (got,) = run_after([began(store=False), done(0, BARE), done(1, C1)])

    assert not got.has_blob
