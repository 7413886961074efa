"""The handshake with the upstream: what it sends, what it takes for an answer, what it leaves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse
from reasoning_replay.adapters.upstream.websocket import REFUSAL_MAX_BYTES, WebSocketConnector

from tests.web.scripted import Script, Upstream, scripted, send, wait
from tests.web.wire import head, whole

MAX_BYTES = 1 << 20
SOON_S = 3.0
END = b"0\r\n\r\n"


@contextlib.asynccontextmanager
async def connecting(read_s: float = SOON_S) -> AsyncIterator[tuple[Upstream, WebSocketConnector]]:
    """Give an upstream and what connects to it; then nothing is left open."""
    async with scripted() as upstream:
        connector = WebSocketConnector(Timeouts(SOON_S, SOON_S, read_s), egress(upstream.url))
        try:
            yield upstream, connector
        finally:
            await connector.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def refused(connector: WebSocketConnector, url: str, *fields: tuple[bytes, bytes]) -> Any:
    """Ask for a WebSocket, and be refused."""
    answer = await connector.connect(url, [*fields], MAX_BYTES, is_compressed=False)
    assert isinstance(answer, UpstreamResponse)
    return answer


async def body_of(answer: UpstreamResponse) -> bytes:
    """Read it to its end."""
    read = b""
    while piece := await answer.read():
        read += piece
    return read


async def test_a_refusal_is_not_read_without_end() -> None:
    """What is too long is broken off."""
    async with connecting() as (upstream, connector):
        upstream.answers(whole(b"x" * 2 * REFUSAL_MAX_BYTES, status="403 No"))
        with pytest.raises(UpstreamError, match="too long"):
            await body_of(await refused(connector, upstream.url))


async def test_a_refusal_that_hangs_is_broken_off() -> None:
    """After `read_timeout_s`."""
    async with connecting(read_s=0.1) as (upstream, connector):
        upstream.plays(Script([send(head("Content-Length: 5", status="403 No") + b"x"), wait()]))
        with pytest.raises(UpstreamError, match="ended early"):
            await body_of(await refused(connector, upstream.url))


async def test_a_header_that_is_no_text_is_not_changed() -> None:
    """Only UTF-8 can be sent, so the handshake is not sent at all."""
    async with connecting() as (upstream, connector):
        with pytest.raises(UpstreamError, match="UTF-8"):
            await refused(connector, upstream.url, (b"X-a", b"\xff"))
        assert upstream.received == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///x", "http://127.0.0.1:99999/"])
async def test_what_is_no_url_is_an_error_of_its_own(url: str) -> None:
    """And none of the proxy's."""
    async with connecting() as (_, connector):
        with pytest.raises(UpstreamError):
            await refused(connector, url)
