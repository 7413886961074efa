"""TCP sockets: keep-alive on the connections of a listening socket, and peers that are not gone."""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from reasoning_replay.adapters.runtime import tcp
from reasoning_replay.adapters.runtime.tcp import is_gone, keep_alive, keep_alive_options

from tests.patience import SOON_S

LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[Any, Any, None]], None]


def test_every_system_of_the_project_has_an_option_for_the_idle_time() -> None:
    """Without it, the system's two hours would apply."""
    assert len(keep_alive_options()) == 3


@pytest.mark.parametrize("is_accepted", [False, True])
def test_keep_alive_is_on(is_accepted: bool) -> None:
    """A socket has the options, and a connection that it accepts has them too."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        keep_alive(listening)
        with (
            socket.create_connection(listening.getsockname()),
            listening.accept()[0] as accepted,
        ):
            one = accepted if is_accepted else listening
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for option, value in keep_alive_options().items():
                assert one.getsockopt(socket.IPPROTO_TCP, option) == value


def test_a_socket_that_cannot_have_it_is_left_alone() -> None:
    """A closed socket, or one without TCP, raises nothing."""
    closed = socket.socket()
    closed.close()
    keep_alive(closed)
    if hasattr(socket, "AF_UNIX"):
        with socket.socket(socket.AF_UNIX) as unix:
            keep_alive(unix)


@LOOPS
@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
def test_a_peer_that_has_no_room_is_not_gone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A peer that reads nothing, but acknowledges each probe, is there, however long it takes.

    TCP_USER_TIMEOUT would end the connection. tests/faults/test_lossy_network.py has peers that are
    gone.
    """
    monkeypatch.setattr(tcp, "GONE_S", 1)

    async def play() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            address = listening.getsockname()
            transport, _ = await loop.create_connection(asyncio.Protocol, *address)
            with listening.accept()[0]:
                transport.write(bytes(8 << 20))
                connection = transport.get_extra_info("socket")
                async with asyncio.timeout(SOON_S):
                    silent_ms = 0
                    # The kernel doubles its pauses, so they exceed GONE_S.
                    while silent_ms < 1500:
                        await asyncio.sleep(0.05)
                        assert not is_gone(transport)
                        info = connection.getsockopt(
                            socket.IPPROTO_TCP, socket.TCP_INFO, tcp._TCP_INFO.size
                        )
                        silent_ms = tcp._TCP_INFO.unpack(info)[-1]
                assert not transport.is_closing()
                transport.abort()

    run(play())


@LOOPS
def test_a_closed_connection_is_not_gone(run: Run) -> None:
    """It ends on its own; uvloop and asyncio raise different errors for it."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        transport, _ = await loop.create_connection(asyncio.Protocol, *address)
        transport.abort()
        for _ in range(3):
            assert not is_gone(transport)
            await asyncio.sleep(0)
        server.close()

    run(play())
