"""However an exchange ends, its connection ends with it or carries the next: none is left over."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.pool import UpstreamPool
from reasoning_replay.adapters.upstream.response import UpstreamError

from tests.adapters.upstream.test_pool import whole_of
from tests.web.authority import Authority
from tests.web.scripted import Script, Step, close, send, wait
from tests.web.scripted import Upstream as Far
from tests.web.wire import chunk, head, stream_head, whole

SOON_S = 3.0
LARGE = bytes(64 << 20)  # more than systems take for who reads nothing
FLOOD = 5000
Case = Callable[[UpstreamPool, Far], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Have it run on both loops, in the clear and in TLS."""
    CASES[function.__name__] = function
    return function


def say_end() -> Step:
    """Say that nothing more will come, and read on."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()

    return step


def vanish() -> Step:
    """Reset the connection once everything is off; `cut` waits for ever in TLS."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        writer.transport.abort()

    return step


def flood() -> Step:
    """Send a stream without an end."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head())
        while True:
            writer.write(chunk(b"x" * FLOOD))
            await writer.drain()
            await asyncio.sleep(0)

    return step


async def soon(awaited: Awaitable[Any]) -> Any:
    """Wait, but not for long."""
    return await asyncio.wait_for(awaited, SOON_S)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what says nothing when it happens."""
    async with asyncio.timeout(SOON_S):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and see it off."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@case
async def is_used_again(near: UpstreamPool, far: Far) -> None:
    """By the next request; the one before it has been read."""
    far.answers(whole(b"1"), whole(b"2"))
    for body in (b"1", b"2"):
        answer = await near.send("GET", far.url, [], None)
        assert await whole_of(answer) == body
        answer.close()
    assert far.connections == 1
    (connection,) = near._connections
    connection.close()


@case
async def is_closed_by_upstream_while_idle(near: UpstreamPool, far: Far) -> None:
    """The next request has one of its own."""
    far.plays(Script([send(whole(b"1")), close()]), Script([send(whole(b"2")), close()]))
    for body in (b"1", b"2"):
        answer = await near.send("POST", far.url, [], b"{}")
        assert await whole_of(answer) == body
        answer.close()
        await asyncio.sleep(0.02)


@case
async def is_left_while_it_is_opened(near: UpstreamPool, far: Far) -> None:
    """Nobody is there to whom it could be given."""
    task = asyncio.ensure_future(near.send("POST", far.url, [], b"{}"))
    await asyncio.sleep(0)
    await cancelled(task)


@case
async def is_left_before_the_head(near: UpstreamPool, far: Far) -> None:
    """Upstream learns of it."""
    script = Script([wait()])
    far.plays(script)
    task = asyncio.ensure_future(near.send("POST", far.url, [], b"{}"))
    await soon(script.arrived.wait())
    await cancelled(task)
    await soon(script.left.wait())


@case
async def is_left_while_upstream_takes_nothing(near: UpstreamPool, far: Far) -> None:
    """What waits to be written is thrown away."""
    script = Script([wait()], reads_body=False)
    far.plays(script)
    task = asyncio.ensure_future(near.send("POST", far.url, [], LARGE))
    await soon(script.arrived.wait())
    await asyncio.sleep(0.02)
    await cancelled(task)


@case
async def is_left_amid_a_body(near: UpstreamPool, far: Far) -> None:
    """Of which some is read."""
    script = Script([send(stream_head() + chunk(b"abc")), wait()])
    far.plays(script)
    answer = await near.send("POST", far.url, [], b"{}")
    assert await answer.read() == b"abc"
    answer.close()
    await soon(script.left.wait())


@case
async def is_left_amid_a_flood(near: UpstreamPool, far: Far) -> None:
    """It does not go on for as long as TLS takes to say farewell."""
    script = Script([flood()])
    far.plays(script)
    answer = await near.send("POST", far.url, [], b"{}")
    for _ in range(2):
        await answer.read()
    answer.close()
    await soon(script.left.wait())


@case
async def is_left_with_much_unread(near: UpstreamPool, far: Far) -> None:
    """Here and in the system."""
    far.plays(Script([flood()]))
    answer = await near.send("POST", far.url, [], b"{}")
    (connection,) = near._connections
    await until(lambda: connection._is_read_paused)
    answer.close()


