"""WebSockets that break off at any point of a frame, after complete messages."""

from collections.abc import Callable

import pytest

from tests.faults.stage import staged
from tests.faults.steps import reset_now
from tests.web.sockets import BINARY, KEY, PING, TEXT, Peer, frame, tunnelled

# Bytes that the breaking side has sent by then, after a complete message.
MESSAGE = b'{"type":"response.output_text.delta","delta":"x"}'
POINTS: dict[str, Callable[[bytes], bytes]] = {
    "between messages": lambda _: b"",
    "within a frame's head": lambda key: frame(TEXT, bytes(70_000), key=key)[:3],
    "within a text": lambda key: frame(TEXT, MESSAGE, key=key)[:-9],
    "within bytes": lambda key: frame(BINARY, bytes(70_000), key=key)[:-9],
    "between fragments": lambda key: frame(TEXT, MESSAGE, final=False, key=key),
    "within a ping": lambda key: frame(PING, b"?", key=key)[:-1],
}


def closes(peer: Peer) -> None:
    """Close the socket."""
    peer.leave()


def resets(peer: Peer) -> None:
    """Reset the connection, as a crash does."""
    reset_now(peer.writer.transport)


@pytest.mark.parametrize("is_upstream", [False, True])
@pytest.mark.parametrize("breaks", [closes, resets])
async def test_a_side_that_breaks_off(breaks: Callable[[Peer], None], *, is_upstream: bool) -> None:
    """When one side breaks off, the other connection ends silently, and nothing is left open."""
    outcome = "cut_off" if is_upstream else "client_gone"
    async with staged() as stage:
        for number, spell in enumerate(POINTS.values(), 1):
            async with tunnelled(stage.w) as sides:
                one, other = reversed(sides) if is_upstream else sides
                key = b"" if is_upstream else KEY
                await one.send(frame(TEXT, MESSAGE, key=key) + spell(key))
                await other.gets(frame(TEXT, MESSAGE))
                breaks(one)
                assert await other.ended()
            await stage.is_as_before()
            ended = stage.w.counted("exchanges_total", route="websocket", outcome=outcome)
            assert ended == number
