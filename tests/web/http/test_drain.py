"""End of a process: accepted exchanges finish, and no client is sent to a closed port."""

import asyncio
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.patience import LONG_S, SOON_S
from tests.web.line import Broken, Line, line_to, request
from tests.web.scripted import Script, Upstream, cut, scripted, send, wait
from tests.web.served import ROOT, Served, served
from tests.web.stalls import LARGE_BYTES, reads_again, stops_reading
from tests.web.test_app import refused
from tests.web.wire import END, chunk, stream_head, whole
from tests.web.world import eventually, world

GET = request("GET", "/v1/files/f/content")


@contextlib.asynccontextmanager
async def serving(
    *, under: Sequence[str] = (), **settings: object
) -> AsyncIterator[tuple[Served, Upstream]]:
    """Run a proxy that has started, and its upstream."""
    async with (
        scripted() as upstream,
        served(under=under, upstream_url=upstream.url, **settings) as proxy,
    ):
        await proxy.started()
        yield proxy, upstream


async def begun(line: Line, upstream: Upstream) -> Script:
    """Receive the first half of a streamed response; the rest follows after `go`."""
    script = Script(
        [send(stream_head() + chunk(b"data: 1\n\n")), wait(), send(chunk(b"data: 2\n\n") + END)]
    )
    upstream.plays(script)
    await line.send(GET)
    await line.head()
    assert await line.some() == b"data: 1\n\n"
    return script


async def readiness(proxy: Served) -> tuple[int, str]:
    """Return the status code and the status of `/readyz`."""
    async with line_to(proxy.admin_url) as line:
        got = await line.ask(request("GET", "/readyz"))
    return got.status, json.loads(got.body)["status"]


async def until_not_ready(proxy: Served) -> None:
    """Wait until the process reports that it drains."""
    async with asyncio.timeout(SOON_S):
        while await readiness(proxy) != (503, "draining"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@functools.cache
def first_of_its_own() -> list[str]:
    """Return a command that runs another as PID 1 of a new namespace, or skip."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True, timeout=20)  # noqa: S603 (our own words)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("namespaces are not available")
    return command


def child_of(pid: int) -> int:
    """Return the id of its only child process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


# Replaces the command, whose import takes a while.
EARLY = """
import os, signal, sys, time, types

def command():
    heavy = {"aiohttp", "asyncio", "pydantic", "redis"} & set(sys.modules)
    if heavy:
        sys.exit(f"imported too early: {heavy}")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

sys.modules["reasoning_replay.cli"] = types.ModuleType("reasoning_replay.cli")
sys.modules["reasoning_replay.cli"].main = command
from reasoning_replay.__main__ import main
main()
"""


@pytest.mark.parametrize("is_first", [False, True])
def test_a_signal_before_it_serves_ends_it(is_first: bool) -> None:
    """SIGTERM before the start ends the process, also as PID 1, which has no default action."""
    command = [*(first_of_its_own() if is_first else []), sys.executable, "-c", EARLY]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, timeout=60)  # noqa: S603 (as above)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, b"")


async def test_a_second_signal_ends_the_first_process_of_a_container() -> None:
    """A second SIGTERM ends PID 1 at once."""
    async with (
        serving(under=first_of_its_own(), drain_grace_s=LONG_S) as (proxy, upstream),
        line_to(proxy.url) as line,
    ):
        await begun(line, upstream)
        first = child_of(proxy.pid)
        os.kill(first, signal.SIGTERM)
        await until_not_ready(proxy)
        os.kill(first, signal.SIGTERM)
        assert await proxy.exit_code() == 128 + signal.SIGTERM


async def test_in_the_grace_all_are_served_and_told_to_leave() -> None:
    """During the grace period, each request is served, and its connection is closed after it."""
    async with serving(drain_grace_s=LONG_S) as (proxy, upstream):
        async with line_to(proxy.url) as old, line_to(proxy.url) as unused:
            upstream.answers(*[whole(b"{}")] * 4)
            before = await old.ask(GET)
            assert (before.status, before.head.values("connection")) == (200, [])
            proxy.signal(signal.SIGTERM)
            await until_not_ready(proxy)
            async with line_to(proxy.url) as new:
                for line in (old, unused, new):
                    got = await line.ask(GET)
                    assert (got.status, got.head.values("connection")) == (200, ["close"])
                    assert await line.is_closed()
        async with line_to(proxy.admin_url) as line:
            assert (await line.ask(request("GET", "/livez"))).status == 200
        proxy.signal(signal.SIGTERM)
        assert await proxy.exit_code() == 128 + signal.SIGTERM


async def test_error_responses_close_the_connection_too() -> None:
    """During the grace period, error responses close their connection as well."""
    async with world() as w, line_to(w.app.url) as line:
        w.app.handler.leave()
        w.upstream.plays(Script([cut()]), Script([cut()]))
        got = await line.ask(GET)
        assert (got.status, got.head.values("connection")) == (502, ["close"])


