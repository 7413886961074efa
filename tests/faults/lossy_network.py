"""
Lossy network: a private network namespace, and what a proxy in it does when packets vanish.

Its tracker of connections forgets a silent one after FORGETS_S, as a NAT does, and drops packets of
connections that it does not know. It runs as a process of its own: `python -m
tests.faults.lossy_network` in a new namespace prints the results of all cases as JSON.
"""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop
from reasoning_replay.adapters.runtime import tcp
from reasoning_replay.adapters.upstream import connection
from reasoning_replay.web.http import server
from reasoning_replay.web.websocket import relay

from tests.faults.steps import hang
from tests.patience import SOON_S
from tests.web.http_proxy import http_proxy
from tests.web.line import Answer, line_to, request
from tests.web.scripted import Script, Step, Upstream, send
from tests.web.sockets import KEY, TEXT, frame, tunnelled
from tests.web.wire import END, chunk, stream_head, whole
from tests.web.world import World, eventually, post, world

FORGETS_S = 3
SILENCE_S = 3 * FORGETS_S
# The times of the product, shortened; here keep-alive finds out before GONE_S.
IDLE_S, INTERVAL_S, GONE_S, LOOK_S = 1, 1, 5, 0.2
# The address of an upstream whose packets pass.
NEAR = "127.0.0.9"
NETFILTER = Path("/proc/sys/net/netfilter")
_RETRIES = struct.Struct("=2xB")

Case = Callable[[], Awaitable[object]]
CASES: dict[str, Case] = {}
POST = post({"model": "gpt-5.4", "input": "x"})
GET = request("GET", "/v1/models", "Authorization: Bearer sk-a")


def case(function: Case) -> Case:
    """Register a case; all of them run at once."""
    CASES[function.__name__] = function
    return function


def rule(*words: str) -> None:
    """Add a rule before all others."""
    command = ["iptables", "-w", "-I", "INPUT", *words]
    subprocess.run(command, check=True)  # noqa: S603 (its words are here)


def build() -> None:
    """Build the network of this namespace; raises if that is not allowed."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)  # noqa: S607 (in a test)
    rule("-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
    for direction in "-s", "-d":
        rule(direction, NEAR, "-j", "ACCEPT")
    for name, value in ("timeout_established", FORGETS_S), ("loose", 0):
        (NETFILTER / f"nf_conntrack_tcp_{name}").write_text(str(value))


def be_quick() -> None:
    """Divide the times of the product, which count in seconds and minutes."""
    tcp.KEEP_ALIVE_IDLE_S, tcp.KEEP_ALIVE_INTERVAL_S, tcp.GONE_S = IDLE_S, INTERVAL_S, GONE_S
    for module in (connection, server, relay):
        vars(module)["LOOK_S"] = LOOK_S


def silence() -> Step:
    """Say nothing for longer than the tracker remembers."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(SILENCE_S)

    return step


class Vanishes:
    """A step after which all packets of its connection are dropped."""

    def __init__(self) -> None:
        self._writer: asyncio.StreamWriter | None = None

    async def __call__(self, script: Script, writer: asyncio.StreamWriter) -> None:
        """Let what was sent arrive, then drop the rest."""
        await writer.drain()
        await asyncio.sleep(0.1)
        drop(writer)
        await hang()(script, writer)


def drop(writer: asyncio.StreamWriter) -> None:
    """Drop all packets of a connection from now on."""
    port = str(writer.get_extra_info("peername")[1])
    for direction in "--sport", "--dport":
        rule("-p", "tcp", direction, port, "-j", "DROP")


def told(answer: Answer) -> list[object]:
    """Return the status and body of a response; of the proxy's own errors, the code and message."""
    if not answer.head.values("x-reasoning-replay")[:1] or answer.status == 200:
        return [answer.status, answer.body.decode()]
    error = json.loads(answer.body)["error"]
    return [answer.status, error["code"], error["message"]]


# --- silence that lasts longer than the memory of a NAT ---


@case
async def control() -> object:
    """Without keep-alive, an answer after the silence never arrives."""
    upstream = Upstream()
    listening = await asyncio.get_running_loop().create_server(upstream.protocol, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    given: list[asyncio.StreamWriter] = []

    async def keep(_: Script, writer: asyncio.StreamWriter) -> None:
        given.append(writer)

    upstream.plays(Script([keep, silence(), send(whole(b"{}")), hang()]))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET)
    await eventually(lambda: bool(given) and retries(given[0]) > 1)
    reads = asyncio.ensure_future(reader.read(1))
    await asyncio.sleep(0)
    got = reads.done()
    reads.cancel()
    writer.close()
    listening.close()
    await upstream.close()
    return got


def retries(writer: asyncio.StreamWriter) -> int:
    """Return how often the newest data was sent again."""
    info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 3)
    count: int = _RETRIES.unpack(info)[0]
    return count


@case
async def json_answer() -> object:
    """A JSON response after the silence."""
    async with world() as w:
        w.upstream.plays(Script([silence(), send(whole(b"{}"))]))
        return told(await w.ask(POST))


