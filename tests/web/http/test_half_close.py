"""A client that closes its side together with its request gets the response."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop
from reasoning_replay.web.http import client_connection

from tests.faults.steps import hang, pause
from tests.patience import LONG_S, SOON_S
from tests.web.line import request
from tests.web.scripted import Script, send, wait
from tests.web.wire import ASK, END, as_json, chunk, stream_head, whole
from tests.web.world import MODEL, World, eventually, post, world

KEY = "Authorization: Bearer sk-a"
REQUEST = post({"model": MODEL, "input": [ASK]}, KEY)
Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


@pytest.fixture(autouse=True)
def _no_request_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count each FIN of these tests as a part of the request: machines may be busy."""
    monkeypatch.setattr(client_connection, "HALF_CLOSE_S", LONG_S)


@contextlib.asynccontextmanager
async def half_closed(w: World, data: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Send bytes and close the sending side; give the other side, and close it at the end."""
    parts = urlsplit(w.app.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(data)
    writer.write_eof()
    try:
        yield reader
    finally:
        writer.close()


async def answer_to(w: World, data: bytes) -> bytes:
    """Return all bytes until the proxy closes the connection."""
    async with half_closed(w, data) as reader:
        return await asyncio.wait_for(reader.read(), SOON_S)


@LOOPS
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_it_is_answered(version: bytes, is_stream: bool, run: Run) -> None:
    """The response is complete, also if it begins and ends long after the FIN."""
    sent = whole(b"{}") if not is_stream else stream_head() + chunk(b"data: 1\n\n")
    rest = b"" if not is_stream else chunk(b"data: 2\n\n") + END
    body = b"{}" if not is_stream else b"data: 1\n\ndata: 2\n\n"
    is_framed = is_stream and version == b"1.1"

    async def play() -> None:
        async with world() as w:
            script = Script([wait(), send(sent), wait(), send(rest)])
            w.upstream.plays(script)
            given = asyncio.ensure_future(
                answer_to(w, REQUEST.replace(b"HTTP/1.1", b"HTTP/" + version))
            )
            for _ in range(2):
                await asyncio.wait_for(script.arrived.wait(), SOON_S)
                await asyncio.sleep(0.05)
                script.go()
            head, _, seen = (await given).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            if is_framed:
                assert seen == chunk(b"data: 1\n\n") + chunk(b"data: 2\n\n") + END
            else:
                assert seen == body
            assert w.counted("exchanges_total", outcome="ok") == 1

    run(play())


@LOOPS
def test_each_pipelined_request_is_answered(run: Run) -> None:
    """The connection is closed after the last response."""

    async def play() -> None:
        async with world() as w:
            w.upstream.answers(*(whole(b"%d" % number) for number in range(3)))
            seen = await answer_to(w, REQUEST * 3)
            assert [part[:1] for part in seen.split(b"\r\n\r\n")[1:]] == [b"0", b"1", b"2"]

    run(play())


@LOOPS
def test_a_large_body(run: Run) -> None:
    """The FIN is read after the last byte, however long the upload takes."""
    body = as_json({"model": MODEL, "input": [ASK], "x": "x" * (8 << 20)})

    async def play() -> None:
        async with world() as w:
            for target in "/v1/responses", "/v1/files":
                w.upstream.answers(whole(b"{}"))
                seen = await answer_to(w, request("POST", target, KEY, body=body))
                assert seen.endswith(b"{}")
                assert w.upstream.received[-1].body == body

    run(play())


@LOOPS
def test_the_proxy_answers_itself(run: Run) -> None:
    """An error of the proxy arrives as well."""

    async def play() -> None:
        async with world(upstream_url="http://127.0.0.1:9/v1") as w:
            assert b"upstream_unreachable" in await answer_to(w, REQUEST)

    run(play())


@LOOPS
@pytest.mark.parametrize("is_silent", [False, True])
def test_a_client_that_has_left_cancels_the_upstream(is_silent: bool, run: Run) -> None:
    """
    Its system resets the connection at the first write.

    The next write ends the exchange, or a timer if the upstream is silent (on Linux).
    """
    if is_silent and sys.platform != "linux":
        pytest.skip("TCP_INFO is Linux's")
    event = chunk(b"data: 1\n\n")
    more = [wait()] if is_silent else [pause(), send(event)] * 9

    async def play() -> None:
        async with world(client_timeout_s=0.4 if is_silent else LONG_S) as w:
            script = Script([wait(), send(stream_head() + event), *more, hang()])
            w.upstream.plays(script)
            async with half_closed(w, REQUEST):
                await asyncio.wait_for(script.arrived.wait(), SOON_S)
            await asyncio.sleep(0.05)
            assert w.counted("in_flight") == 1
            script.go()
            await asyncio.wait_for(script.left.wait(), SOON_S)
            await eventually(lambda: w.counted("exchanges_total", outcome="client_gone") == 1)

    run(play())


@LOOPS
@pytest.mark.parametrize("cut", [1, 20, len(REQUEST) - 5])
def test_half_a_request_is_none(cut: int, run: Run) -> None:
    """A FIN within a request ends it, and upstream never gets it."""

    async def play() -> None:
        async with world() as w:
            assert await answer_to(w, REQUEST[:-cut]) == b""
            await eventually(lambda: w.counted("in_flight") == 0)
            assert w.upstream.received == []

    run(play())
