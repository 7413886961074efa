"""Item summary: types, ids and sizes of a request's items for the inspector, without content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.item_summary import (
    FIRST_SHOWN,
    JSON_MAX_BYTES,
    LAST_SHOWN,
    NOTED_SHOWN,
    WHOLE_SHOWN,
    ItemSummary,
    shown_items,
    summarise,
)
from reasoning_replay.core.history.plan import Outcome, Plan, PlanNote

from tests.core.test_laws import KEPT, TAPES, UPSTREAMS, Step, requests
from tests.core.world import (
    World,
    body,
    call,
    drawn,
    message,
    output,
    reasoning,
    search,
    user,
)
from tests.fast_lane import examples

C1 = call("1")


def strip(items: list[dict[str, Any]], *notes: PlanNote) -> ItemSummary:
    """Return the summary of an input."""
    return summarise(read_request(body(items), {}), notes)


def shown(made: ItemSummary) -> Any:
    """Return the items and notes of a summary."""
    return json.loads(made.shown)


@pytest.mark.parametrize(
    ("item", "want"),
    [
        ({"role": "developer", "content": "x"}, ["f", "message", ""]),
        (user("x"), ["u", "message", ""]),
        (message("1", "x"), ["m", "message", f"msg_{drawn(1)}"]),
        (C1, ["c", "function_call", f"fc_{drawn(1)}"]),
        (search("1"), ["c", "web_search_call", f"ws_{drawn(1)}"]),
        (output(C1), ["o", "function_call_output", f"call_{drawn(1)}"]),
        (reasoning("1"), ["r", "reasoning", f"rs_{drawn(1)}"]),
        ({"type": "item_reference", "id": "rs_1"}, ["i", "item_reference", "rs_1"]),
        # any other item of the client
        ({"type": "never_seen"}, ["o", "never_seen", ""]),
    ],
)
def test_an_item_is_shown_by_letter_type_id_and_size(item: dict[str, Any], want: list[str]) -> None:
    """An item without an id of its own is shown with its call id."""
    (got,) = shown(strip([item]))["items"]
    assert got == [*want, len(json.dumps(item, separators=(" , ", " : ")))]


def test_a_summary_has_no_content() -> None:
    """A summary contains no text, arguments, outputs or blobs."""
    items = [
        user("secret"),
        reasoning("1", id="secret-id", summary=["secret"]),
        call("1", tool="secret"),
    ]
    items += [output(items[2], "secret")]
    made = strip(items)
    assert made.shown.count(b"secret") == 1  # the id
    assert b"gAAAA" not in made.shown


def test_ids_and_types_of_the_client_are_shortened() -> None:
    """The lengths of ids and types are bounded."""
    made = summarise(read_request(body([{"type": "t" * 999, "id": "i" * 999}]), {}), ())
    ((_, kind, name, size),) = shown(made)["items"]
    assert (len(kind), len(name)) == (40, 64)
    assert size > 2000


def test_ids_of_injected_items_are_shortened() -> None:
    """Ids in notes have the same bound as the ids of items."""
    notes = [
        PlanNote(0, Outcome.INJECTED, 1, 9, "rs_" + "x" * 999),
        PlanNote(0, Outcome.INJECTED, 1, 9, "rs_1"),
    ]
    got = shown(strip([C1], *notes))["notes"]
    assert [note[4] for note in got] == ["rs_" + "x" * 61, "rs_1"]


def test_the_middle_of_a_long_history_is_left_out() -> None:
    """Items with notes are kept, and each gap is replaced by the number of items in it."""
    made = strip([user("x")] * 1000, PlanNote(500, Outcome.MISSED, 1, 0, ""))
    items, notes = shown(made).values()
    assert made.total == 1000
    assert sum(entry if isinstance(entry, int) else 1 for entry in items) == 1000
    gaps = [500 - FIRST_SHOWN, 499 - LAST_SHOWN]
    assert [entry for entry in items if isinstance(entry, int)] == gaps
    assert notes == [[500, "missed", 1, 0, ""]]
    assert isinstance(items[FIRST_SHOWN + 1], list)
    whole = strip([user("x")] * WHOLE_SHOWN)
    assert len(shown(whole)["items"]) == WHOLE_SHOWN


def test_the_number_of_notes_is_bounded() -> None:
    """Only the newest notes are kept."""
    made = strip([C1] * 3000, *[PlanNote(n, Outcome.MISSED, 1, 0, "") for n in range(3000)])
    items, notes = shown(made).values()
    assert sum(isinstance(entry, list) for entry in items) == NOTED_SHOWN + FIRST_SHOWN
    assert len(notes) == NOTED_SHOWN
    assert len(made.shown) <= JSON_MAX_BYTES


def test_a_summary_that_is_too_long_has_only_counts() -> None:
    """Some characters take six bytes in JSON, so the summary can exceed its limit."""
    odd = {"type": "\x01" * 99, "id": "\x02" * 99}
    notes = [PlanNote(n, Outcome.INJECTED, 1, 10, "") for n in range(300)]
    made = strip([odd] * 300, *notes, PlanNote(299, Outcome.MISSED, 2, 0, ""))
    assert shown(made) == {
        "items": [300],
        "notes": [[0, "injected", 300, 3000, ""], [0, "missed", 2, 0, ""]],
    }
    assert made.total == 300


def test_a_summary_can_be_reduced_to_counts() -> None:
    """`counted` returns the number of items and no notes."""
    request = read_request(body([user("x"), C1]), {})
    made = summarise(request, ())
    assert made.items is not None
    assert made.size_bytes == made.items.size_bytes
    assert made.counted().size_bytes == 0
    assert shown(strip([user("x"), C1]).counted()) == {"items": [2], "notes": []}
    assert shown(strip([]).counted()) == {"items": [], "notes": []}


@given(st.text(st.characters(codec=None), max_size=30), st.text(max_size=30))
def test_any_id_and_any_type_can_be_summarised(name: str, kind: str) -> None:
    """This includes lone surrogates."""
    request = read_request(json.dumps({"input": [{"id": name, "type": kind}]}).encode(), {})
    assert summarise(request, ()).total == 1
    json.loads(summarise(request, ()).shown)


def test_a_lone_surrogate_loses_the_names_of_its_item() -> None:
    """A parsed id never has a lone surrogate, so the test sets one."""
    request = read_request(body([C1]), {})
    request.places[0].item.id = "\ud800"
    assert shown(summarise(request, ()))["items"] == [
        ["c", "", "", len(request.places[0].item.raw)]
    ]
    assert shown(summarise(read_request(body("hello"), {}), ())) == {"items": [], "notes": []}


def assert_stands_where_it_went_in(request: Request, decided: Plan) -> None:
    """Assert that upstream receives the items of the summary, in the same order."""
    row = shown(summarise(request, decided.notes))
    want: list[tuple[str, int | None]] = []
    for index, (_, kind, _, size) in enumerate(row["items"]):
        put = [note[3] for note in row["notes"] if note[:2] == [index, "injected"]]
        want += [("reasoning", size) for size in put]
        want.append((kind, None))  # it may have lost its id
    sent = read_request(decided.apply(request.body), {})
    got = [(place.item.type, place.item.end - place.item.start) for place in sent.places]
    assert [kind for kind, _ in got] == [kind for kind, _ in want]
    missing = [n for n, what, *_ in row["notes"] if what in ("missed", "ambiguous")]
    assert all(row["items"][n][0] in "mc" for n in missing)
    new = {n for n, (kind, size) in enumerate(want) if kind == "reasoning" and size is not None}
    assert [got[n] for n in new] == [want[n] for n in new]


@examples(100)
@given(TAPES, KEPT, UPSTREAMS)
def test_outcomes_are_the_sums_of_notes(tape: list[Step], kept: Any, profile: Any) -> None:
    """The injected bytes are also the sum of the sizes in the notes, without the commas."""
    world = World(profile=profile)
    for _, sent in requests(world, tape, kept, store=False):
        request, _, decided = world.ask(sent)
        sums: dict[Outcome, int] = {}
        for index, what, count, size, ids in decided.notes:
            assert 0 <= index < len(request.places)
            assert (size > 0) == (what is Outcome.INJECTED)
            assert bool(ids) == (what is Outcome.INJECTED)
            if isinstance(what, Outcome):
                sums[what] = sums.get(what, 0) + count
        assert sums == decided.outcomes
        put = [edit.new for edit in decided.edits if b'"reasoning"' in edit.new[:4096]]
        assert sum(map(len, put)) == sum(size for *_, size, _ in decided.notes)
        assert decided.injected_bytes == sum(size for *_, size, _ in decided.notes)
        assert_stands_where_it_went_in(request, decided)


@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=5),
    every=st.integers(1, 40),
)
@examples(20)
def test_items_are_shown_alike_in_steps_and_at_once(sizes: list[int], every: int) -> None:
    """A conversation that goes on is shown as one that was read whole; its size is exact."""
    items = [user(f"{n}") for n in range(sum(sizes))]
    places = read_request(body(items), {}).places
    notes = [PlanNote(n, Outcome.INJECTED, 1, 10, f"rs_{n}") for n in range(0, len(items), every)]
    made, at = None, 0
    for size in sizes:
        at += size
        told = [note for note in notes if at - size <= note.place < at]
        step = places[at - size : at]
        made = shown_items(step, told) if made is None else shown_items(step, told, made)
    assert made == shown_items(places, notes)
    assert made is not None
    entries = [*made.first, *made.last, *made.noted.values()]
    assert made.json_bytes == sum(len(bytes(entry)) for entry in entries)
