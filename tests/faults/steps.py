"""What a scripted upstream may do besides what it is told for other tests."""

import asyncio

from tests.slow_line import reset_now
from tests.web.scripted import Script, Step

__all__ = ["half_close", "hang", "pause", "reset", "reset_now"]


def hang() -> Step:
    """Do nothing until the other side leaves."""

    async def step(script: Script, _: asyncio.StreamWriter) -> None:
        await script.left.wait()

    return step


def pause() -> Step:
    """Let what was sent be read; all is on one loop."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        await asyncio.sleep(0.02)

    return step


def half_close() -> Step:
    """Say that nothing more comes."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()

    return step


def reset() -> Step:
    """Reset the connection."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)  # a reset overtakes what the other side has not read
        reset_now(writer.transport)

    return step
