"""Prefix cache: a history read from where it grew equals the same history read from its start."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.request_body import ITEMS_MAX
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history import prefix_cache
from reasoning_replay.core.history.prefix_cache import (
    LEAST_BYTES,
    Owner,
    ParsedPrefix,
    PrefixCache,
)
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.wire.json_spans import TooMany

from tests.core.world import call, message, output, reasoning, user
from tests.fast_lane import examples


class Nothing:
    """What is known of a prefix in these tests."""

    size_bytes = 0
    conversation = b""


WHOSE, OTHER = Owner(b"tenant", "responses"), Owner(b"another", "responses")
BEGIN = user("x" * LEAST_BYTES)
C1, C2 = call("1"), call("2")
SET = {"role": "developer", "content": "be brief"}
ITEMS = [user("hi"), C1, C2, output(C1), output(C2), message("1", "hello"), reasoning("1"), SET]


def body(*items: object, last: str = "", **more: object) -> bytes:
    """Return a request as most clients write it, with the fields of `more` before its input."""
    top = json.dumps(more | {"model": "gpt-5.6", "input": [BEGIN, *items]}, separators=(",", ":"))
    return top[:-1].encode() + last.encode() + b"}"


def seen(request: Request) -> dict[str, Any]:
    """Return all values that are read from a request."""
    places = [
        (p.item.raw, p.item.start, p.item.end, p.depth, p.frame, p.model_traces)
        for p in request.places
    ]
    chains = [request.chain(depth) for depth in range(len(request.said) + 1)]
    return {"places": places, "chains": chains, "context": request.context()}


Cache = PrefixCache[HistoryPrefix[ResponsesItem], Nothing]


def reading(sent: bytes, cache: Cache, owner: Owner = WHOSE) -> Request:
    """Return a request that is read with the cache, and then is in it."""
    before = cache.find(owner, sent)
    request = read_request(sent, {}, before)
    new: ParsedPrefix[HistoryPrefix[ResponsesItem], Nothing] | None = request.prefix()
    assert new is not None
    cache.keep(owner, new, before)
    return request


def same(sent: bytes, cache: Cache) -> bool:
    """Return whether a request reads the same with the cache and without it."""
    return seen(reading(sent, cache)) == seen(read_request(sent, {}))


@given(
    st.lists(st.sampled_from(ITEMS), max_size=8),
    st.lists(st.sampled_from(ITEMS), max_size=4),
    st.sampled_from(["", ',"n":1', ',"instructions":"hm"']),
)
@examples(60)
def test_a_grown_history_reads_like_a_new_one(
    items: list[object], more: list[object], last: str
) -> None:
    """A history may grow, shrink, continue differently or get other instructions."""
    cache: Cache = PrefixCache(Room(1 << 20))
    assert same(body(*items), cache)
    assert same(body(*items, *more), cache)
    assert same(body(*items, *more, last=last), cache)
    assert same(body(*more, *items), cache)
    assert same(body(*items), cache)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(b"1", b"12", id="longer-number"),
        pytest.param(b"1", b"1 , 2", id="white-space"),
        pytest.param(b"1", b"1 ", id="white-space-at-the-end"),
        pytest.param(b"1", b"1,2", id="continued"),
        pytest.param(b"1,2", b"1", id="cut-back"),
        pytest.param(b'"a"', b'"a","b"', id="text"),
    ],
)
def test_an_item_is_not_mistaken_for_the_start_of_another(first: bytes, then: bytes) -> None:
    """After a cached prefix, an input must continue with a comma or end."""
    cache: Cache = PrefixCache(Room(1 << 20))
    ahead = b'{"input":[' + json.dumps(BEGIN).encode() + b","
    assert same(ahead + first + b"]}", cache)
    assert same(ahead + then + b"]}", cache)


def test_a_cached_prefix_is_not_parsed_again() -> None:
    """The items are the same objects, except for another tenant."""
    cache: Cache = PrefixCache(Room(1 << 20))
    one = reading(body(C1), cache)
    grown = reading(body(C1, output(C1)), cache)
    again = reading(body(C1, output(C1)), cache)
    others = reading(body(C1), cache, OTHER)

    assert [p.item for p in grown.places[:2]] == [p.item for p in one.places]
    assert [p.item for p in again.places] == [p.item for p in grown.places]
    assert others.places[0].item is not one.places[0].item
    assert len(one.places) == 2
    assert len(one.said) == 1


def test_a_history_is_cached_once_for_each_of_its_frames() -> None:
    """An application may ask with two instructions about one history: neither is parsed again."""
    cache: Cache = PrefixCache(Room(1 << 20))
    frames = [f',"instructions":"{said}"' for said in ("summarise", "answer")]

    def ask(*items: object, last: str) -> Request:
        assert same(body(*items, last=last), cache)
        return reading(body(*items, last=last), cache)

    first = [ask(C1, last=frames[0]), ask(C1, output(C1), last=frames[1])]
    again = [ask(C1, output(C1), SET, last=last) for last in frames]
    for before, after in zip(first, again, strict=True):
        assert all(
            new.item is old.item for new, old in zip(after.places, before.places, strict=False)
        )


def test_a_history_that_grew_too_long_raises() -> None:
    """The limit applies to all items, cached or new."""
    cache: Cache = PrefixCache(Room(1 << 30))
    half = [1] * (ITEMS_MAX // 2)
    reading(body(*half), cache)
    with pytest.raises(TooMany):
        reading(body(*half, *half), cache)


def parsed(prefix: bytes, around: bytes = b"", items: int = 0) -> ParsedPrefix[str, Nothing]:
    """Return a prefix of a body."""
    return ParsedPrefix(prefix + around, len(prefix), b"frame", "parsed", items)


def test_the_cache_is_bounded_and_evicts_the_least_recently_used() -> None:
    """The limit in bytes includes parsed items; short and oversized prefixes are not cached."""
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(9 * LEAST_BYTES))
    bodies = [b"%d" % n * LEAST_BYTES for n in range(1, 6)]
    for sent in bodies[:4]:
        cache.keep(WHOSE, parsed(sent))
    assert cache.find(WHOSE, bodies[0]) is not None
    cache.keep(WHOSE, parsed(bodies[4]))
    assert cache.room.size_bytes <= 9 * LEAST_BYTES
    kept = [cache.find(WHOSE, sent) is not None for sent in bodies]
    assert kept == [True, False, True, True, True]
    cache.keep(WHOSE, parsed(b"6" * LEAST_BYTES * 5))
    cache.keep(WHOSE, parsed(b"7" * (LEAST_BYTES - 1)))
    assert [cache.find(WHOSE, sent) is not None for sent in bodies] == kept
    assert cache.find(WHOSE, b"7" * (LEAST_BYTES - 1)) is None


def test_a_longer_prefix_replaces_the_one_it_grew_from() -> None:
    """A conversation is cached once."""
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(1 << 20))
    before: ParsedPrefix[str, Nothing] | None = None
    for n in range(9):
        new = parsed(b"x" * (LEAST_BYTES + 1000 * n), items=n)
        cache.keep(WHOSE, new, before)
        before = new
    found = cache.find(WHOSE, b"x" * (LEAST_BYTES + 9000))

    assert found is before
    assert cache.room.size_bytes == new.size_bytes
    cache.drop(WHOSE, b"x" * (LEAST_BYTES + 9000))
    assert cache.room.size_bytes == 0
    cache.keep(WHOSE, new, new)  # another request has dropped it meanwhile
    assert cache.room.size_bytes == new.size_bytes


def test_one_body_is_kept_once() -> None:
    """Of two equal requests at once, the later decision holds: the other may be out of date."""
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(1 << 20))
    prefixes = [parsed(b"x" * 3000, b"]}") for _ in range(3)]
    for one in prefixes:
        cache.keep(WHOSE, one)
    assert cache.find(WHOSE, b"x" * 3000 + b"]}") is prefixes[-1]
    assert cache.room.size_bytes == prefixes[-1].size_bytes


def test_the_longest_prefix_of_a_body_is_found() -> None:
    """A history may be truncated and then continue differently."""
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(1 << 20))
    short, long = parsed(b"x" * LEAST_BYTES), parsed(b"x" * (LEAST_BYTES + 1))
    for one in (long, short):
        cache.keep(WHOSE, one)

    assert cache.find(WHOSE, b"x" * 2 * LEAST_BYTES) is long
    assert cache.find(WHOSE, b"x" * LEAST_BYTES + b"y") is short


def test_a_group_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup compares a bounded number of prefixes, even if many conversations start alike."""
    monkeypatch.setattr(prefix_cache, "PREFIXES_PER_HEAD", 3)
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(1 << 30))
    bodies = [b"x" * LEAST_BYTES + b"%d" % n * 100 for n in range(5)]
    for sent in bodies:
        cache.keep(WHOSE, parsed(sent))

    assert [cache.find(WHOSE, sent) is not None for sent in bodies] == [False] * 2 + [True] * 3


