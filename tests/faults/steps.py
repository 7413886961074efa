"""Further steps of a scripted upstream, for faults."""

import asyncio

from tests.slow_line import reset_now
from tests.web.scripted import Script, Step

__all__ = ["half_close", "hang", "pause", "reset", "reset_now"]


def hang() -> Step:
    """Do nothing until the other side closes the connection."""

    async def step(script: Script, _: asyncio.StreamWriter) -> None:
        await script.left.wait()

    return step


def pause() -> Step:
    """Wait until the sent bytes are read; all peers share one event loop."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        await asyncio.sleep(0.02)

    return step


def stall() -> Step:
    """Read nothing more, and close once the test says so: the end of the other side is not seen."""

    async def step(script: Script, writer: asyncio.StreamWriter) -> None:
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        await script.told.acquire()
        writer.transport.abort()

    return step


def half_close() -> Step:
    """Close the sending side."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()

    return step


def reset() -> Step:
    """Reset the connection."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)  # a reset discards what the other side has not read
        reset_now(writer.transport)

    return step
