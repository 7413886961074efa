"""The whole table, and what it takes to play an entry of it."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import aiohttp
import pytest

from proxy.standin import StandIn
from tests.demand import (
    blobs,
    duplicates,
    followers,
    injected,
    order,
    other,
    passing,
    references,
)
from tests.demand.client import Client, standin_for
from tests.demand.notation import Past
from tests.demand.scenario import Scenario

__all__ = ["TABLE", "cases", "client_of", "history", "one_of_each", "turn"]

TABLE = [
    *injected.SCENARIOS,
    *followers.SCENARIOS,
    *order.SCENARIOS,
    *references.SCENARIOS,
    *duplicates.SCENARIOS,
    *blobs.SCENARIOS,
    *other.SCENARIOS,
    *passing.SCENARIOS,
]


def cases(scenarios: Iterable[Scenario]) -> list[Any]:
    """Each scenario, in each way that its client may read answers."""
    return [
        pytest.param(
            scenario,
            stream,
            id=f"{scenario.row}-{scenario.title}-{'stream' if stream else 'plain'}",
        )
        for scenario in scenarios
        for stream in scenario.streams
    ]


@contextlib.asynccontextmanager
async def client_of(scenario: Scenario, *, stream: bool) -> AsyncIterator[tuple[StandIn, Client]]:
    """The upstream of a scenario and its client."""
    async with standin_for(scenario) as standin, aiohttp.ClientSession() as session:
        yield standin, Client(session, scenario, stream=stream)


async def history(scenario: Scenario, client: Client, base_url: str) -> Past:
    """Make the honest history, here or at an upstream that knows nothing of this one."""
    if scenario.made != "elsewhere":
        return await client.converse(base_url)
    async with standin_for(scenario) as standin:
        standin._sealer = type(standin._sealer)(b"another region")
        standin._mint = type(standin._mint)(b"another region")
        return await client.converse(standin.base_url)


def turn(scenario: Scenario, standin: StandIn) -> None:
    """Let upstream become what it is when the last request arrives."""
    standin.behaviour.quirks = scenario.then or scenario.quirks
    standin.behaviour.continuity = scenario.continuity
    if scenario.expires:
        standin.ledger.expire()


def one_of_each() -> list[Scenario]:
    """The first scenario in which nothing but an injection is needed, and of each diagnosis."""
    first: dict[str, Scenario] = {}
    for scenario in TABLE:
        if scenario.want is not None and not scenario.repaired:
            first.setdefault(scenario.healed, scenario)
    return list(first.values())