FEW = [parsed(b"few %d" % n + b"x" * LEAST_BYTES) for n in range(3)]
GREEDY = [
    pytest.param([Owner(b"greedy", "responses")], id="another-tenant"),
    pytest.param([Owner(b"greedy", "gemini", b"%d" % n) for n in range(50)], id="many-paths"),
]


@pytest.mark.parametrize("greedy", GREEDY)
def test_no_tenant_pushes_out_the_prefixes_of_others(greedy: list[Owner]) -> None:
    """Beyond the limit, the largest share makes room, whatever was used last."""
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(20 * LEAST_BYTES * 2))
    for one in FEW:
        cache.keep(WHOSE, one)
    for n in range(500):
        cache.keep(greedy[n % len(greedy)], parsed(b"%d" % n + b"y" * LEAST_BYTES))
    assert [cache.find(WHOSE, one.body) for one in FEW] == FEW
    assert 18 * LEAST_BYTES * 2 < cache.room.size_bytes <= 20 * LEAST_BYTES * 2


def test_an_emptied_cache_holds_nothing() -> None:
    """Also nothing about its tenants, of which there is no end."""
    cache: PrefixCache[str, Nothing] = PrefixCache(Room(1 << 20))
    owners = [Owner(b"%d" % n, "chat", b"/%d" % n) for n in range(9)]
    body = b"x" * LEAST_BYTES
    for owner in owners:
        cache.keep(owner, parsed(body))
    for owner in owners:
        cache.drop(owner, body)
    assert cache.room.size_bytes == 0
    assert not any((cache._groups, cache.room._members, cache.room._shares, cache.room._of_size))
