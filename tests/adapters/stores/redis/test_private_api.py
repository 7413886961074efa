"""Private parts of redis-py that this package uses: a release that drops one fails here."""

import asyncio
import inspect

import pytest
from hiredis import Reader
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.redis.connections import Tcp, Unix, tcp_options
from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection, RedisSSLContext
from redis.exceptions import ResponseError

# (owner, name of the method, its parameters)
METHODS = [
    (AbstractConnection, "disconnect", ["nowait"]),
    (AbstractConnection, "pack_commands", ["commands"]),
    (AbstractConnection, "send_packed_command", ["command", "check_health"]),
    (AbstractConnection, "read_response", []),
    (AbstractConnection, "_host_error", []),
    (Connection, "_connection_arguments", []),
    (RedisSSLContext, "get", []),
]


@pytest.mark.parametrize(("owner", "name", "parameters"), METHODS)
def test_a_method_exists(owner: type, name: str, parameters: list[str]) -> None:
    """Each method has the parameters that it is called with, in this order."""
    found = list(inspect.signature(getattr(owner, name)).parameters)
    assert found[1 : 1 + len(parameters)] == parameters


def test_connections_have_the_attributes_that_are_read() -> None:
    """A connection has a reader and a writer, and one over TLS uses the overridden method."""
    assert Connection()._writer is None
    assert Connection()._reader is None
    assert SSLConnection().ssl_context.context is None
    assert SSLConnection._connect is Connection._connect
    assert "self._connection_arguments()" in inspect.getsource(Connection._connect)
    assert Connection(host="a", port=1)._connection_arguments() == {"host": "a", "port": 1}


async def test_unread_bytes_are_visible() -> None:
    """They are in the stream or in the parser, whose private attributes are these."""
    source = inspect.getsource(type(Connection()._parser))
    assert "self._stream._buffer" in source
    assert "self._reader.has_data()" in source
    assert asyncio.StreamReader()._buffer == b""  # type: ignore[attr-defined]
    assert not Reader().has_data()


def test_every_connection_is_closed_by_the_overridden_method() -> None:
    """No class of redis-py closes a connection in another way."""
    for kind in (Connection, SSLConnection, UnixDomainSocketConnection):
        assert kind.disconnect is AbstractConnection.disconnect
    assert Tcp.disconnect is Unix.disconnect is not AbstractConnection.disconnect


def test_keep_alive_is_an_argument_of_connections_over_tcp() -> None:
    """A connection accepts the options, and an error reply has its code."""
    options = tcp_options()
    assert (
        Tcp(resolver=Resolver(), **options).socket_keepalive_options
        == options["socket_keepalive_options"]
    )
    assert ResponseError("", status_code="ERR").status_code == "ERR"
