"""Repairs and cures are two switches: each serves what it can without the other."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from proxy.settings import Settings
from proxy.standin import StandIn
from proxy.web.app import running
from tests.demand.notation import written
from tests.demand.scenario import Scenario
from tests.demand.table import TABLE, cases, client_of, history, turn

REPAIRED = [scenario for scenario in TABLE if scenario.repaired]


@contextlib.asynccontextmanager
async def proxied(standin: StandIn, **more: Any) -> AsyncIterator[str]:
    """Run a proxy with these settings; gives what a client takes as its base URL."""
    given: dict[str, Any] = {
        "upstream_url": standin.base_url,
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "store_timeout_ms": 5000,
        "log_level": "error",
    }
    async with running(Settings(**(given | more))) as app:
        yield f"{app.url}/v1"


@pytest.mark.parametrize(("scenario", "stream"), cases(REPAIRED))
@pytest.mark.parametrize(
    ("settings", "tries"),
    [
        pytest.param({"repairs": "none"}, 2, id="healed-instead"),
        pytest.param({"heal": "off"}, 1, id="repaired-alone"),
    ],
)
async def test_either_alone_is_enough(
    scenario: Scenario, settings: dict[str, str], tries: int, *, stream: bool
) -> None:
    """What is repaired before the first try is what a refusal would have led to."""
    async with (
        client_of(scenario, stream=stream) as (standin, client),
        proxied(standin, **settings) as proxy,
    ):
        made_at = proxy if scenario.made == "proxied" else standin.base_url
        past = await history(scenario, client, made_at)
        turn(scenario, standin)
        before = len(standin.received)
        sent = written(scenario.sent, past, scenario.more)
        answer = await client.send(proxy, client.last(sent, past))
        received = standin.received[before:]

    final = msgspec.convert(received[-1].json, dict[str, Any])["input"]
    assert (answer.status, answer.said) == (200, "")
    assert final == written(scenario.want or "", past, scenario.more)
    assert len(received) == tries
    assert ("healed" in answer.mark, "repaired" in answer.mark) == (tries == 2, tries == 1)


@pytest.mark.parametrize(("scenario", "stream"), cases(REPAIRED))
async def test_without_both_the_refusal_is_the_clients(scenario: Scenario, *, stream: bool) -> None:
    """Then the proxy injects, and that is all."""
    async with (
        client_of(scenario, stream=stream) as (standin, client),
        proxied(standin, repairs="none", heal="off") as proxy,
    ):
        made_at = proxy if scenario.made == "proxied" else standin.base_url
        past = await history(scenario, client, made_at)
        turn(scenario, standin)
        body = client.last(written(scenario.sent, past, scenario.more), past)
        answer = await client.send(proxy, body)
        straight = await client.send(standin.base_url, body)

    assert (answer.status, answer.raw) == (straight.status, straight.raw)
    assert straight.status == scenario.status