@case
async def stream() -> object:
    """A stream with the silence between its events."""
    first, *rest = [send(chunk(b"data: %d\n\n" % number)) for number in range(3)]
    steps = [send(stream_head()), first]
    for event in rest:
        steps += [silence(), event]
    async with world() as w:
        w.upstream.plays(Script([*steps, send(END)]))
        return told(await w.ask(POST))


@case
async def websocket() -> object:
    """A WebSocket with the silence between its messages."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await asyncio.sleep(SILENCE_S)
        await upstream.send(frame(TEXT, b"down"))
        await client.gets(frame(TEXT, b"down"))
        await asyncio.sleep(SILENCE_S)
        await client.send(frame(TEXT, b"up", key=KEY))
        await upstream.gets(frame(TEXT, b"up", key=KEY))
        return True


@case
async def egress_proxy() -> object:
    """A JSON response after the silence, through an HTTP proxy."""
    upstream = Upstream()
    listening = await asyncio.get_running_loop().create_server(upstream.protocol, NEAR, 0)
    url = f"http://{NEAR}:{listening.sockets[0].getsockname()[1]}/v1"
    async with (
        http_proxy() as proxy,
        world(upstream_url=url, upstream_proxy=f"http://{proxy.address}") as w,
    ):
        upstream.plays(Script([silence(), send(whole(b"{}"))]))
        got = told(await w.ask(POST))
        assert len(proxy.asked) == 1
    listening.close()
    await upstream.close()
    return got


# --- peers that vanish ---


async def after_a_loss(w: World, data: bytes) -> list[object]:
    """Return the responses to a request on a lost connection of the pool, and to the next one."""
    given: list[asyncio.StreamWriter] = []

    async def keep(_: Script, writer: asyncio.StreamWriter) -> None:
        given.append(writer)

    w.upstream.plays(Script([keep, send(whole(b"1"))]))
    first = told(await w.ask(data))
    drop(given[0])
    w.upstream.otherwise = whole(b"2")
    return [first, told(await w.ask(data)), told(await w.ask(data))]


@case
async def pooled_post() -> object:
    """A POST on a connection of the pool whose packets are dropped."""
    async with world() as w:
        return await after_a_loss(w, POST)


@case
async def pooled_get() -> object:
    """A GET on such a connection."""
    async with world() as w:
        return await after_a_loss(w, GET)


@case
async def lost_before_the_head() -> object:
    """An upstream that vanishes after it has read the request."""
    async with world() as w:
        w.upstream.plays(Script([Vanishes()]), Script([send(whole(b"2"))]))
        return [told(await w.ask(POST)), told(await w.ask(POST))]


@case
async def lost_within_a_stream() -> object:
    """An upstream that vanishes between two events."""
    async with world() as w:
        w.upstream.plays(Script([send(stream_head() + chunk(b"data: 1\n\n")), Vanishes()]))
        async with line_to(w.app.url) as line:
            await line.send(POST)
            await line.head()
            body, is_whole = await line.until_it_ends()
        await eventually(lambda: w.counted("exchanges_total", outcome="cut_off") == 1)
        return [body.decode(), is_whole]


@case
async def lost_websocket() -> object:
    """An upstream that vanishes while a message is on its way to it."""
    async with world() as w, tunnelled(w) as (client, upstream):
        drop(upstream.writer)
        await client.send(frame(TEXT, b"up", key=KEY))
        return await client.ended()


@case
async def lost_client() -> object:
    """A client that vanishes within a stream: the upstream is cancelled."""

    async def chatter(_: Script, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(chunk(b"data: 1\n\n"))
            await asyncio.sleep(0.1)

    async with world() as w:
        w.upstream.plays(script := Script([send(stream_head()), chatter]))
        reader, writer = await asyncio.open_connection(
            *w.app.url.removeprefix("http://").split(":")
        )
        writer.write(POST)
        await reader.readuntil(b"\r\n\r\n")
        port = str(writer.get_extra_info("sockname")[1])
        for direction in "--sport", "--dport":
            rule("-p", "tcp", direction, port, "-j", "DROP")
        await asyncio.wait_for(script.left.wait(), SOON_S)
        await eventually(lambda: w.counted("exchanges_total", outcome="client_gone") == 1)
        writer.transport.abort()
        return True


async def play() -> dict[str, Any]:
    """Return the result of each case, or the text of its error."""
    results = await asyncio.gather(*(run() for run in CASES.values()), return_exceptions=True)
    return {
        name: repr(result) if isinstance(result, BaseException) else result
        for name, result in zip(CASES, results, strict=True)
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XTABLES_LOCKFILE"] = f"{folder}/lock"  # the usual one needs the real root
        build()
        if "--build" not in sys.argv:
            be_quick()
            out, sys.stdout = sys.stdout, sys.stderr  # the log of the proxies
            print(json.dumps(uvloop.run(play())), file=out)
