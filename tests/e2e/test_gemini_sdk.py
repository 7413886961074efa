"""Gemini's API with Google's SDK, and an upstream that judges the signatures it receives."""

import contextlib
from collections.abc import AsyncIterator
from typing import get_args

import pytest
from google.genai.errors import ClientError
from reasoning_replay.strict_api import QUESTIONS, SCENARIOS, Item, StrictApi, server

from tests.e2e.agent import Way
from tests.e2e.gemini_agent import GeminiAgent, GeminiKeeps
from tests.e2e.proxies import proxied
from tests.fast_lane import each_value
from tests.strict_api.scripted import listening

WAYS: tuple[Way, ...] = get_args(Way)
ASKED = ("Where does it rain today?", "And tomorrow?")
STRICT, TOLERANT = "gemini-3-pro-preview", "gemini-2.5-flash"


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that the upstream receives, byte for byte."""
    bodies: list[bytes] = []
    read = server.read_body

    def noted(raw: bytes, history: str) -> Item:
        bodies.append(raw)
        return read(raw, history)

    monkeypatch.setattr(server, "read_body", noted)
    return bodies


@contextlib.asynccontextmanager
async def through_proxy(scenario: str) -> AsyncIterator[tuple[StrictApi, str]]:
    """Run a scenario's API and a proxy in front of it; yield both."""
    async with (
        listening("gemini", scenario=scenario) as upstream,
        proxied(upstream, upstream_profile="gemini") as base_url,
    ):
        yield upstream, base_url


def assert_whole(upstream: StrictApi) -> None:
    """Assert that no request was refused, lost reasoning, or moved its prefix."""
    emitted = 0
    for exchange in upstream.exchanges:
        judgement = exchange.judgement
        assert judgement is not None
        assert exchange.refused is None
        assert [one.state for one in judgement.findings] == ["whole"] * emitted
        assert (judgement.moved, judgement.cached) == ("", judgement.known)
        emitted += exchange.emitted
    assert emitted > 1


@each_value(way=WAYS, keeps=["visible", "nameless"])
async def test_a_client_that_drops_signatures_is_refused(way: Way, keeps: GeminiKeeps) -> None:
    """Straight to the upstream, the second request fails with the message of the vendor."""
    async with (
        listening("gemini") as upstream,
        GeminiAgent(upstream.base_url, way, keeps, model=STRICT) as agent,
    ):
        with pytest.raises(ClientError, match="is missing a thought_signature"):
            await agent.converse(ASKED)
        assert len(upstream.exchanges) == 2


@each_value(way=WAYS, keeps=["visible", "nameless"])
async def test_a_tolerant_model_forgets(way: Way, keeps: GeminiKeeps) -> None:
    """An older model goes on without any of its reasoning, and does not say so."""
    async with (
        listening("gemini") as upstream,
        GeminiAgent(upstream.base_url, way, keeps, model=TOLERANT) as agent,
    ):
        await agent.converse(ASKED)
    last = upstream.exchanges[-1].judgement
    assert last is not None
    assert {one.state for one in last.findings} == {"missing"}
    assert last.cached < last.known


@each_value(
    scenario=[*SCENARIOS],
    way=WAYS,
    keeps=get_args(GeminiKeeps),
    model=[STRICT, TOLERANT],
    thoughts=["", "shown"],
)
async def test_through_the_proxy_all_reasoning_is_whole(  # noqa: PLR0917 - a fixture, and a row
    arrived: list[bytes], scenario: str, way: Way, keeps: GeminiKeeps, model: str, thoughts: str
) -> None:
    """
    Whatever the client keeps, with ids and without, as JSON and as a stream.

    Requests of a client that keeps everything arrive as the bytes that it wrote.
    """
    shown = {"thinking_config": {"include_thoughts": True}} if thoughts else {}
    async with (
        through_proxy(scenario) as (upstream, base_url),
        GeminiAgent(base_url, way, keeps, shown, model=model) as agent,
    ):
        await agent.converse(ASKED[: QUESTIONS.get(scenario, 1)] + ASKED[1:])
    assert_whole(upstream)
    assert (arrived == agent.bodies) == (keeps == "everything")
