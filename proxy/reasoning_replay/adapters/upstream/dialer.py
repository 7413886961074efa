"""
Dialer: opener of connections to upstreams, through aiohttp's connector.

aiohttp does name resolution, TLS and HTTP proxies, but not the exchanges on a connection. This is
the only module that uses undocumented parts of aiohttp's client: `ClientRequest` made by hand,
`TCPConnector.connect`, and `Connection` with its `protocol`. A test names each of them.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from reasoning_replay.adapters.runtime.tcp import keep_alive
from reasoning_replay.adapters.upstream.egress import Egress
from reasoning_replay.adapters.upstream.response import CLOSED, UpstreamError


class DialledConnection:
    """An open connection on which nothing has been sent or read; the caller sets the protocol."""

    def __init__(
        self, connection: Connection, protocol: ResponseHandler, transport: asyncio.Transport
    ) -> None:
        self._connection = connection
        self._protocol = protocol
        self.transport = transport

    def release(self, error: Exception | None) -> None:
        """Report the loss of the connection to aiohttp, with the error that asyncio reported."""
        self._protocol.connection_lost(error)
        self._connection.close()


class Dialer:
    """Opener of connections, through the HTTP proxy if one is set."""

    def __init__(self, connect_timeout_s: float, egress: Egress) -> None:
        """Create the connector, without connecting; requires a running event loop."""
        self._timeout_s = connect_timeout_s
        self._egress = egress
        authorization = egress.proxy_authorization
        self.proxy_headers = {hdrs.PROXY_AUTHORIZATION: authorization} if authorization else {}
        self._timeout = aiohttp.ClientTimeout(
            total=None,
            connect=connect_timeout_s,  # all steps; sock_connect is for one address
            sock_connect=connect_timeout_s,
        )
        self._connector = aiohttp.TCPConnector(limit=0, ssl=egress.tls, socket_factory=kept_alive)

    async def dial(self, url: URL) -> DialledConnection:
        """
        Open a connection to an origin.

        Raises:
            UpstreamError: It cannot be opened, or the upstream sends data before any request.
        """
        proxy_url = self._egress.proxy_url
        request = aiohttp.ClientRequest(
            hdrs.METH_GET,
            url,
            loop=asyncio.get_running_loop(),
            proxy=URL(proxy_url) if proxy_url else None,
            proxy_headers=CIMultiDict(self.proxy_headers),
        )
        with named_errors(self._connector, self._timeout_s):
            connection = await self._connector.connect(request, [], self._timeout)
            protocol, transport = connection.protocol, connection.transport
            if protocol is not None and protocol.is_connected() and protocol.should_close:
                connection.close()
                raise UpstreamError("read", "it sent data before any request")  # not HTTP
            if protocol is None or transport is None or transport.is_closing():
                connection.close()
                raise ConnectionResetError
            return DialledConnection(connection, protocol, transport)

    async def close(self) -> None:
        """Close every connection."""
        await self._connector.close()


def kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for an address, with keep-alive; aiohttp connects it."""
    family, kind, protocol, *_ = address
    connection = socket.socket(family, kind, protocol)
    keep_alive(connection)
    return connection


@contextlib.contextmanager
def named_errors(connector: aiohttp.TCPConnector, connect_timeout_s: float) -> Iterator[None]:
    """
    Convert aiohttp's errors in the block, while it connects, to UpstreamError.

    After an error, names are resolved again: they may lead elsewhere by now, as after a failover.
    """
    try:
        with _named_errors(connect_timeout_s):
            yield
    except UpstreamError:
        connector.clear_dns_cache()
        raise


@contextlib.contextmanager
def _named_errors(connect_timeout_s: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        reason = f"no connection within {connect_timeout_s:g} s"
        raise UpstreamError("timeout", reason, "connect_timeout_s") from error
    except aiohttp.ClientHttpProxyError as error:
        raise UpstreamError("proxy", f"it answered CONNECT with status {error.status}") from error
    except aiohttp.ClientProxyConnectionError as error:
        raise UpstreamError("proxy", f"it cannot be reached: {_reason(error)}") from error
    except (aiohttp.ClientConnectorError, ssl.SSLError) as error:
        raise UpstreamError("connect", _reason(error)) from error
    except aiohttp.WSServerHandshakeError as error:
        reason = f"it switched protocols, but not to a WebSocket: {error.message}"
        raise UpstreamError("read", reason) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        is_closed = isinstance(error, (ConnectionError, aiohttp.ServerDisconnectedError))
        reason = CLOSED if is_closed else type(error).__name__
        raise UpstreamError("read", reason) from error


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