async def test_a_running_stream_outlasts_the_grace() -> None:
    """A stream that began before the signal finishes, and then the process ends."""
    async with (
        serving(drain_grace_s=0.3) as (proxy, upstream),
        line_to(proxy.url) as line,
        line_to(proxy.url) as idle,
        line_to(proxy.url) as unused,
    ):
        upstream.answers(whole(b"{}"))
        await idle.ask(GET)
        script = await begun(line, upstream)
        proxy.signal(signal.SIGTERM)
        await refused(proxy.url)
        assert await idle.is_closed()  # keep-alive connection without a request
        upstream.answers(whole(b"{}"))
        late = await unused.ask(GET)  # connected in time, so its request is served
        assert (late.status, late.head.values("connection")) == (200, ["close"])
        assert await readiness(proxy) == (503, "draining")
        script.go()
        assert await line.rest() == b"data: 2\n\n"
        assert await proxy.exit_code() == 0


async def test_a_connection_that_was_promised_another_request_may_send_it() -> None:
    """A stream that outlives the grace leaves its client one more request on the connection."""
    async with (
        serving(drain_grace_s=0.1) as (proxy, upstream),
        line_to(proxy.url) as line,
        line_to(proxy.url) as longest,
    ):
        script = await begun(line, upstream)
        last = await begun(longest, upstream)
        proxy.signal(signal.SIGTERM)
        await refused(proxy.url)
        script.go()
        assert await line.rest() == b"data: 2\n\n"
        upstream.answers(whole(b"{}"))
        late = await line.ask(GET)
        assert (late.status, late.head.values("connection")) == (200, ["close"])
        assert await line.is_closed()
        last.go()
        assert await longest.rest() == b"data: 2\n\n"
        assert await proxy.exit_code() == 0


async def test_the_last_request_of_a_drain_is_awaited() -> None:
    """A request that follows the last response at once is not cut off by the end of the drain."""
    async with (
        serving(drain_grace_s=0.1) as (proxy, upstream),
        line_to(proxy.url) as line,
    ):
        script = await begun(line, upstream)
        proxy.signal(signal.SIGTERM)
        await refused(proxy.url)
        slow = Script([wait(), send(whole(b"{}"))])
        upstream.plays(slow)
        await line.send(GET)  # pipelined: it is there as soon as the stream ends
        script.go()
        assert await line.rest() == b"data: 2\n\n"
        await slow.arrived.wait()
        await asyncio.sleep(0.5)  # longer than a port takes to close
        slow.go()
        head = await line.head()
        assert (head.status, head.values("connection")) == (200, ["close"])
        assert await proxy.exit_code() == 0


async def test_sigint_has_no_grace() -> None:
    """SIGINT skips the grace period: a process in a terminal has no load balancer."""
    async with serving(drain_grace_s=LONG_S) as (proxy, _):
        proxy.signal(signal.SIGINT)
        assert await proxy.exit_code() == 0


async def test_the_grace_is_part_of_the_drain() -> None:
    """The drain time includes the grace period, and the log counts the exchanges cut off."""
    async with (
        serving(drain_grace_s=LONG_S, drain_s=0.3) as (proxy, upstream),
        line_to(proxy.url) as line,
    ):
        await begun(line, upstream)
        proxy.signal(signal.SIGTERM)
        with pytest.raises(Broken):
            await line.rest()
        stopped = await proxy.until("stopped")
        assert (stopped["level"], stopped["cut_off"]) == ("warning", 1)
        assert await proxy.exit_code() == 0


async def test_a_websocket_that_comes_too_late_is_refused() -> None:
    """A WebSocket handshake during the drain gets a 503, and upstream is not contacted."""
    async with world() as w, line_to(w.app.url) as line:
        w.app.handler.drain()
        handshake = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        got = await line.ask(request("GET", "/v1/responses", *handshake))
        assert (got.status, got.mark) == (503, "error=draining")
        assert (got.head.values("retry-after"), got.head.values("connection")) == (["1"], ["close"])
        assert w.upstream.connections == 0
        assert w.counted("exchanges_total", route="websocket", outcome="draining") == 1


async def test_the_end_of_an_answer_is_waited_for_until_its_client_has_it() -> None:
    """The process waits until the client has received the end of its response."""
    body = b"x" * LARGE_BYTES
    async with world() as w:
        w.upstream.otherwise = whole(body)
        async with line_to(w.app.url) as line:
            stops_reading(line._writer)
            await eventually(lambda: bool(w.app.server.connections))
            (handler,) = w.app.server.connections
            assert handler.transport is not None
            handler.transport.set_write_buffer_limits(high=2 * len(body))
            await line.send(GET)
            await eventually(lambda: w.counted("exchanges_total", route="files", outcome="ok") == 1)
            stopping = asyncio.create_task(w.app.stop(LONG_S))
            done, _ = await asyncio.wait([stopping], timeout=0.3)
            assert not done
            reads_again(line._writer)
            await line.head()
            assert await line.rest() == body
            await stopping
