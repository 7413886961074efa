"""Event streams: which events a response has, in which order, and how they are framed."""

from typing import Any, Unpack, get_args

import msgspec
import pytest

from tests.standin.answering import Behaviour, End, View
from tests.standin.events import frame, tell
from tests.standin.variants import Variant
from tests.standin.world import More, World

VARIANTS: tuple[Variant, ...] = get_args(Variant)


def told(
    variant: Variant = "one_call",
    end: End = "completed",
    behaviour: Behaviour | None = None,
    *,
    obfuscates: bool = True,
    **more: Unpack[More],
) -> list[dict[str, Any]]:
    """Stream a first response, and return its decoded events."""
    behaviour = behaviour or Behaviour()
    world = World()
    turn, _ = world.emit(variant, end=end, **more)
    view = View(turn=turn, sealer=world.sealer, encrypted=True, rotate_ids=behaviour.rotate_ids)
    events = tell(turn.answer, view.telling(behaviour, obfuscates=obfuscates))
    return [msgspec.json.decode(msgspec.json.encode(event)) for event in events]


@pytest.mark.parametrize("variant", VARIANTS)
def test_events_are_numbered_and_begin_and_end_with_the_response(variant: Variant) -> None:
    """Numbers start at 0 without a gap; the first two events and the terminal event occur once."""
    events = told(variant)

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [event["type"] for event in events if "response" in event][2:] == ["response.completed"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_done_items_are_the_output(variant: Variant) -> None:
    """`completed` lists the items of the `done` events, in order; only their blobs differ."""
    events = told(variant)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    output = events[-1]["response"]["output"]

    def plain(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item | {"encrypted_content": None} for item in items]

    assert plain(done) == plain(output)
    for one, other in zip(done, output, strict=True):
        if one["type"] == "reasoning":
            assert one["encrypted_content"] != other["encrypted_content"]


def test_deltas_add_up() -> None:
    """Text, arguments and input arrive in pieces, and the pieces add up to the whole."""
    events = [*told("preamble"), *told("custom")]
    for stem, member in (
        ("output_text", "text"),
        ("function_call_arguments", "arguments"),
        ("custom_tool_call_input", "input"),
    ):
        pieces = [event for event in events if event["type"] == f"response.{stem}.delta"]
        (whole,) = [event for event in events if event["type"] == f"response.{stem}.done"]

        assert len(pieces) > 1
        assert "".join(event["delta"] for event in pieces) == whole[member]


def test_deltas_are_padded_unless_turned_off() -> None:
    """`obfuscation` fills deltas up to full blocks; it can be turned off."""
    padded = [event for event in told() if "delta" in event]

    assert {(len(event["delta"]) + len(event["obfuscation"])) % 16 for event in padded} == {0}
    assert not any("obfuscation" in event for event in told(obfuscates=False))


def test_summaries_are_streamed_when_asked_for() -> None:
    """A summary is streamed part by part, in pieces, before its item is done."""
    types = [event["type"] for event in told("message", reasoning={"summary": "auto"})]
    start = types.index("response.reasoning_summary_part.added")

    assert types[start + 1] == "response.reasoning_summary_text.delta"
    assert "response.reasoning_summary_text.done" in types[start:]
    assert types.index("response.reasoning_summary_part.done") < types.index(
        "response.output_item.done"
    )
    assert "response.reasoning_summary_part.added" not in [event["type"] for event in told()]


def test_the_blob_of_an_added_item_is_a_snapshot() -> None:
    """An added item has a shorter snapshot; the usable blob comes when the item is done."""
    events = told()
    added, done = (
        next(event["item"] for event in events if event["type"] == f"response.output_item.{moment}")
        for moment in ("added", "done")
    )

    assert len(added["encrypted_content"]) < len(done["encrypted_content"])


def test_an_incomplete_answer_stops_in_its_last_item() -> None:
    """The last item is cut in half and has the status `incomplete`; the response has the reason."""
    last = told(end="incomplete")[-1]

    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][-1]["status"] == "incomplete"
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(last["response"]["output"][-1]["arguments"])


def test_a_failed_answer_ends_with_an_error_event() -> None:
    """A failed stream ends with a nested `error` and `response.failed` without output."""
    events = told(end="failed")
    done = [event for event in events if event["type"] == "response.output_item.done"]

    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-2]["error"]["code"] == events[-1]["response"]["error"]["code"] == "server_error"
    assert events[-1]["response"]["output"] == []
    assert [event["item"]["type"] for event in done] == ["reasoning"]


def test_a_background_answer_is_queued_first() -> None:
    """`response.created` and `response.queued` come before `response.in_progress`."""
    types = [event["type"] for event in told(background=True)]

    assert types[:3] == ["response.created", "response.queued", "response.in_progress"]


def test_ids_rotate_if_configured() -> None:
    """The `added`, `done` and `completed` events of an item all have different ids."""
    events = told(behaviour=Behaviour(rotate_ids=True))
    ids: dict[str, list[str]] = {}
    for event in events:
        if "item" in event:
            ids.setdefault(event["type"].rpartition(".")[2], []).append(event["item"]["id"])
    completed = [item["id"] for item in events[-1]["response"]["output"]]
    deltas = {event["item_id"] for event in events if "item_id" in event}

    assert not set(ids["done"]) & set(ids["added"])
    assert not set(ids["done"]) & set(completed)
    assert not set(ids["added"]) & set(completed)
    assert deltas <= set(ids["added"])
    assert [item_id.partition("_")[0] for item_id in completed] == ["rs", "fc"]


def test_completed_output_may_be_empty() -> None:
    """The output of `response.completed` is empty if configured, as on some backends."""
    events = told(behaviour=Behaviour(empty_completed_output=True))

    assert events[-1]["response"]["output"] == []


def test_an_event_is_framed_as_recorded() -> None:
    """A frame is an event line, a data line and a blank line, with LF only."""
    world = World()
    turn, _ = world.emit()
    view = View(turn=turn, sealer=world.sealer, encrypted=False)
    first = next(tell(turn.answer, view.telling(Behaviour(), obfuscates=True)))
    raw = frame(first)

    assert raw.startswith(b'event: response.created\ndata: {"type":"response.created",')
    assert raw.endswith(b"}\n\n")
    assert raw.count(b"\n") == 3
    assert b"\r" not in raw
