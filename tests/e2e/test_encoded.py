"""Encoded request bodies: the official SDK over a transport that compresses, as Codex does."""

import gzip
from collections.abc import Callable

import httpx2
import pytest
import zstandard

from tests.e2e.agent import Agent, Keeps, Way
from tests.e2e.proxies import proxied
from tests.e2e.witness import assert_restored
from tests.standin import StandIn

WAYS = pytest.mark.parametrize("way", ["async", "async-stream"])


class Encoding(httpx2.AsyncHTTPTransport):
    """
    A transport that encodes every request body.

    Attributes:
        bodies: The encoded bodies.
    """

    def __init__(self, coding: str, encode: Callable[[bytes], bytes]) -> None:
        """Use this content coding, and its function."""
        super().__init__(verify=False)
        self.bodies: list[bytes] = []
        self._coding = coding
        self._encode = encode

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request with an encoded body."""
        body = self._encode(await request.aread())
        self.bodies.append(body)
        headers = {
            name: value for name, value in request.headers.items() if name != "content-length"
        }
        encoded = httpx2.Request(
            request.method,
            request.url,
            headers=headers | {"content-encoding": self._coding},
            content=body,
            extensions=request.extensions,
        )
        return await super().handle_async_request(encoded)


@WAYS
@pytest.mark.parametrize("keeps", ["ids", "no-ids"])
async def test_dropped_reasoning_is_injected_into_an_encoded_body(way: Way, keeps: Keeps) -> None:
    """
    Reasoning is injected into a zstd body.

    The upstream cannot read zstd, so it receives the complete history without an encoding.
    """
    transport = Encoding("zstd", zstandard.ZstdCompressor().compress)
    standin = StandIn("chain", "strict")
    async with (
        standin,
        proxied(standin) as base_url,
        Agent(base_url, way, keeps, {"store": False}, transport=transport) as agent,
    ):
        await agent.converse()
        assert_restored(standin, agent)

    assert len(transport.bodies) == len(agent.steps)
    names = {name.lower() for one in standin.received for name, _ in one.headers}
    assert "content-encoding" not in names


@WAYS
async def test_a_complete_body_arrives_as_it_was_encoded(way: Way) -> None:
    """A gzip body that needs no injection arrives with the same bytes."""
    transport = Encoding("gzip", gzip.compress)
    standin = StandIn("chain", "strict")
    more = {"store": False, "include": ["reasoning.encrypted_content"]}
    async with (
        standin,
        proxied(standin) as base_url,
        Agent(base_url, way, "everything", more, transport=transport) as agent,
    ):
        await agent.converse()

    assert [one.body for one in standin.received] == transport.bodies
    assert {one.status for one in standin.received} == {200}
    assert all(step.mark.startswith("injected=0") for step in agent.steps)
