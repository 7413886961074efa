"""The WebSocket handshake with the upstream: the request, each form of refusal, no leaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse
from reasoning_replay.adapters.upstream.websocket import REFUSAL_MAX_BYTES, WebSocketConnector

from tests.adapters.upstream.test_client import whole_of
from tests.patience import SOON_S
from tests.web.scripted import Script, Upstream, scripted, send, wait
from tests.web.wire import head, whole

MAX_BYTES = 1 << 20


@contextlib.asynccontextmanager
async def connecting(read_s: float = SOON_S) -> AsyncIterator[tuple[Upstream, WebSocketConnector]]:
    """Yield an upstream and a connector to it; at the end, check that no task is left."""
    async with scripted() as upstream:
        connector = WebSocketConnector(Timeouts(SOON_S, SOON_S, read_s), egress(upstream.url))
        try:
            yield upstream, connector
        finally:
            await connector.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def refused(connector: WebSocketConnector, url: str, *fields: tuple[bytes, bytes]) -> Any:
    """Request a WebSocket, and return the response that refuses it."""
    opened: list[asyncio.Transport] = []
    answer = await connector.connect(url, [*fields], MAX_BYTES, opened.append, is_compressed=False)
    assert not opened
    assert isinstance(answer, UpstreamResponse)
    return answer


async def test_a_refusal_is_not_read_without_end() -> None:
    """A refusal with a body above the limit is an error."""
    async with connecting() as (upstream, connector):
        upstream.answers(whole(b"x" * 2 * REFUSAL_MAX_BYTES, status="403 No"))
        with pytest.raises(UpstreamError, match="too long"):
            await whole_of(await refused(connector, upstream.url))


async def test_a_refusal_that_hangs_is_cut_off() -> None:
    """A refusal that makes no progress for `read_timeout_s` is an error."""
    async with connecting(read_s=0.1) as (upstream, connector):
        upstream.plays(Script([send(head("Content-Length: 5", status="403 No") + b"x"), wait()]))
        with pytest.raises(UpstreamError, match="ended early"):
            await whole_of(await refused(connector, upstream.url))


async def test_a_header_that_is_not_utf8_is_an_error() -> None:
    """Only UTF-8 can be sent, so a handshake with any other bytes is not sent at all."""
    async with connecting() as (upstream, connector):
        with pytest.raises(UpstreamError, match="UTF-8"):
            await refused(connector, upstream.url, (b"X-a", b"\xff"))
        assert upstream.received == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///x", "http://127.0.0.1:99999/"])
async def test_an_invalid_url_is_an_upstream_error(url: str) -> None:
    """An invalid URL raises UpstreamError, and no exception of aiohttp."""
    async with connecting() as (_, connector):
        with pytest.raises(UpstreamError):
            await refused(connector, url)
