"""The watch over connections that an event loop leaves open."""

import asyncio
import socket

import pytest

from tests.left_open import left_open


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_loop_that_leaves_a_connection_open_is_told_of(is_closed: bool) -> None:
    """Its own test fails, and the collector finds nothing later."""
    loop = asyncio.SelectorEventLoop()
    ours, theirs = socket.socketpair()

    async def connect() -> None:
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
        if is_closed:
            transport.close()
            await asyncio.sleep(0)

    loop.run_until_complete(connect())
    theirs.close()
    if is_closed:
        loop.close()
        return
    with pytest.warns(ResourceWarning, match="left open by a loop: <_SelectorSocketTransport"):
        loop.close()
    assert left_open(loop) == []
