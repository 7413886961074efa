"""Stages: the functions that play a row of the table."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.demand.client import Answer, Client, api_for
from tests.demand.notation import Item, Past, written
from tests.demand.rows import Scenario
from tests.e2e.proxies import proxied
from tests.fast_lane import IS_EVERY
from tests.strict import Received, StrictResponses


def cases(scenarios: Iterable[Scenario]) -> list[Any]:
    """
    Return each scenario with each way in which its client may read responses.

    The fast lane has one way for each, in turn.
    """
    return [
        pytest.param(
            scenario,
            stream,
            id=f"{scenario.row}-{scenario.title}-{'stream' if stream else 'plain'}",
        )
        for number, scenario in enumerate(scenarios)
        for at, stream in enumerate(scenario.streams)
        if IS_EVERY or at == number % len(scenario.streams)
    ]


@contextlib.asynccontextmanager
async def client_of(
    scenario: Scenario, *, stream: bool
) -> AsyncIterator[tuple[StrictResponses, Client]]:
    """Yield the upstream of a scenario and its client."""
    async with api_for(scenario) as api, aiohttp.ClientSession() as session:
        yield api, Client(session, scenario, stream=stream)


@dataclass(frozen=True, slots=True)
class Stage:
    """
    A scenario up to the client's last request.

    Attributes:
        sent: Items of that request.
        body: Body of that request.
    """

    api: StrictResponses
    client: Client
    proxy: str
    past: Past
    sent: list[Item]
    body: bytes

    async def send(self) -> tuple[Answer, list[Received]]:
        """Send the request through the proxy; return the response, and the requests at upstream."""
        before = len(self.api.received)
        answer = await self.client.send(self.proxy, self.body)
        return answer, self.api.received[before:]

    async def send_straight(self) -> Answer:
        """Send the request directly to upstream."""
        return await self.client.send(self.api.base_url, self.body)


@contextlib.asynccontextmanager
async def set_up(scenario: Scenario, *, stream: bool, **settings: str) -> AsyncIterator[Stage]:
    """Play a scenario up to the client's last request, with a proxy that has these settings."""
    async with (
        client_of(scenario, stream=stream) as (api, client),
        proxied(api, **settings) as proxy,
    ):
        made_at = proxy if scenario.made == "proxied" else api.base_url
        past = await history(scenario, client, made_at)
        turn(scenario, api)
        sent = written(scenario.sent, past, scenario.more)
        yield Stage(api, client, proxy, past, sent, client.last(sent, past))


async def history(scenario: Scenario, client: Client, base_url: str) -> Past:
    """Make the honest history, at this upstream or at one that shares no keys with it."""
    if scenario.made != "elsewhere":
        return await client.converse(base_url)
    async with api_for(scenario) as api:
        return await client.converse(api.base_url)


def turn(scenario: Scenario, api: StrictResponses) -> None:
    """Change the upstream to its behaviour for the last request."""
    api.behaviour.quirks = scenario.then or scenario.quirks
    api.behaviour.continuity = scenario.continuity
    if scenario.expires:
        api.expire()
