"""
Clients that leave: upstream is released, nothing is left open, and the next client is served.

One row is a point at which a client leaves, for each way to leave and each kind of exchange.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.faults.kinds import ALL, OTHER, Kind
from tests.faults.stage import Stage, staged
from tests.faults.steps import hang, pause, reset_now
from tests.patience import SOON_S
from tests.web.line import Line, line_to
from tests.web.scripted import Script, Step, send
from tests.web.wire import chunk
from tests.web.world import eventually

pytestmark = pytest.mark.usefixtures("leaves_at_once")


def split(kind: Kind) -> tuple[bytes, bytes]:
    """Return the head and the body of a request."""
    head, end, body = kind.data.partition(b"\r\n\r\n")
    return head + end, body


def framed(kind: Kind) -> bytes:
    """Return the head of a request with a chunked body."""
    head, body = split(kind)
    return head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")


@dataclass(frozen=True, slots=True)
class Phase:
    """
    Point at which a client leaves.

    Attributes:
        sends: Bytes that the client has sent by then.
        does: Steps of upstream.
        sees: Bytes of the response's body that the client has received; None: not even a head.
        is_kept: Whether upstream's connection is used again; never after half a body.
        is_asked: Whether a request has begun to reach upstream by then: for those that the proxy
            reads completely first, and for others. None: either is allowed.
    """

    sends: Callable[[Kind], bytes]
    does: Callable[[Kind], list[Step]] = lambda _: [hang()]
    sees: Callable[[Kind], bytes] | None = None
    is_kept: bool = False
    is_asked: tuple[bool, bool | None] = (True, True)


def all_sent(kind: Kind) -> bytes:
    """Send the complete request."""
    return kind.data


PHASES = {
    "connected": Phase(lambda _: b"", is_asked=(False, False)),
    "within its first line": Phase(lambda _: b"POST /v1/resp", is_asked=(False, False)),
    "within its head": Phase(lambda kind: split(kind)[0][:-3], is_asked=(False, False)),
    "before its body": Phase(lambda kind: split(kind)[0], is_asked=(False, None)),
    "within its body": Phase(lambda kind: kind.data[:-9], is_asked=(False, True)),
    "before its first chunk": Phase(framed, is_asked=(False, None)),
    "within a chunk": Phase(lambda kind: framed(kind) + b"ff\r\n{", is_asked=(False, True)),
    "before its last chunk": Phase(
        lambda kind: framed(kind) + chunk(split(kind)[1]), is_asked=(False, True)
    ),
    "before the response": Phase(all_sent),
    "within the response's head": Phase(
        all_sent, lambda _: [send(b"HTTP/1.1 200 OK\r\nContent-Ty"), pause(), hang()]
    ),
    "within a streamed response": Phase(
        all_sent,
        lambda kind: [send(kind.chunked() + chunk(kind.pieces[0])), hang()],
        lambda kind: kind.pieces[0],
    ),
    "within a chunk of the response": Phase(
        all_sent,
        lambda kind: [send(kind.chunked() + chunk(kind.pieces[0]) + b"ff\r\nab"), hang()],
        lambda kind: kind.pieces[0] + b"ab",
    ),
    "within a response with a length": Phase(
        all_sent,
        lambda kind: [send(kind.sized() + kind.pieces[0]), hang()],
        lambda kind: kind.pieces[0],
    ),
    "before the last chunk of the response": Phase(
        all_sent,
        lambda kind: [send(kind.chunked() + chunk(kind.body)), hang()],
        lambda kind: kind.body,
    ),
    "after the response": Phase(
        all_sent, lambda kind: [send(kind.whole())], lambda kind: kind.body, is_kept=True
    ),
}


async def closes(line: Line) -> None:
    """Close the socket."""
    await line.leave()


async def resets(line: Line) -> None:
    """Reset the connection, as a crash does."""
    reset_now(line._writer.transport)


async def says_that_it_is_done(line: Line) -> None:
    """Close the sending side, which counts as leaving, unless it is done at once."""
    line._writer.write_eof()
    assert await line.is_closed()


@pytest.mark.parametrize("leaves", [closes, resets, says_that_it_is_done])
@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES)
async def test_a_client_that_leaves(
    phase: Phase, leaves: Callable[[Line], Awaitable[None]]
) -> None:
    """When a client leaves, its exchange ends at once, and upstream is released."""
    async with staged() as stage:
        for kind in ALL:
            await play(stage, phase, leaves, kind)


async def play(
    stage: Stage, phase: Phase, leaves: Callable[[Line], Awaitable[None]], kind: Kind
) -> None:
    """Let a client leave during one exchange."""
    is_asked = phase.is_asked[kind is OTHER]
    route = "files" if kind is OTHER else "responses"

    def gone() -> float:
        return stage.w.counted("exchanges_total", route=route, outcome="client_gone")

    had_gone = gone()
    stage.door.plays(script := Script(phase.does(kind), reads_body=phase.sends is all_sent))
    before = len(stage.door.received)
    async with line_to(stage.w.app.url) as line:
        await line.send(phase.sends(kind))
        if is_asked:
            await asyncio.wait_for(script.arrived.wait(), SOON_S)
        else:
            await asyncio.sleep(0.01)  # one event loop runs both sides: by then it has been read
        if phase.sees is not None:
            assert (await line.head()).status == 200
            seen = phase.sees(kind)
            assert await line.exactly(len(seen)) == seen
        if is_asked and not phase.is_kept:
            assert stage.w.counted("in_flight") == 1
        await leaves(line)
        if is_asked and not phase.is_kept:
            await asyncio.wait_for(script.left.wait(), SOON_S)
            await eventually(lambda: gone() == had_gone + 1)
    if is_asked is not None:
        await stage.holds(lines=int(phase.is_kept or not is_asked))
        assert len(stage.door.received) == before + is_asked
    await stage.is_as_before()
    is_fresh = stage.is_fresh()
    assert is_asked is None or is_fresh == (is_asked and not phase.is_kept)
