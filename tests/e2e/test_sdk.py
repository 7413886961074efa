"""End to end with the official SDK: a client that drops reasoning, and an upstream that checks."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import get_args

import pytest
from openai import BadRequestError

from tests.e2e.agent import Agent, Item, Keeps, Way
from tests.e2e.proxies import proxied
from tests.e2e.witness import assert_restored
from tests.fast_lane import each_value, first
from tests.redis_server import RedisServer
from tests.strict import StrictResponses
from tests.strict.backends import Quirks
from tests.strict.responses import Continuity
from tests.strict.scripts import LOOPS

LOST = "was provided without its required 'reasoning' item"

VARIANTS: tuple[str, ...] = tuple(LOOPS)
WAYS: tuple[Way, ...] = get_args(Way)
DROPPING: tuple[Keeps, ...] = ("ids", "no-ids")
STORES: dict[str, Item] = {"store-absent": {}, "store-false": {"store": False}}
# Which ids the client keeps, and the strictness of the upstream that refuses its history.
REFUSED: dict[str, tuple[Keeps, Continuity]] = {
    "ids-normal": ("ids", "normal"),
    "ids-strict": ("ids", "strict"),
    "no-ids-strict": ("no-ids", "strict"),
}


@contextlib.asynccontextmanager
async def through_the_proxy(
    api: StrictResponses, way: Way, keeps: Keeps, more: Item, store_url: str = "memory://"
) -> AsyncIterator[Agent]:
    """Run an agent that talks to a proxy in front of the strict API."""
    async with (
        api,
        proxied(api, store_url) as base_url,
        Agent(base_url, way, keeps, more) as agent,
    ):
        yield agent


@each_value(
    variant=VARIANTS,
    continuity=get_args(Continuity),
    keeps=DROPPING,
    store=[*STORES],
    way=WAYS,
    kept_in=["memory", "redis"],
)
async def test_dropped_reasoning_is_injected(  # noqa: PLR0917 - a row is a combination
    variant: str,
    continuity: Continuity,
    keeps: Keeps,
    store: str,
    way: Way,
    kept_in: str,
    shared_redis: RedisServer,
) -> None:
    """In every loop, upstream receives the history that the client should have sent."""
    api = StrictResponses(variant, continuity)
    url = shared_redis.url if kept_in == "redis" else "memory://"
    async with through_the_proxy(api, way, keeps, STORES[store], url) as agent:
        await agent.converse()
        assert_restored(api, agent)


@pytest.mark.parametrize(
    "odd",
    [
        {"chunk_bytes": 23},
        {"always_encrypted": True},
        {"empty_completed_output": True},
        {"rotate_ids": True},
        {"rotate_ids": True, "empty_completed_output": True, "chunk_bytes": 777},
    ],
    ids="+".join,
)
async def test_the_stream_may_look_odd(odd: Item) -> None:
    """
    Unusual streams are captured as well.

    Events may come in pieces, the last event may be empty, and ids may differ between events.
    """
    api = StrictResponses("parallel", "strict", **odd)
    async with through_the_proxy(api, "async-stream", "no-ids", {}) as agent:
        await agent.converse()
        assert_restored(api, agent)


@pytest.mark.parametrize("way", ["async", "async-stream"])
@pytest.mark.parametrize(
    ("profile", "quirks"),
    [
        ("mistral", Quirks(keeps_nothing=True, thinks_aloud=True, takes_blobs=False)),
        ("minimax", Quirks(keeps_nothing=True, thinks_aloud=True, takes_blobs=False)),
        ("meta", Quirks()),
        ("xai", Quirks()),
    ],
)
async def test_an_upstream_is_served_with_its_profile(
    profile: str, quirks: Quirks, way: Way
) -> None:
    """A host that behaves as its vendor's documentation says: stateless with text, or as OpenAI."""
    async with (
        StrictResponses("one_call", "strict", quirks=quirks) as api,
        proxied(api, upstream_profile=profile) as base_url,
        Agent(base_url, way, "ids", {"store": False}) as agent,
    ):
        await agent.converse()
        assert_restored(api, agent)


