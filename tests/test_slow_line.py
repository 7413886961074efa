"""The slow line leaves nothing to the tests after it."""

import asyncio
import socket

import pytest

from tests.slow_line import reset_now, slow_line


@pytest.mark.parametrize("turns", range(12))
def test_a_connection_that_is_being_accepted_ends_with_the_line(turns: int) -> None:
    """Its loop, which ends directly afterwards, leaves no connection open."""

    async def main(port: int) -> None:
        async with slow_line(port) as line:
            connecting = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", line.port))
            for _ in range(turns):
                await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.wait([connecting])
        if not connecting.cancelled():
            _, writer = connecting.result()
            reset_now(writer.transport)
            await asyncio.sleep(0)

    with socket.create_server(("127.0.0.1", 0)) as server:
        asyncio.run(main(server.getsockname()[1]))
