"""How long an upstream is waited for: one time ahead of its head, another one behind it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.pool import UpstreamPool
from reasoning_replay.adapters.upstream.response import UpstreamError

from tests.adapters.upstream.test_pool import whole_of
from tests.web.scripted import Script, scripted, send, wait
from tests.web.wire import END, chunk, head, stream_head

SHORT_S, LONG_S = 0.2, 60.0
LARGE = b"x" * (16 << 20)
TOO_LARGE = bytes(64 << 20)  # more than systems take for who reads nothing


def pool(first_byte_s: float, read_s: float) -> UpstreamPool:
    """Return connections with these times."""
    return UpstreamPool(Timeouts(5.0, first_byte_s, read_s), egress("http://127.0.0.1"))


async def setting_of(sending: object) -> str:
    """Return which time was up."""
    with pytest.raises(UpstreamError) as caught:
        await sending  # type: ignore[misc]
    assert caught.value.source == "timeout"
    return caught.value.setting


async def test_the_head_has_its_own_time() -> None:
    """However short the other one is."""
    async with scripted() as far:
        script = Script([wait(), send(stream_head() + chunk(b"1")), wait()])
        far.plays(script, Script([wait()]))
        near = pool(LONG_S, SHORT_S)
        sending = asyncio.ensure_future(near.send("POST", far.url + "/", [], b"{}"))
        await script.arrived.wait()
        await asyncio.sleep(2 * SHORT_S)
        script.go()
        answer = await sending
        assert await answer.read() == b"1"
        assert await setting_of(answer.read()) == "read_timeout_s"
        answer.close()
        await near.close()

        near = pool(SHORT_S, LONG_S)
        assert await setting_of(near.send("GET", far.url + "/", [], None)) == "first_byte_timeout_s"
        await near.close()


async def test_silence_counts_from_the_head() -> None:
    """Nothing need come behind it."""
    async with scripted() as far:
        far.plays(Script([send(stream_head()), wait()]))
        near = pool(LONG_S, SHORT_S)
        answer = await near.send("GET", far.url + "/", [], None)
        assert await setting_of(asyncio.wait_for(answer.read(), 5)) == "read_timeout_s"
        answer.close()
        await near.close()


async def test_an_answer_that_waits_for_us_is_not_silent() -> None:
    """Its beginning came with the head, and was more than is read ahead."""
    async with scripted() as far:
        far.otherwise = head(f"Content-Length: {len(LARGE)}") + LARGE
        near = pool(LONG_S, SHORT_S)
        for late_s in (0.0, 3 * SHORT_S):  # a connection takes much at once when it has run once
            answer = await near.send("GET", far.url + "/", [], None)
            await asyncio.sleep(late_s)
            assert len(await whole_of(answer)) == len(LARGE)
        assert far.connections == 1
        await near.close()


async def slowly() -> AsyncGenerator[bytes, None]:
    """Give a body of which each part comes late."""
    for _ in range(3):
        await asyncio.sleep(2 * SHORT_S)
        yield b"x"


async def test_a_request_that_comes_late_is_not_upstreams_fault() -> None:
    """It takes all that there is."""
    async with scripted() as far:
        far.plays(Script([send(stream_head() + END)]))
        near = pool(SHORT_S, SHORT_S)
        answer = await near.send("POST", far.url + "/", [], slowly())
        assert far.received[0].body == b"xxx"
        answer.close()
        await near.close()


async def test_a_request_that_is_not_taken_is_given_up() -> None:
    """Otherwise nothing would ever end it; what is left of it is thrown away."""
    script = Script([wait()], reads_body=False)
    async with scripted() as far:
        far.plays(script)
        near = pool(LONG_S, SHORT_S)
        sending = near.send("POST", far.url + "/", [], TOO_LARGE)
        assert await setting_of(asyncio.wait_for(sending, 10)) == "read_timeout_s"
        await near.close()
