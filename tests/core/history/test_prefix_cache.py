"""What is read from where a history grew is what is read from its beginning."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.request import (
    ITEMS_MAX,
    History,
    Request,
    read_request,
)
from reasoning_replay.core.history.prefix_cache import HEAD_BYTES, LEAST_BYTES, PrefixCache
from reasoning_replay.core.wire.json_spans import TooMany

from tests.core.world import call, message, output, reasoning, user

WHOSE, OTHER = b"tenant", b"another"
BEGIN = user("x" * LEAST_BYTES)
C1, C2 = call("1"), call("2")
SET = {"role": "developer", "content": "be brief"}
ITEMS = [user("hi"), C1, C2, output(C1), output(C2), message("1", "hello"), reasoning("1"), SET]


def body(*items: object, last: str = "", **more: object) -> bytes:
    """Write a request as most clients do, what is `more` ahead of its input."""
    top = json.dumps(more | {"model": "gpt-5.6", "input": [BEGIN, *items]}, separators=(",", ":"))
    return top[:-1].encode() + last.encode() + b"}"


def seen(request: Request) -> dict[str, Any]:
    """Return all that is known of a request."""
    places = [
        (p.item.raw, p.item.start, p.item.end, p.depth, p.frame, p.answered) for p in request.places
    ]
    return {"places": places, "chains": request.chains, "context": request.context()}


def same(sent: bytes, lately: PrefixCache[History]) -> bool:
    """Read a request both ways, and tell whether that is the same."""
    return seen(read_request(sent, {}, lately, WHOSE)) == seen(read_request(sent, {}))


@given(
    st.lists(st.sampled_from(ITEMS), max_size=8),
    st.lists(st.sampled_from(ITEMS), max_size=4),
    st.sampled_from(["", ',"n":1', ',"instructions":"hm"']),
)
@settings(max_examples=60, deadline=None)
def test_a_history_that_grew_is_read_as_if_it_were_new(
    items: list[object], more: list[object], last: str
) -> None:
    """Grown, cut back, grown otherwise, under other instructions: every byte of it counts."""
    lately: PrefixCache[History] = PrefixCache(1 << 20)
    assert same(body(*items), lately)
    assert same(body(*items, *more), lately)
    assert same(body(*items, *more, last=last), lately)
    assert same(body(*more, *items), lately)
    assert same(body(*items), lately)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(b"1", b"12", id="number-goes-on"),
        pytest.param(b"1", b"1 , 2", id="white-space"),
        pytest.param(b"1", b"1 ", id="white-space-at-the-end"),
        pytest.param(b"1", b"1,2", id="goes-on"),
        pytest.param(b"1,2", b"1", id="cut-back"),
        pytest.param(b'"a"', b'"a","b"', id="text"),
    ],
)
def test_an_item_is_not_taken_for_the_beginning_of_another(first: bytes, then: bytes) -> None:
    """Behind what was read, an input goes on with a comma or ends."""
    lately: PrefixCache[History] = PrefixCache(1 << 20)
    ahead = b'{"input":[' + json.dumps(BEGIN).encode() + b","
    assert same(ahead + first + b"]}", lately)
    assert same(ahead + then + b"]}", lately)


def test_what_was_read_is_not_read_again() -> None:
    """The items are the very same objects; for another tenant they are others."""
    lately: PrefixCache[History] = PrefixCache(1 << 20)
    one = read_request(body(C1), {}, lately, WHOSE)
    grown = read_request(body(C1, output(C1)), {}, lately, WHOSE)
    again = read_request(body(C1, output(C1)), {}, lately, WHOSE)
    others = read_request(body(C1), {}, lately, OTHER)

    assert [p.item for p in grown.places[:2]] == [p.item for p in one.places]
    assert [p.item for p in again.places] == [p.item for p in grown.places]
    assert others.places[0].item is not one.places[0].item
    assert len(one.places) == 2
    assert len(one.said) == 1


def test_instructions_behind_an_input_are_not_overlooked() -> None:
    """They are no part of what is compared, and yet the frame of all of it."""
    lately: PrefixCache[History] = PrefixCache(1 << 20)
    read_request(body(C1), {}, lately, WHOSE)

    assert same(body(C1, last=',"instructions":"be brief"'), lately)


def test_a_history_that_grew_too_long_is_refused() -> None:
    """The bound is on all of its items."""
    lately: PrefixCache[History] = PrefixCache(1 << 30)
    half = [1] * (ITEMS_MAX // 2)
    read_request(body(*half), {}, lately, WHOSE)
    with pytest.raises(TooMany):
        read_request(body(*half, *half), {}, lately, WHOSE)


def test_what_is_kept_is_bounded_and_the_least_recently_used_goes() -> None:
    """In bytes, the items read among them; what is short or too long is not kept at all."""
    lately: PrefixCache[str] = PrefixCache(9 * LEAST_BYTES)
    bodies = [b"%d" % n * LEAST_BYTES for n in range(1, 6)]
    for sent in bodies[:4]:
        lately.keep(WHOSE, sent, 0, "read", 0)
    assert lately.find(WHOSE, bodies[0], 0) is not None
    lately.keep(WHOSE, bodies[4], 0, "read", 0)
    assert lately.size_bytes <= 9 * LEAST_BYTES
    kept = [lately.find(WHOSE, sent, 0) is not None for sent in bodies]
    assert kept == [True, False, True, True, True]
    lately.keep(WHOSE, b"6" * LEAST_BYTES * 3, 0, "read", 0)
    lately.keep(WHOSE, b"7" * (LEAST_BYTES - 1), 0, "read", 0)
    lately.keep(WHOSE, b"8" * LEAST_BYTES, LEAST_BYTES - HEAD_BYTES + 1, "read", 0)
    assert [lately.find(WHOSE, sent, 0) is not None for sent in bodies] == kept
    assert lately.find(WHOSE, b"7" * (LEAST_BYTES - 1), 0) is None


def test_of_one_beginning_the_newest_form_is_kept() -> None:
    """A conversation that grows takes the place of what it was."""
    lately: PrefixCache[int] = PrefixCache(1 << 20)
    sizes = [LEAST_BYTES + 7 * n % 5 * 1000 for n in range(9)]
    for n, size in enumerate(sizes):
        lately.keep(WHOSE, b"x" * size, 0, n, 1)
    found = lately.find(WHOSE, b"x" * (2 * LEAST_BYTES), 0)

    assert found is not None
    assert found.read == len(sizes) - 1
    assert lately.size_bytes == found.size_bytes
