"""Whatever a client does to one item: never worse than without the proxy, and nothing is lost."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.demand.client import Answer
from tests.demand.distort import distorted
from tests.demand.notation import Item, Past, written
from tests.demand.scenario import Made, Scenario
from tests.demand.table import client_of
from tests.e2e.proxies import proxied
from tests.standin.exchange import Received
from tests.standin.variants import Variant

# What the model does, how many turns of it, and what the user says in the end.
LOOPS: Sequence[tuple[Variant, int, str]] = (
    ("one_call", 2, "Sure?"),
    ("parallel", 1, ""),
    ("preamble", 1, ""),
    ("hosted", 1, ""),
    ("two_reasoning", 2, ""),
    ("message", 2, "Sure?"),
    ("interleaved", 1, "Sure?"),
)
KNOWN_TO_NOBODY = ("one_call", "hosted")
"""Of these each case has a proxy of its own, which takes its time."""
loops = pytest.mark.parametrize(
    ("loop", "turns", "asks"), [pytest.param(*loop, id=loop[0]) for loop in LOOPS]
)
stores = pytest.mark.parametrize("store", [True, False], ids=["stored", "not-stored"])


def honest(loop: Variant, turns: int, asks: str, made: Made, *, store: bool) -> Scenario:
    """A client that would keep everything."""
    return Scenario(
        row=0,
        title="distorted",
        sent="",
        want=None,
        loop=loop,
        turns=turns,
        asks=asks,
        made=made,
        body={"store": store},
    )


def names_of(past: Past) -> list[str]:
    """Name the items of a history in their order."""
    names = {id(item): name for name, item in past.named.items()}
    return [names[id(item)] for item in past.items]


def said_in(items: Sequence[Item]) -> list[str]:
    """
    Reduce items to what they say or do: without ids, blobs, and what a reference refers to.

    Hosted searches are left out: their id is required, so they may have to go as a whole.
    """
    silent = {"reasoning", "item_reference", "web_search_call"}
    spoken = [item for item in items if item.get("type") not in silent]
    spoken = [item for item in spoken if item.get("type") or item.get("role")]
    return [json.dumps({k: v for k, v in one.items() if k != "id"}) for one in spoken]


def by_user(items: Sequence[Item]) -> list[Item]:
    """Give the messages of the user."""
    return [item for item in items if item.get("role") == "user"]


def lacks_output(items: Sequence[Item]) -> bool:
    """Tell whether a call has no output: the one thing that nobody can give back."""
    outputs = {item["call_id"] for item in items if item.get("type", "").endswith("_output")}
    return any(item["call_id"] not in outputs for item in items if "call_id" in item)


def inputs_of(tries: Sequence[Received]) -> list[list[Item]]:
    """Give what upstream received, each time."""
    return [msgspec.convert(one.json, dict[str, Any])["input"] for one in tries]


def assert_safe(
    sent: list[Item], past: Past, straight: Answer, got: Answer, tries: Sequence[Received]
) -> None:
    """Nothing is lost, nothing is invented, nothing is worse; and two tries are all."""
    received = inputs_of(tries)
    assert len(tries) in {1, 2}
    assert got.status == 200 or straight.status != 200
    for items in received:
        assert by_user(items) == by_user(sent)
        assert set(said_in(sent)) <= set(said_in(items))
        assert set(said_in(items)) <= {*said_in(sent), *said_in(past.items)}
        for before, after in itertools.pairwise(items):
            assert before != after or (before, after) in itertools.pairwise(sent)


@loops
@stores
async def test_a_captured_history_is_served_whatever_one_item_is(
    loop: Variant, turns: int, asks: str, *, store: bool
) -> None:
    """All but an output can be given back; without it the refusal is upstream's first."""
    scenario = honest(loop, turns, asks, "proxied", store=store)
    refused = []
    async with (
        client_of(scenario, stream=False) as (standin, client),
        proxied(standin) as proxy,
    ):
        past = await client.converse(proxy)
        for text in map(" ".join, distorted(names_of(past))):
            sent = written(text, past, {})
            body = client.last(sent, past)
            straight = await client.send(standin.base_url, body)
            before = len(standin.received)
            got = await client.send(proxy, body)
            tries = standin.received[before:]
            assert_safe(sent, past, straight, got, tries)
            if got.status != 200:
                first = await client.send(standin.base_url, tries[0].body)
                assert got.raw == first.raw
                refused += [] if lacks_output(sent) else [text]

    assert refused == []


@pytest.mark.parametrize(
    ("loop", "turns", "asks"),
    [pytest.param(*loop, id=loop[0]) for loop in LOOPS if loop[0] in KNOWN_TO_NOBODY],
)
@stores
async def test_a_history_that_nobody_knows_is_no_worse_off(
    loop: Variant, turns: int, asks: str, *, store: bool
) -> None:
    """Served, or refused as it would have been; each time by a proxy that knows nothing yet."""
    scenario = honest(loop, turns, asks, "straight", store=store)
    async with client_of(scenario, stream=False) as (standin, client):
        past = await client.converse(standin.base_url)
        for text in map(" ".join, distorted(names_of(past))):
            sent = written(text, past, {})
            body = client.last(sent, past)
            straight = await client.send(standin.base_url, body)
            before = len(standin.received)
            async with proxied(standin) as proxy:
                got = await client.send(proxy, body)
            tries = standin.received[before:]
            assert_safe(sent, past, straight, got, tries)
            if got.status != 200:
                assert got.raw == straight.raw or tries[0].body != body
