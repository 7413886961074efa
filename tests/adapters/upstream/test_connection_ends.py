"""A connection ends with its exchange or carries the next one; none is left open."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.adapters.upstream.connection import (
    Timeouts,
    UpstreamConnection,
)
from reasoning_replay.adapters.upstream.dialer import Dialer
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.response import UpstreamError
from yarl import URL

from tests.adapters.upstream.test_client import whole_of
from tests.patience import SOON_S
from tests.web.authority import Authority
from tests.web.scripted import Script, Step, close, scripted, send, wait
from tests.web.scripted import Upstream as Far
from tests.web.wire import chunk, head, stream_head, whole
from tests.web.world import eventually

LARGE = bytes(64 << 20)  # more than the kernel buffers for a peer that does not read
FLOOD = 5000
Case = Callable[[UpstreamClient, Far], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case for both event loops, with and without TLS."""
    CASES[function.__name__] = function
    return function


def say_end() -> Step:
    """Return a step that sends the end of the stream, and still reads."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()

    return step


def vanish() -> Step:
    """Return a step that resets the connection after all data is sent; `cut` hangs with TLS."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        writer.transport.abort()

    return step


def flood() -> Step:
    """Return a step that sends an endless stream."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head())
        while True:
            writer.write(chunk(b"x" * FLOOD))
            await writer.drain()
            await asyncio.sleep(0)

    return step


async def soon(awaited: Awaitable[Any]) -> Any:
    """Wait for at most SOON_S."""
    return await asyncio.wait_for(awaited, SOON_S)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@case
async def closed_by_the_upstream_while_idle(near: UpstreamClient, far: Far) -> None:
    """After the upstream closes an idle connection, the next request opens a new one."""
    far.plays(Script([send(whole(b"1")), close()]), Script([send(whole(b"2")), close()]))
    for body in (b"1", b"2"):
        answer = await near.send("POST", far.url, [], b"{}")
        assert await whole_of(answer) == body
        answer.close()
        await eventually(lambda: not near._connections)


@case
async def cancelled_while_connecting(near: UpstreamClient, far: Far) -> None:
    """A connection is closed if its request is cancelled while it is opened."""
    task = asyncio.ensure_future(near.send("POST", far.url, [], b"{}"))
    await asyncio.sleep(0)
    await cancelled(task)


@case
async def cancelled_before_the_head(near: UpstreamClient, far: Far) -> None:
    """If a request is cancelled before the head of its response, the upstream sees a disconnect."""
    script = Script([wait()])
    far.plays(script)
    task = asyncio.ensure_future(near.send("POST", far.url, [], b"{}"))
    await soon(script.arrived.wait())
    await cancelled(task)
    await soon(script.left.wait())


@case
async def cancelled_while_the_request_is_not_read(near: UpstreamClient, far: Far) -> None:
    """If a request is cancelled while the upstream does not read it, the unsent rest is dropped."""
    script = Script([wait()], reads_body=False)
    far.plays(script)
    task = asyncio.ensure_future(near.send("POST", far.url, [], LARGE))
    await soon(script.arrived.wait())
    await asyncio.sleep(0.02)
    await cancelled(task)


@case
async def closed_within_a_body(near: UpstreamClient, far: Far) -> None:
    """If a response is closed within its body, the upstream sees a disconnect."""
    script = Script([send(stream_head() + chunk(b"abc")), wait()])
    far.plays(script)
    answer = await near.send("POST", far.url, [], b"{}")
    assert await answer.read() == b"abc"
    answer.close()
    await soon(script.left.wait())


@case
async def closed_within_an_endless_body(near: UpstreamClient, far: Far) -> None:
    """An endless response ends at once when it is closed, without waiting for TLS to shut down."""
    script = Script([flood()])
    far.plays(script)
    answer = await near.send("POST", far.url, [], b"{}")
    for _ in range(2):
        await answer.read()
    answer.close()
    await soon(script.left.wait())


@case
async def lost_within_a_response(near: UpstreamClient, far: Far) -> None:
    """If the connection ends within a response, the data is returned first, then the error."""
    for step in (close(), vanish()):
        far.plays(Script([send(head("Content-Length: 5") + b"abc"), step]))
        answer = await near.send("POST", far.url, [], b"{}")
        assert await soon(answer.read()) == b"abc"
        with pytest.raises(UpstreamError):
            await soon(answer.read())
        answer.close()


@case
async def lost_within_a_response_that_is_not_read(near: UpstreamClient, far: Far) -> None:
    """The error of a response that is closed without being read is not reported."""
    far.plays(Script([send(head("Content-Length: 5") + b"abc"), vanish()]))
    answer = await near.send("POST", far.url, [], b"{}")
    await eventually(lambda: not near._connections)
    answer.close()


@case
async def early_end_of_the_stream(near: UpstreamClient, far: Far) -> None:
    """The upstream can end its stream, with or without a response, before it reads the request."""
    far.plays(Script([send(head(status="413 x") + b"1"), say_end(), wait()], reads_body=False))
    answer = await near.send("POST", far.url, [], LARGE)
    assert await soon(whole_of(answer)) == b"1"
    answer.close()
    far.plays(Script([say_end(), wait()], reads_body=False))
    with pytest.raises(UpstreamError):
        await soon(near.send("POST", far.url, [], LARGE))


@case
async def request_body_fails(near: UpstreamClient, far: Far) -> None:
    """If the body of a request fails or is cancelled, the connection is closed."""

    async def broken(error: BaseException) -> AsyncGenerator[bytes, None]:
        yield b"x"
        raise error

    for error in (ValueError(), asyncio.CancelledError()):
        script = Script([wait()], reads_body=False)
        far.plays(script)
        with pytest.raises(UpstreamError, match="sending the request failed"):
            await soon(near.send("POST", far.url, [], broken(error)))
        await soon(script.left.wait())


@case
async def reused_before_its_response_is_read(near: UpstreamClient, far: Far) -> None:
    """Reading and closing the previous response does not affect the current one."""
    far.plays(Script([send(whole(b"1"))]), Script([flood()]))
    first = await near.send("GET", far.url, [], None)
    second = await near.send("GET", far.url, [], None)
    (connection,) = near._connections
    await eventually(lambda: connection._is_read_paused)
    assert await whole_of(first) == b"1"
    first.close()
    assert connection._is_read_paused
    assert set(await second.read()) == set(b"x")
    second.close()


async def none_is_left(play: Case, authority: Authority, *, is_tls: bool) -> None:
    """Run a case, then check that no connection, task or unretrieved error is left."""
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    far = Far()
    context = authority.server("127.0.0.1") if is_tls else None
    server = await loop.create_server(far.protocol, "127.0.0.1", 0, ssl=context)
    scheme = "https" if is_tls else "http"
    far.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    near = UpstreamClient(
        Timeouts(SOON_S, SOON_S, 5 * SOON_S), egress(far.url, str(authority.file))
    )
    try:
        await play(near, far)
        await eventually(lambda: not (near._connections or near._dialer._connector._acquired))
    finally:
        await near.close()
        server.close()
        await far.close()
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    gc.collect(1)
    assert said == []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority of the upstreams' certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("is_tls", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("play", CASES.values(), ids=CASES)
def test_no_connection_is_left(
    play: Case,
    run: Callable[[Coroutine[None, None, None]], None],
    authority: Authority,
    *,
    is_tls: bool,
) -> None:
    """After each case, no connection, no task and no unretrieved error is left."""
    run(none_is_left(play, authority, is_tls=is_tls))


async def test_a_connection_says_what_it_is_used_for() -> None:
    """In one line, with its peer: new, active, idle, closed."""
    idle = asyncio.Event()
    async with scripted() as far:
        script = Script([wait(), send(whole(b"{}")), wait()])
        far.plays(script)
        dialer = Dialer(SOON_S, egress(far.url))
        dialled = await dialer.dial(URL(far.url))
        timeouts = Timeouts(SOON_S, SOON_S, SOON_S)
        near = UpstreamConnection(dialled, timeouts, lambda _: idle.set(), lambda _: None)
        assert repr(near).startswith("<UpstreamConnection new, to ('127.0.0.1', ")
        sending = asyncio.ensure_future(
            near.send(b"GET / HTTP/1.1\r\n\r\n", None, has_no_body=False)
        )
        await soon(script.arrived.wait())
        states = [near.state]
        script.go()
        assert await whole_of(await soon(sending)) == b"{}"
        await soon(idle.wait())
        states.append(near.state)
        near.close()
        assert [*states, near.state] == ["active", "idle", "closed"]
        await dialer.close()
