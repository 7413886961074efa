"""The dialer: its undocumented parts of aiohttp, which a release may drop, and keep-alive."""

import asyncio
import inspect
import socket

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from reasoning_replay.adapters.runtime.tcp import keep_alive_options
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.dialer import Dialer
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.response import UpstreamError
from reasoning_replay.adapters.upstream.websocket import WebSocketConnector
from yarl import URL

from tests.web.scripted import scripted


def test_every_undocumented_name_exists() -> None:
    """Each undocumented name exists, with the parameters that the dialer passes."""
    made = inspect.signature(aiohttp.ClientRequest.__init__).parameters
    assert {"loop", "proxy", "proxy_headers"} <= made.keys()
    assert list(inspect.signature(aiohttp.TCPConnector.connect).parameters) == [
        "self",
        "req",
        "traces",
        "timeout",
    ]
    for name in ("protocol", "transport"):
        assert isinstance(inspect.getattr_static(Connection, name), property)
    assert isinstance(inspect.getattr_static(ResponseHandler, "should_close"), property)
    for name in ("is_connected", "connection_lost"):
        assert callable(getattr(ResponseHandler, name))


async def test_each_connection_is_kept_alive() -> None:
    """Both connectors dial sockets with keep-alive: for exchanges and for WebSockets."""
    async with scripted() as far:
        dialer = Dialer(5.0, egress(far.url))
        sockets = WebSocketConnector(Timeouts(5.0, 5.0, 5.0), egress(far.url))
        for connector in dialer._connector, sockets._connector:
            dialled = await connector.connect(
                aiohttp.ClientRequest("GET", URL(far.url), loop=asyncio.get_running_loop()),
                [],
                aiohttp.ClientTimeout(),
            )
            assert dialled.transport is not None
            connection = dialled.transport.get_extra_info("socket")
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for option, value in keep_alive_options().items():
                assert connection.getsockopt(socket.IPPROTO_TCP, option) == value
            dialled.close()
        await dialer.close()
        await sockets.close()


class Moving(AbstractResolver):
    """A name that leads to an address where nothing listens, and then to another one."""

    def __init__(self) -> None:
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the address of the name by now."""
        self.asked += 1
        address = "127.0.0.1" if self.asked > 1 else "127.0.0.2"
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Do nothing."""


async def test_a_name_that_leads_elsewhere_is_followed_after_a_failure() -> None:
    """Names are cached for some seconds, but not after a connection to their address failed."""
    async with scripted() as far:
        dialer = Dialer(5.0, egress(far.url))
        dialer._connector._resolver = names = Moving()
        url = URL(far.url).with_host("far.test")
        with pytest.raises(UpstreamError, match=r"far\.test"):
            await dialer.dial(url)
        for _ in range(2):
            dialled = await dialer.dial(url)
            dialled.transport.close()
            dialled.release(None)
        assert names.asked == 2
        await dialer.close()
