"""Simultaneous requests in one conversation: no reasoning is lost, doubled or mixed up."""

import asyncio
import contextlib
import copy
import itertools
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.e2e.agent import Agent, Item, Keeps
from tests.e2e.proxies import proxied
from tests.redis_server import RedisServer
from tests.strict import Refusal, StrictResponses

FORKS = 4
SLOW_S = 0.05


def of(agent: Agent) -> str:
    """Return the name of an agent, which is in each of its requests."""
    return str(agent.more["user"])


@contextlib.asynccontextmanager
async def begun(base_url: str, keeps: Keeps, api: StrictResponses) -> AsyncIterator[Agent]:
    """Let an agent have one question answered; check its requests at the end."""
    async with Agent(base_url, "async-stream", keeps, {"user": "first"}) as agent:
        await agent.converse(["Where does it rain?"])
        yield agent
        assert_own_reasoning(api, agent)


@contextlib.asynccontextmanager
async def forked(agent: Agent, name: str) -> AsyncIterator[Agent]:
    """Yield another client that continues the conversation of an agent."""
    more = agent.more | {"user": name}
    async with Agent(agent.base_url, agent.way, agent.keeps, more, agent.api_key) as fork:
        fork.history, fork.whole = copy.copy(agent.history), copy.copy(agent.whole)
        yield fork


def reasoning_in(api: StrictResponses, items: Sequence[Item]) -> list[str]:
    """Return the id of each reasoning item, from its id or its blob; "" for other items."""
    named = []
    for item in items:
        if item.get("type") != "reasoning":
            named.append("")
        elif item.get("id"):
            named.append(item["id"])
        else:
            issued = api.blobs.get(item["encrypted_content"])
            named.append(issued.item_id if issued is not None else "not ours")
    return named


def received_from(api: StrictResponses, agent: Agent) -> list[Item]:
    """Return the bodies of an agent's requests that got a complete response."""
    taken = [one for one in api.received if one.status == 200 and one.finished]
    bodies = [json.loads(one.body) for one in taken]
    return [body for body in bodies if body.get("user") == of(agent)]


def assert_own_reasoning(
    api: StrictResponses, agent: Agent, *, whole: bool = True, twin: Agent | None = None
) -> None:
    """
    Assert that upstream accepted each request of an agent once, with its own reasoning in place.

    Args:
        api: The upstream.
        agent: The agent.
        whole: Whether all of its reasoning must be there.
        twin: An agent with the same words: what its requests got may be repeated.
    """
    theirs = set(reasoning_in(api, twin.whole)) - {""} if twin is not None else set()
    saw = [reasoning_in(api, body["input"]) for body in received_from(api, agent)]
    owned = [reasoning_in(api, step.whole) for step in agent.steps]
    if whole:
        assert saw == owned
    assert len(saw) == len(owned)
    assert any(saw[-1]) or not any(owned[-1])
    for every, own in zip(saw, owned, strict=True):
        rest = iter(own)
        there = [one for one in every if one in own or one not in theirs]
        assert all(one in rest for one in there)  # in this order, and no other
        assert there.count("") == own.count("")


@contextlib.asynccontextmanager
async def replicas(api: StrictResponses, store: RedisServer) -> AsyncIterator[tuple[str, str]]:
    """Run two proxies on one Redis."""
    async with proxied(api, store.url) as one, proxied(api, store.url) as other:
        yield one, other


@pytest.mark.parametrize(
    ("variant", "keeps"),
    [("parallel", "ids"), ("two_reasoning", "no-ids"), ("call_zero", "no-ids")],
)
async def test_two_turns_of_one_conversation_at_once(variant: str, keeps: Keeps) -> None:
    """Two simultaneous questions after one history become two conversations that stay separate."""
    async with (
        StrictResponses(variant, "strict") as api,
        proxied(api) as base_url,
        begun(base_url, keeps, api) as agent,
        forked(agent, "left") as left,
        forked(agent, "right") as right,
    ):
        await asyncio.gather(
            left.converse(["And tomorrow?", "And in June?"]),
            right.converse(["And in Rome?", "And in June?"]),
        )
        assert_own_reasoning(api, left)
        assert_own_reasoning(api, right)


