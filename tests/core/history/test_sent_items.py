"""Sent items: digests of a request as the upstream reads it, from the request and its edits."""

from typing import Any

import pytest
from hypothesis import given
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.sent_items import (
    DIGEST_BYTES,
    NOT_SENT,
    SentItems,
    common_items,
    digests_of,
    sent_items,
)
from reasoning_replay.core.wire.json_spans import Edit

from tests.core.test_laws import KEPT, TAPES, UPSTREAMS, Step, requests
from tests.core.world import Item, World, body, call, output, reasoning, user
from tests.fast_lane import examples

C1, C2 = call("1"), call("2")
HISTORY = [user("x"), C1, output(C1), C2, output(C2)]


def sent(items: list[Item], **more: Any) -> SentItems:
    """Return the digests of a request that is sent as it is."""
    request = read_request(body(items, **more), {})
    return sent_items(request.head, request.places)


@examples(100)
@given(TAPES, KEPT, UPSTREAMS)
def test_the_digests_are_those_of_the_edited_body(
    tape: list[Step], kept: Any, profile: Any
) -> None:
    """They equal those of the edited body, and the next request begins with the same ones."""
    world = World(profile=profile)
    before = NOT_SENT
    for _, one in requests(world, tape, kept, store=False):
        request, _, decided = world.ask(one)
        made = sent_items(request.head, request.places, decided.edits)
        again = read_request(decided.apply(request.body), {})
        assert made._replace(injected=b"") == sent_items(again.head, again.places)
        assert made.total == len(again.places)
        new = [note for note in decided.notes if note.outcome is Outcome.INJECTED]
        assert len(made.injected) == DIGEST_BYTES * len(new)
        assert common_items(before, made) == before.total
        before = made


def test_edits_of_items_and_of_other_members_are_told_apart() -> None:
    """An insertion before an item adds one, an edit within it changes it, others change none."""
    given = body(HISTORY)
    request = read_request(given, {})
    places = request.places
    call_at, output_at = places[1].item, places[2].item
    blob = b'{"type":"reasoning","id":"rs_1"}'
    change = given.index(b'"call_id"', output_at.start)
    edits = [
        Edit(change, change, b'"id":"x",'),
        Edit(len(given) - 1, len(given) - 1, b',"last":1'),
        Edit(1, 1, b'"include":[],'),
        Edit(places[0].item.end, places[0].item.end, b" "),
        Edit(call_at.start, call_at.start, blob + b","),
        Edit(call_at.start, call_at.start, blob.replace(b"1", b"2") + b","),
    ]
    made = sent_items(request.head, places, edits)
    plain = sent_items(request.head, places)
    assert (plain.total, plain.injected) == (5, b"")
    assert made.total == 7
    assert made.items[:DIGEST_BYTES] == plain.items[:DIGEST_BYTES]
    assert made.items[DIGEST_BYTES : 3 * DIGEST_BYTES] == made.injected
    assert made.items[3 * DIGEST_BYTES : 4 * DIGEST_BYTES] == plain.items[4:8]
    assert made.items[4 * DIGEST_BYTES :][:DIGEST_BYTES] != plain.items[8:12]
    assert made.items[5 * DIGEST_BYTES :] == plain.items[12:]


@pytest.mark.parametrize(
    ("later", "common"),
    [
        (HISTORY, 5),
        ([*HISTORY, user("more")], 5),
        (HISTORY[:2], 2),
        ([*HISTORY[:3], reasoning("1"), *HISTORY[3:]], 3),
        ([user("y"), *HISTORY[1:]], 0),
        ([], 0),
    ],
)
def test_the_common_beginning_of_two_requests_is_counted_in_items(
    later: list[Item], common: int
) -> None:
    """It ends at the first item that differs."""
    assert common_items(sent(HISTORY), sent(later)) == common
    assert common_items(sent(later), sent(HISTORY)) == common


def test_what_comes_before_the_items_has_its_own_digest() -> None:
    """Instructions and tools count; other members do not."""
    assert sent(HISTORY, model="a").head == sent(HISTORY, model="b").head
    assert sent(HISTORY, instructions="a").head != sent(HISTORY, instructions="b").head
    assert sent(HISTORY, tools=[{"type": "a"}]).head != sent(HISTORY).head


def test_nothing_of_an_item_is_kept() -> None:
    """Digests have a fixed size."""
    request = read_request(body([user("secret" * 100)]), {})
    assert len(digests_of([place.item for place in request.places])) == DIGEST_BYTES
    assert NOT_SENT.total == 0
