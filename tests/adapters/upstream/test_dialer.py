"""The dialer: its undocumented parts of aiohttp, which a release may drop, and keep-alive."""

import asyncio
import inspect
import socket

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from reasoning_replay.adapters.runtime.tcp import keep_alive_options
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.dialer import Dialer
from reasoning_replay.adapters.upstream.egress import egress
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


async def test_a_connection_is_counted_until_it_is_released() -> None:
    """The connector of aiohttp holds each connection that it opened until it is released."""
    async with scripted() as far:
        dialer = Dialer(5.0, egress(far.url))
        dialled = await dialer.dial(URL(far.url))
        assert len(dialer._connector._acquired) == 1
        dialled.transport.close()
        dialled.release(None)
        assert not dialer._connector._acquired
        await dialer.close()
