"""Clients that leave: their exchange ends, and upstream stops working for it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.patience import SOON_S
from tests.web.line import Line, line_to, request
from tests.web.scripted import Script, send, swallow, wait
from tests.web.wire import ASK, CALL, RS, chunk, events, stream_head
from tests.web.world import MODEL, Hooked, World, eventually, post, world

KEY = "Authorization: Bearer sk-a"
REQUEST = post({"model": MODEL, "input": [ASK, CALL]})

pytestmark = pytest.mark.usefixtures("leaves_at_once")


async def assert_over(w: World, route: str) -> None:
    """Check that nothing is left of the exchange, and that its outcome is `client_gone`."""
    await eventually(lambda: w.app.handler.admission.count == 0)
    assert w.counted("in_flight") == 0
    assert w.counted("exchanges_total", route=route, outcome="client_gone") == 1
    assert w.app.handler.admission.idle.is_set()


async def test_while_much_is_still_to_be_written() -> None:
    """A client that stopped reading before it left does not block the end of its exchange."""
    script = Script([send(stream_head()), *[send(chunk(b"x" * 65536))] * 200, wait()])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(REQUEST)
        await line.head()

        await line.leave()
        await asyncio.wait_for(script.left.wait(), SOON_S)
        await assert_over(w, "responses")


@pytest.mark.parametrize(
    ("target", "route"), [("/v1/files", "files"), ("/v1/responses", "responses")]
)
async def test_in_the_middle_of_the_request(target: str, route: str) -> None:
    """If a client leaves within its body, upstream never gets a body that looks complete."""
    script = Script([swallow(100), wait()], reads_body=False)
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", target, KEY, "Content-Length: 100") + b"half")
        await eventually(lambda: w.app.handler.admission.count == 1)

        await line.leave()
        await assert_over(w, route)
        if route == "files":  # the other route reads the whole body first
            await asyncio.wait_for(script.left.wait(), SOON_S)
        assert (script.digest, len(w.upstream.received)) == ("", int(route == "files"))


async def in_recall(w: World, line: Line) -> None:
    """Send a request that looks up."""
    await line.send(REQUEST)


async def in_save(w: World, line: Line) -> None:
    """Send a request whose response is saved."""
    w.upstream.plays(Script([send(stream_head() + b"".join(map(chunk, events(RS, CALL)))), wait()]))
    await line.send(post({"model": MODEL, "input": [ASK]}))


@pytest.mark.parametrize("asks", [in_recall, in_save])
async def test_while_the_store_is_waited_for(
    asks: Callable[[World, Line], Awaitable[None]],
) -> None:
    """A client that leaves during a store call ends its exchange, and the store has not failed."""
    waiting, never = asyncio.Event(), asyncio.Event()

    async def hangs(_: str) -> None:
        waiting.set()
        await never.wait()

    async with world(has_store=True) as w, line_to(w.app.url) as line:
        w.app.store.inner = Hooked(w.app.store.inner, hangs)
        await asks(w, line)
        await asyncio.wait_for(waiting.wait(), SOON_S)

        await line.leave()
        await assert_over(w, "responses")
        assert not w.app.store.is_degraded
        never.set()
