"""Model switch: the other model's reasoning costs one refusal, and no request loses its own."""

import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any, get_args

from tests.e2e.agent import Agent, Item, Keeps, Way
from tests.e2e.proxies import proxied
from tests.fast_lane import each_value
from tests.redis_server import RedisServer
from tests.strict import StrictResponses
from tests.strict.backends import OtherModel, Quirks
from tests.strict.upstream import Received

# Of one generation: only upstream knows that neither reads the reasoning of the other.
ONE, OTHER = "gpt-5.4", "gpt-5.6-sol"
ASKING: Item = {"store": False, "include": ["reasoning.encrypted_content"]}
TURNS = {"often": [ONE, OTHER, ONE, OTHER, ONE], "back": [ONE, OTHER, ONE], "there": [ONE, OTHER]}
REQUESTS = 4  # of a turn of this loop
REPLICAS = {"memory": 1, "redis": 2}


@contextlib.asynccontextmanager
async def behind(
    api: StrictResponses, kept_in: str, redis: RedisServer
) -> AsyncIterator[list[str]]:
    """Run the replicas that share a store; yield their base URLs."""
    url = f"{redis.url}?prefix=rr-{secrets.token_hex(8)}" if kept_in == "redis" else "memory://"
    shared: dict[str, Any] = {"store_url": url, "scope_secret": "one for all replicas"}
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(api)
        count = REPLICAS[kept_in]
        yield [await stack.enter_async_context(proxied(api, **shared)) for _ in range(count)]


def by_value(items: Sequence[Item]) -> list[Item]:
    """Return the items without their ids, which only some clients keep."""
    return [{name: value for name, value in item.items() if name != "id"} for item in items]


def readable(api: StrictResponses, items: Sequence[Item], model: str) -> list[Item]:
    """Return a history without the reasoning of other models."""
    return [
        item
        for item in items
        if item.get("type") != "reasoning" or api.blobs[item["encrypted_content"]].family == model
    ]


@each_value(
    turns=[*TURNS],
    late=(0, 2),
    other_model=get_args(OtherModel),
    keeps=("everything", "ids", "no-ids"),
    way=("sync", "async-stream", "async", "sync-stream"),
    kept_in=[*REPLICAS],
)
async def test_a_model_switch_costs_one_refusal_at_most(  # noqa: PLR0917 - a row is a combination
    turns: str,
    late: int,
    other_model: OtherModel,
    keeps: Keeps,
    way: Way,
    kept_in: str,
    shared_redis: RedisServer,
) -> None:
    """
    Each request has all reasoning of its own model, in place, and none of the other one.

    A user changes the model before a question, or some requests later, in the middle of a turn.
    """
    api = StrictResponses("chain", quirks=Quirks(other_model=other_model))
    refused: list[int] = []
    async with (
        behind(api, kept_in, shared_redis) as replicas,
        Agent("", way, keeps, dict(ASKING)) as agent,
    ):
        replica = itertools.cycle(replicas)
        for number in range(REQUESTS * len(TURNS[turns])):
            model = TURNS[turns][max(0, number - late) // REQUESTS]
            if model != agent.more.get("model"):
                agent.more["model"] = model
                refused.append(0)
            if number % REQUESTS == 0:
                agent.say(f"Where does it rain on day {number}?")
            before = len(api.received)
            await agent.step(next(replica))
            refused[-1] += len(api.received) - before - 1
            got: Received = api.received[-1]
            assert got.status == 200
            want = readable(api, agent.steps[-1].whole, model)
            assert by_value(got.json["input"]) == by_value(want)
    assert refused[0] == 0
    assert max(refused) <= (1 if keeps == "everything" else 0)
