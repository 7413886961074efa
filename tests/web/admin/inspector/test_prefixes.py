"""Prefixes: each turn is compared with the turn that it continues, within a fixed memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.states import RequestState, Route
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.sent_items import DIGEST_BYTES, SentItems
from reasoning_replay.web.admin.inspector import prefixes as module
from reasoning_replay.web.admin.inspector.prefixes import Prefix, Prefixes
from reasoning_replay.web.exchange import Exchange, Times

from tests.web.admin.inspector.watching import prefix, watched, watching
from tests.web.reports import describe
from tests.web.wire import ASK, CALL, NEXT, RESULT, RS, RS_2, as_json, response, whole
from tests.web.world import eventually, world

SECOND = CALL | {"id": "fc_second", "call_id": "call_Second9xT7bLw2Rs"}
MORE = RESULT | {"call_id": SECOND["call_id"]}


def exchange(items: bytes, *, turn: bytes = b"", parent: bytes = b"", **more: Any) -> Exchange:
    """Return an exchange whose items have these letters as digests."""
    sent = SentItems(more.pop("head", 0), b"".join(bytes([n]) * DIGEST_BYTES for n in items))
    made = Exchange(Route.RESPONSES, Times(0.0), scope=more.pop("scope", b"s"))
    fields = {"summary": ItemSummary(1, sent=sent), "turn": turn, "parent": parent}
    describe(made, **fields | more)
    return made


@pytest.mark.parametrize(
    ("items", "more", "want"),
    [
        (b"abc", {}, Prefix(3, 3, has_moved=False, is_head_new=False)),
        (b"abcde", {}, Prefix(3, 3, has_moved=False, is_head_new=False)),
        (b"abxc", {}, Prefix(3, 2, has_moved=True, is_head_new=False)),
        (b"ab", {}, Prefix(3, 2, has_moved=True, is_head_new=False)),
        (b"abcd", {"head": 1}, Prefix(3, 3, has_moved=True, is_head_new=True)),
        (b"abcd", {"parent": b"other"}, None),
        (b"abcd", {"scope": b"other"}, None),
        (b"", {}, None),
        (b"d", {"asked": RequestState.STATEFUL}, None),
        (b"d", {"summary": None}, None),
    ],
)
def test_a_prefix_moves_where_the_first_item_differs(
    items: bytes, more: dict[str, Any], want: Prefix | None
) -> None:
    """It is unknown without the parent, and without the whole history."""
    prefixes = Prefixes()
    prefixes.keep(exchange(b"abc", turn=b"1"))
    assert prefixes.compare(exchange(items, **{"parent": b"1"} | more)) == want


def test_a_response_that_is_no_turn_is_not_kept() -> None:
    """A refused request is no part of the history."""
    prefixes = Prefixes()
    prefixes.keep(exchange(b"abc"))
    assert prefixes.compare(exchange(b"abc")) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60))
def test_the_memory_for_digests_is_bounded(turns: list[tuple[int, int]]) -> None:
    """The turns used last are kept, as far as there is room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TURNS_MAX", 5)
        patch.setattr(module, "BYTES_MAX", 200)
        prefixes = Prefixes()
        for turn, size in turns:
            prefixes.keep(exchange(b"x" * size, turn=b"%d" % turn))
            kept = prefixes._sent.values()
            assert prefixes._bytes == sum(len(sent.items) for sent in kept) <= 200
            assert len(kept) <= 5
        if turns and turns[-1][1]:
            last = b"%d" % turns[-1][0]
            assert prefixes.compare(exchange(b"x", parent=last)) is not None


async def test_an_append_only_client_keeps_the_prefix() -> None:
    """This holds with injected items; an earlier message that is changed moves it."""
    async with watched() as (w, page):
        w.upstream.answers(
            whole(as_json(response(RS, CALL))),
            whole(as_json(response(RS_2, SECOND, rid="resp_2"))),
            whole(as_json(response(rid="resp_3"))),
            whole(as_json(response(rid="resp_4"))),
        )
        await w.turn(ASK)
        assert (await page.ended(1))["prefix"] is None
        await w.turn(ASK, CALL, RESULT)
        assert (await page.ended(2))["prefix"] == prefix(1)
        await w.turn(ASK, CALL, RESULT, SECOND, MORE)
        assert (await page.ended(3))["prefix"] == prefix(4)
        await w.turn(NEXT, CALL, RESULT, SECOND, MORE)
        assert (await page.ended(4))["prefix"] == prefix(0, 4)
        assert w.app.recorder.sums(1)["different"] == 2


async def test_a_prefix_is_compared_only_while_it_is_watched() -> None:
    """A turn without a watcher has no digests; a watcher that has just left counts."""
    async with world() as w:
        w.upstream.otherwise = whole(as_json(response(RS, CALL)))
        await w.turn(ASK)
        async with watching(w.app.admin_url) as page:
            await w.turn(ASK, CALL, RESULT)
            unknown = await page.ended(2)
            assert (unknown["prefix"], unknown["sent_items"]) == (None, 4)
        await eventually(lambda: w.app.recorder.is_watched)
        await w.turn(ASK, CALL, RESULT, NEXT)
        async with watching(w.app.admin_url) as page:
            assert (await page.ended(3))["prefix"] == prefix(4)