@pytest.mark.parametrize("variant", first(1, ["call_zero", "message", "two_reasoning"]))
async def test_conversations_of_one_key_never_meet(variant: str) -> None:
    """Eight simultaneous conversations of one key, without ids, each get their own reasoning."""
    async with StrictResponses(variant, "strict") as api, proxied(api) as base_url:

        async def talk(number: int) -> Agent:
            async with Agent(base_url, "async-stream", "no-ids", api_key="sk-shared") as agent:
                return await agent.converse([f"Rain in place {number}?", "And tomorrow?"])

        for agent in await asyncio.gather(*map(talk, range(8))):
            assert_restored(api, agent)


@pytest.mark.parametrize("more", STORES.values(), ids=STORES)
async def test_a_conversation_gets_one_cache_key(more: Item) -> None:
    """The SDK sends none. Two conversations of one tenant have two, and nothing else changes."""
    settings = {"prompt_cache_key": "conversation", "upstream_profile": "openai"}
    keys: list[set[str]] = []
    async with (
        StrictResponses("parallel", "strict") as api,
        proxied(api, **settings) as base_url,
    ):
        for place in ("Oslo", "Rome"):
            before = len(api.received)
            agent = Agent(base_url, "async-stream", "no-ids", more, api_key="sk-shared")
            async with agent:
                await agent.converse([f"Rain in {place}?", "And tomorrow?"])
            assert_restored(api, agent)
            seen = api.received[before:]
            keys.append({json.loads(one.body)["prompt_cache_key"] for one in seen})
            assert len(seen) > 2
    assert [len(key) for key in keys] == [1, 1]
    assert keys[0] != keys[1]


@pytest.mark.parametrize(("keeps", "continuity"), REFUSED.values(), ids=[*REFUSED])
@pytest.mark.parametrize("variant", VARIANTS)
async def test_without_the_proxy_the_same_client_fails(
    variant: str, keeps: Keeps, continuity: Continuity
) -> None:
    """
    Without the proxy, the same client is refused.

    So the upstream of these tests does detect lost reasoning.
    """
    async with (
        StrictResponses(variant, continuity) as api,
        Agent(api.base_url, "async-stream", keeps) as agent,
    ):
        with pytest.raises(BadRequestError, match=LOST):
            await agent.converse()


@each_value(variant=VARIANTS, store=[*STORES], way=WAYS)
async def test_a_client_that_replays_all_is_left_alone(variant: str, store: str, way: Way) -> None:
    """A complete request arrives with the very bytes that the SDK wrote."""
    api = StrictResponses(variant, "strict")
    asking = STORES[store] | {"include": ["reasoning.encrypted_content"]}
    async with through_the_proxy(api, way, "everything", asking) as agent:
        await agent.converse()

    assert [one.body for one in api.received] == [step.body for step in agent.steps]
    for step in agent.steps:
        held = sum(item.get("type") == "reasoning" for item in step.sent)
        assert step.mark == "injected=0" + (f", present={held}" if held else "")


@pytest.mark.parametrize("way", ["sync-stream", "async"])
async def test_unstored_reasoning_can_be_replayed_without_include(
    way: Way,
) -> None:
    """
    Reasoning of a `store: false` response can be replayed without an `include` of the client.

    Upstream would refuse it without blobs; the proxy adds the `include`.
    """
    unstored = {"store": False}
    async with (
        StrictResponses("chain") as api,
        Agent(api.base_url, way, "everything") as agent,
    ):
        agent.more = unstored
        with pytest.raises(Exception, match="Items are not persisted when `store` is set to false"):
            await agent.converse()

    api = StrictResponses("chain", "strict")
    async with through_the_proxy(api, way, "everything", unstored) as agent:
        await agent.converse()
    assert {one.status for one in api.received} == {200}
