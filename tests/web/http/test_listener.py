"""Listener: its port is its own, unless processes share it."""

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from reasoning_replay.web.http.listener import Listener

FREE = "127.0.0.1:0"


def listener() -> Listener:
    """Return a listener with empty responses."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response()

    return Listener(web.ServerRunner(web.Server(answer)), "listen")


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system cannot share ports")
async def test_a_port_is_shared_where_that_is_asked_for() -> None:
    """Listeners share a port only if all of them ask for it."""
    first, second, other = listener(), listener(), listener()
    await first.open(FREE, reuse_port=True)
    address = urlsplit(first.url).netloc
    await second.open(address, reuse_port=True)
    assert second.url == first.url
    with pytest.raises(OSError, match=address.rpartition(":")[2]):
        await other.open(address)
    for one in (first, second, other):
        await one.close()


async def test_a_system_that_cannot_share_ports_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without SO_REUSEPORT raises the same error as a port that cannot be opened."""
    monkeypatch.delattr(socket, "SO_REUSEPORT", raising=False)
    with pytest.raises(OSError, match="reuse_port"):
        await listener().open(FREE, reuse_port=True)


async def test_a_client_that_reads_nothing_shows_early() -> None:
    """The kernel buffers little unsent data, so that pending bytes are visible in the process."""
    one = listener()
    await one.open(FREE)
    parts = urlsplit(one.url)
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        await asyncio.sleep(0.01)
        server = one._runner.server
        assert server is not None
        (handler,) = server.connections
        assert handler.transport is not None
        accepted = handler.transport.get_extra_info("socket")
        assert 0 < accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) < 1 << 20
    writer.close()
    await one.close()
