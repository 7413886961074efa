"""Listener: its port is its own, unless processes share it."""

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
