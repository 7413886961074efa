"""Responses as a whole: the echoed members, the items, and the recorded turn."""

import pytest

from tests.standin.answering import End, View, estimate_tokens
from tests.standin.shapes import Reasoning
from tests.standin.variants import Variant
from tests.standin.world import ASK, MODEL, NOW_S, World


def test_an_answer_names_the_dated_model() -> None:
    """The response names the model with its date, even if the request left the date out."""
    world = World()

    assert world.emit()[0].answer.model == f"{MODEL}-2026-03-05"
    assert world.emit(model="gpt-5-2025-08-07")[0].answer.model == "gpt-5-2025-08-07"


def test_an_answer_echoes_its_request() -> None:
    """Metadata, tools, cache key and `store` of the request appear unchanged in the response."""
    turn, _ = World().emit(
        metadata={"a": "b"}, tools=[{"type": "web_search"}], prompt_cache_key="k", store=False
    )

    assert bytes(turn.answer.metadata) == b'{"a":"b"}'
    assert bytes(turn.answer.tools) == b'[{"type":"web_search"}]'
    assert (turn.answer.prompt_cache_key, turn.answer.store) == ("k", False)
    assert (turn.stored, turn.answer.created_at) == (False, NOW_S)


@pytest.mark.parametrize(
    ("end", "finished"),
    [("completed", True), ("incomplete", False), ("failed", False), ("cut", False)],
)
def test_only_a_completed_turn_is_finished(*, end: End, finished: bool) -> None:
    """A turn that ended in any other way is not finished, so its reasoning is never demanded."""
    turn, _ = World().emit(end=end)

    assert turn.finished is finished


@pytest.mark.parametrize("encrypted", [True, False])
def test_ciphertext_is_there_only_when_asked_for(*, encrypted: bool) -> None:
    """`encrypted_content` is set if it was asked for, else it is null."""
    world = World()
    turn, _ = world.emit()
    shown = View(turn=turn, sealer=world.sealer, encrypted=encrypted).answer().output[0]

    assert isinstance(shown, Reasoning)
    assert (shown.encrypted_content is not None) is encrypted


def test_an_answer_without_streaming_does_not_rotate_ids() -> None:
    """A response without streaming shows the ids of the items, which rotate only in a stream."""
    world = World()
    turn, _ = world.emit()
    view = View(turn=turn, sealer=world.sealer, encrypted=True, rotate_ids=True)

    assert [item.id for item in view.answer().output] == [item.id for item in turn.items]


def test_more_input_is_more_tokens() -> None:
    """Replayed reasoning adds to the estimated tokens."""
    world = World()
    _, output = world.emit()

    assert estimate_tokens(world.body([ASK, *output])) > estimate_tokens(world.body([ASK]))


# (the loop, the member of its last item that is cut)
HALVES: list[tuple[Variant, str]] = [
    ("one_call", "arguments"),
    ("custom", "input"),
    ("message", "content"),
]


@pytest.mark.parametrize(("variant", "member"), HALVES)
def test_an_incomplete_answer_stops_in_its_last_item(variant: Variant, member: str) -> None:
    """The last item has the status `incomplete` and less content than the whole item."""
    _, whole = World().emit(variant)
    _, half = World().emit(variant, end="incomplete")

    assert half[-1]["status"] == "incomplete"
    assert len(str(half[-1][member])) < len(str(whole[-1][member]))
    assert half[:-1] == whole[:-1]
