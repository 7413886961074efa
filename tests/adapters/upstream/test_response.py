"""An upstream response passes on its data once and in order, also if its reader is cancelled."""

import asyncio
from typing import Any

import pytest
from reasoning_replay.adapters.upstream.response import UpstreamResponse

from tests.adapters.upstream.test_response_parser import Nowhere


def begun() -> UpstreamResponse:
    """Return a response with its head complete."""
    response = UpstreamResponse(Nowhere(), asyncio.get_running_loop().create_future())
    response.begin(200)
    return response


def comes(response: UpstreamResponse, data: bytes) -> bool:
    """Add a piece; return whether the buffer has room for more."""
    response.take(data)
    return response.offer()


async def waiting(response: UpstreamResponse, on_chunk: Any = None) -> asyncio.Task[bytes]:
    """Start a read, and return its task once it waits."""
    task = asyncio.ensure_future(response.read(on_chunk))
    await asyncio.sleep(0)
    return task


def refuse(_: bytes) -> bool:
    """Consume no piece."""
    return False


@pytest.mark.parametrize("on_chunk", [None, refuse], ids=["returned", "called"])
async def test_a_cancelled_read_loses_no_data(on_chunk: Any) -> None:
    """Data that arrives after a read is cancelled is returned by the next read."""
    response = begun()
    task = await waiting(response, on_chunk)
    task.cancel()
    assert comes(response, b"a")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert comes(response, b"b")
    assert await response.read(on_chunk) == b"ab"


async def test_a_read_cancelled_as_data_arrives_loses_no_data() -> None:
    """A piece is not lost if the read is cancelled in the same step of the event loop."""
    response = begun()
    task = await waiting(response)
    assert comes(response, b"a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await response.read() == b"a"


async def test_an_error_of_the_callback_reaches_the_reader() -> None:
    """An exception of `on_chunk`, usually that the client has disconnected, is raised by `read`."""
    response = begun()

    def on_chunk(_: bytes) -> bool:
        raise ConnectionResetError

    task = await waiting(response, on_chunk)
    assert comes(response, b"a")
    with pytest.raises(ConnectionResetError):
        await task


async def test_the_values_of_a_header_are_joined() -> None:
    """The values of a repeated header are joined by commas, in Latin-1; a missing one is empty."""
    response = begun()
    response.headers = [(b"X-A", b"1"), (b"x-b", b"-"), (b"x-a", b"\xff")]
    assert (response.value(b"x-a"), response.value(b"x-c")) == ("1, \xff", "")
    response = begun()
    response.headers = [(b"CONTENT-TYPE", b"Text/Event-Stream ;charset=utf-8")]
    assert response.content_type == "text/event-stream"
