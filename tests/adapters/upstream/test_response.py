"""An answer is handed on once, in order, whoever waits for it and however he leaves."""

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
    """Counts what an answer asks of what it comes from."""

    def __init__(self) -> None:
        self.went_on = 0
        self.left = 0

    def resume_reading(self) -> None:
        """Read on."""
        self.went_on += 1

    def abandon(self, response: UpstreamResponse) -> None:
        """Learn that nobody wants more of that answer."""
        self.left += response.status == 200


def begun() -> tuple[UpstreamResponse, Source]:
    """Return an answer whose head is there."""
    source = Source()
    response = UpstreamResponse(source, asyncio.get_running_loop().create_future())
    response.begin(200)
    return response, source


def comes(response: UpstreamResponse, data: bytes) -> bool:
    """Let a piece come; tell whether more may be read ahead."""
    response.take(data)
    return response.offer()


async def waiting(response: UpstreamResponse, on_chunk: Any = None) -> asyncio.Task[bytes]:
    """Read, and return once that waits."""
    task = asyncio.ensure_future(response.read(on_chunk))
    await asyncio.sleep(0)
    return task


def refuse(_: bytes) -> bool:
    """Take nothing."""
    return False


async def test_what_is_taken_at_once_wakes_nobody() -> None:
    """What is not taken comes back to who waits, once, and the rest behind it."""
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
async def test_a_reader_that_is_cancelled_loses_nothing(on_chunk: Any) -> None:
    """What comes after that is there for the next read."""
    response, _ = begun()
    task = await waiting(response, on_chunk)
    task.cancel()
    assert comes(response, b"a")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert comes(response, b"b")
    assert await response.read(on_chunk) == b"ab"


async def test_a_reader_that_is_cancelled_as_something_comes_loses_nothing() -> None:
    """As it is when time is up in the same turn of the loop."""
    response, _ = begun()
    task = await waiting(response)
    assert comes(response, b"a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await response.read() == b"a"


async def test_no_more_is_read_ahead_than_a_bound() -> None:
    """Until it is taken; and what is over with asks for nothing: others may have its source."""
    response, source = begun()
    assert comes(response, b"x" * (READ_BUFFER_BYTES - 1))
    assert not comes(response, b"x")
    assert len(await response.read()) == READ_BUFFER_BYTES
    assert source.went_on == 1
    assert not comes(response, b"x" * READ_BUFFER_BYTES)
    response.end()
    assert len(await response.read()) == READ_BUFFER_BYTES
    assert source.went_on == 1


async def test_all_that_came_is_returned_before_the_error() -> None:
    """As often as it is asked for."""
    response, _ = begun()
    comes(response, b"a")
    response.end(UpstreamError("read", "broken"))
    assert response.is_ready
    assert await response.read() == b"a"
    for _ in range(2):
        with pytest.raises(UpstreamError):
            await response.read()


async def test_an_error_in_taking_is_for_who_waits() -> None:
    """A client has left, as a rule."""
    response, _ = begun()

    def on_chunk(_: bytes) -> bool:
        raise ConnectionResetError

    task = await waiting(response, on_chunk)
    assert comes(response, b"a")
    with pytest.raises(ConnectionResetError):
        await task


async def test_nothing_is_said_of_an_error_that_nobody_waits_for() -> None:
    """Who sent has failed in some other way."""
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    response = UpstreamResponse(Source(), loop.create_future())
    response.end(UpstreamError("read", "broken"))
    del response
    gc.collect()
    assert said == []


async def test_it_is_left_once() -> None:
    """And nothing of it is kept then."""
    response, source = begun()
    comes(response, b"a")
    response.close()
    response.close()
    assert source.left == 1


async def test_values_of_a_header_are_one() -> None:
    """As bytes they may be anything."""
    response, _ = begun()
    response.headers = [(b"X-A", b"1"), (b"x-b", b"-"), (b"x-a", b"\xff")]
    assert (response.value(b"x-a"), response.value(b"x-c")) == ("1, \xff", "")
    response, _ = begun()
    response.headers = [(b"CONTENT-TYPE", b"Text/Event-Stream ;charset=utf-8")]
    assert response.content_type == "text/event-stream"