@pytest.mark.parametrize(("variant", "keeps"), [("chain", "no-ids"), ("two_reasoning", "ids")])
async def test_replicas_race_on_one_conversation(
    variant: str, keeps: Keeps, shared_redis: RedisServer
) -> None:
    """Simultaneous forks that alternate between two replicas each get their own reasoning."""
    async with (
        StrictResponses(variant, "strict") as api,
        replicas(api, shared_redis) as pair,
    ):
        urls = itertools.cycle(pair)
        async with contextlib.AsyncExitStack() as stack:
            agent = await stack.enter_async_context(begun(pair[0], keeps, api))
            forks = [
                await stack.enter_async_context(forked(agent, f"fork {number}"))
                for number in range(FORKS)
            ]

            async def go_on(fork: Agent) -> None:
                for question in ("And tomorrow", "And in June"):
                    fork.say(f"{question}, {of(fork)}?")
                    while await fork.step(next(urls)):
                        pass

            await asyncio.gather(*map(go_on, forks))
            for fork in forks:
                assert_own_reasoning(api, fork)


@pytest.mark.parametrize(
    ("variant", "keeps", "whole"),
    [
        ("chain", "ids", True),
        ("preamble", "no-ids", False),
        ("call_zero", "no-ids", False),
        ("message", "no-ids", False),
    ],
)
async def test_one_turn_is_generated_twice_at_once(
    variant: str, keeps: Keeps, whole: bool, shared_redis: RedisServer
) -> None:
    """
    If a turn is generated twice at once, through two replicas, each client gets its own reasoning.

    Where both responses have the same text and no ids, the requests are the same: what the first
    one got is repeated, so each may get the other's reasoning, and nothing else.
    """
    api = StrictResponses(variant, "strict" if whole else "normal")
    async with (
        api,
        replicas(api, shared_redis) as pair,
        begun(pair[0], keeps, api) as agent,
        forked(agent, "left") as left,
        forked(agent, "right") as right,
    ):
        right.base_url = pair[1]
        questions = ["And tomorrow?", "And in June?"]
        await asyncio.gather(left.converse(questions), right.converse(questions))
        assert_own_reasoning(api, left, whole=whole, twin=None if whole else right)
        assert_own_reasoning(api, right, whole=whole, twin=None if whole else left)


@pytest.mark.parametrize("keeps", ["ids", "no-ids"])
async def test_the_sdk_retries(keeps: Keeps, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry of the SDK after a 500 or a 429 sends the same body, and counts as one turn."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    async with (
        StrictResponses("chain", "strict") as api,
        proxied(api) as base_url,
        begun(base_url, keeps, api) as agent,
        forked(agent, "again") as again,
    ):
        again._async = again._async.with_options(max_retries=3)
        for status in (500, 429):
            again.say(f"And after {status}?")
            api.refuse_next(Refusal(status=status, message="Not now.", type="server_error"))
            while await again.step():
                pass
        assert_own_reasoning(api, again)


@pytest.mark.parametrize(("events", "keeps"), [(0, "no-ids"), (12, "no-ids"), (30, "ids")])
async def test_a_turn_is_repeated_during_its_stream(events: int, keeps: Keeps) -> None:
    """A client that repeats a turn during its stream gets the reasoning of the second response."""
    async with (
        StrictResponses("chain", "strict") as api,
        proxied(api) as base_url,
        begun(base_url, keeps, api) as agent,
        forked(agent, "again") as again,
    ):
        for question in ("And tomorrow?", "And in June?"):
            api.behaviour.delay_s = SLOW_S
            again.say(question)
            impatient = asyncio.create_task(again.step())
            await asyncio.sleep(events * SLOW_S / 10 + SLOW_S)
            api.behaviour.delay_s = 0
            second = asyncio.create_task(again.step())  # while the first one still streams
            await asyncio.sleep(SLOW_S)
            impatient.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await impatient
            calls = await second
            while calls:
                calls = await again.step()
        assert_own_reasoning(api, again)