@case
async def ends_with_its_answer(near: UpstreamPool, far: Far) -> None:
    """Which is whole then."""
    far.plays(Script([send(head("A: b") + b"abc"), close()]))
    answer = await near.send("POST", far.url, [], b"{}")
    assert await soon(whole_of(answer)) == b"abc"
    answer.close()


@case
async def ends_amid_an_answer(near: UpstreamPool, far: Far) -> None:
    """Which is not; what came of it is read first."""
    for step in (close(), vanish()):
        far.plays(Script([send(head("Content-Length: 5") + b"abc"), step]))
        answer = await near.send("POST", far.url, [], b"{}")
        assert await soon(answer.read()) == b"abc"
        with pytest.raises(UpstreamError):
            await soon(answer.read())
        answer.close()


@case
async def ends_amid_an_answer_that_nobody_reads(near: UpstreamPool, far: Far) -> None:
    """The error is nobody's."""
    far.plays(Script([send(head("Content-Length: 5") + b"abc"), vanish()]))
    answer = await near.send("POST", far.url, [], b"{}")
    await asyncio.sleep(0.04)
    answer.close()


@case
async def has_an_answer_before_its_request_is_taken(near: UpstreamPool, far: Far) -> None:
    """It is whole, and the rest of the request is thrown away with the connection."""
    far.plays(Script([send(whole(b"1", status="413 x")), wait()], reads_body=False))
    answer = await near.send("POST", far.url, [], LARGE)
    assert await soon(whole_of(answer)) == b"1"
    answer.close()


@case
async def says_that_this_is_all_before_its_request_is_taken(near: UpstreamPool, far: Far) -> None:
    """That is heard, though the connection cannot be lost before it takes the rest."""
    far.plays(Script([send(head(status="413 x") + b"1"), say_end(), wait()], reads_body=False))
    answer = await near.send("POST", far.url, [], LARGE)
    assert await soon(whole_of(answer)) == b"1"
    answer.close()
    far.plays(Script([say_end(), wait()], reads_body=False))
    with pytest.raises(UpstreamError):
        await soon(near.send("POST", far.url, [], LARGE))


@case
async def has_a_request_that_breaks_off(near: UpstreamPool, far: Far) -> None:
    """In whatever way: upstream would wait for the rest."""

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
async def is_in_other_hands_before_an_answer_is_read(near: UpstreamPool, far: Far) -> None:
    """Who reads that has no say any more: neither in what is read ahead nor in its end."""
    far.plays(Script([send(whole(b"1"))]), Script([flood()]))
    first = await near.send("GET", far.url, [], None)
    second = await near.send("GET", far.url, [], None)
    (connection,) = near._connections
    await until(lambda: connection._is_read_paused)
    assert await whole_of(first) == b"1"
    first.close()
    assert connection._is_read_paused
    assert set(await second.read()) == set(b"x")
    second.close()


@case
async def switches_protocols_unasked(near: UpstreamPool, far: Far) -> None:
    """What it says from then on would be read as the answer to the next request."""
    switched = head("Connection: upgrade", "Upgrade: x", status="101 Switching Protocols")
    far.plays(Script([send(switched + b"x" * FLOOD), wait()]))
    with pytest.raises(UpstreamError, match="switched protocols"):
        await near.send("GET", far.url, [], None)


async def none_is_left(play: Case, authority: Authority, *, is_tls: bool) -> None:
    """Run a case; then there is no connection, no task, and no error that nobody heard of."""
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    far = Far()
    context = authority.server("127.0.0.1") if is_tls else None
    server = await loop.create_server(far.protocol, "127.0.0.1", 0, ssl=context)
    scheme = "https" if is_tls else "http"
    far.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    near = UpstreamPool(Timeouts(SOON_S, SOON_S, 5 * SOON_S), egress(far.url, str(authority.file)))
    try:
        await play(near, far)
        await until(lambda: not (near._connections or near._dialer._connector._acquired))
    finally:
        await near.close()
        server.close()
        await far.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    gc.collect(1)
    assert said == []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the upstreams of these tests have their certificates from."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("is_tls", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("play", CASES.values(), ids=CASES)
def test_a_connection_that(
    play: Case,
    run: Callable[[Coroutine[None, None, None]], None],
    authority: Authority,
    *,
    is_tls: bool,
) -> None:
    """As the name of the case goes on."""
    run(none_is_left(play, authority, is_tls=is_tls))
