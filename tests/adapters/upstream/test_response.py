"""An upstream response passes on its data once and in order, also if its reader is cancelled."""

import asyncio
import gc
from typing import Any

import pytest
from reasoning_replay.adapters.upstream.response import (
    READ_BUFFER_BYTES,
    UpstreamError,
    UpstreamResponse,
)


class Source:
    """Owner of a response: counts the calls that it gets."""

    def __init__(self) -> None:
        self.went_on = 0
        self.left = 0

    def resume_reading(self) -> None:
        """Count the call."""
        self.went_on += 1

    def abandon(self, response: UpstreamResponse) -> None:
        """Count the call if the response is the one of `begun`."""
        self.left += response.status == 200

    async def until_sent(self, response: UpstreamResponse) -> None:
        """Return at once."""


def begun() -> tuple[UpstreamResponse, Source]:
    """Return a response with its head complete."""
    source = Source()
    response = UpstreamResponse(source, asyncio.get_running_loop().create_future())
    response.begin(200)
    return response, source


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


async def test_a_consumed_piece_does_not_wake_the_reader() -> None:
    """The reader gets the first piece that its callback does not consume, once, then the rest."""
    response, _ = begun()
    taken: list[bytes] = []

    def on_chunk(data: bytes) -> bool:
        taken.append(data)
        return data != b"slow"

    task = await waiting(response, on_chunk)
    for data in (b"a", b"b", b"slow", b"c", b"d"):
        assert comes(response, data)
    assert taken == [b"a", b"b", b"slow"]
    assert await task == b"slow"
    assert await response.read(refuse) == b"cd"
    response.end()
    assert await response.read(on_chunk) == b""


@pytest.mark.parametrize("on_chunk", [None, refuse], ids=["returned", "called"])
async def test_a_cancelled_read_loses_no_data(on_chunk: Any) -> None:
    """Data that arrives after a read is cancelled is returned by the next read."""
    response, _ = begun()
    task = await waiting(response, on_chunk)
    task.cancel()
    assert comes(response, b"a")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert comes(response, b"b")
    assert await response.read(on_chunk) == b"ab"


async def test_a_read_cancelled_as_data_arrives_loses_no_data() -> None:
    """A piece is not lost if the read is cancelled in the same step of the event loop."""
    response, _ = begun()
    task = await waiting(response)
    assert comes(response, b"a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await response.read() == b"a"


async def test_the_read_buffer_is_bounded() -> None:
    """Reading pauses at the limit and resumes after a read, except if the response is over."""
    response, source = begun()
    assert comes(response, b"x" * (READ_BUFFER_BYTES - 1))
    assert not comes(response, b"x")
    assert len(await response.read()) == READ_BUFFER_BYTES
    assert source.went_on == 1
    assert not comes(response, b"x" * READ_BUFFER_BYTES)
    response.end()
    assert len(await response.read()) == READ_BUFFER_BYTES
    assert source.went_on == 1


async def test_data_is_returned_before_the_error() -> None:
    """All data is returned before the error, and the error is raised by each later read."""
    response, _ = begun()
    comes(response, b"a")
    response.end(UpstreamError("read", "broken"))
    assert response.is_ready
    assert await response.read() == b"a"
    raised = []
    for _ in range(2):
        with pytest.raises(UpstreamError, match="broken") as caught:
            await response.read()
        raised.append(caught.value)
    assert raised[0] is not raised[1], "each has frames of its own"


async def test_an_error_of_the_callback_reaches_the_reader() -> None:
    """An exception of `on_chunk`, usually that the client has disconnected, is raised by `read`."""
    response, _ = begun()

    def on_chunk(_: bytes) -> bool:
        raise ConnectionResetError

    task = await waiting(response, on_chunk)
    assert comes(response, b"a")
    with pytest.raises(ConnectionResetError):
        await task


async def test_an_error_without_a_waiter_is_not_reported() -> None:
    """The event loop does not report an error for which no caller waits."""
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    response = UpstreamResponse(Source(), loop.create_future())
    response.end(UpstreamError("read", "broken"))
    del response
    gc.collect()
    assert said == []


async def test_a_response_is_abandoned_once() -> None:
    """A response that is closed twice is abandoned once."""
    response, source = begun()
    comes(response, b"a")
    response.close()
    response.close()
    assert source.left == 1


async def test_the_values_of_a_header_are_joined() -> None:
    """The values of a repeated header are joined by commas, in Latin-1; a missing one is empty."""
    response, _ = begun()
    response.headers = [(b"X-A", b"1"), (b"x-b", b"-"), (b"x-a", b"\xff")]
    assert (response.value(b"x-a"), response.value(b"x-c")) == ("1, \xff", "")
    response, _ = begun()
    response.headers = [(b"CONTENT-TYPE", b"Text/Event-Stream ;charset=utf-8")]
    assert response.content_type == "text/event-stream"
