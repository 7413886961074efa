"""A side of a WebSocket breaks off at any point of a frame: whole messages have passed."""

from collections.abc import Callable

import pytest

from tests.faults.stage import staged
from tests.faults.steps import reset_now
from tests.web.sockets import BINARY, KEY, PING, TEXT, Peer, frame, tunnelled

# What the side that breaks off has sent by then, behind a whole message.
MESSAGE = b'{"type":"response.output_text.delta","delta":"x"}'
POINTS: dict[str, Callable[[bytes], bytes]] = {
    "between messages": lambda _: b"",
    "amid a frame's head": lambda key: frame(TEXT, bytes(70_000), key=key)[:3],
    "amid a text": lambda key: frame(TEXT, MESSAGE, key=key)[:-9],
    "amid bytes": lambda key: frame(BINARY, bytes(70_000), key=key)[:-9],
    "between fragments": lambda key: frame(TEXT, MESSAGE, final=False, key=key),
    "amid a ping": lambda key: frame(PING, b"?", key=key)[:-1],
}


def closes(peer: Peer) -> None:
    """It closes its socket."""
    peer.leave()


def resets(peer: Peer) -> None:
    """It crashes."""
    reset_now(peer.writer.transport)


@pytest.mark.parametrize("is_upstream", [False, True])
@pytest.mark.parametrize("breaks", [closes, resets])
async def test_a_side_that_breaks_off(breaks: Callable[[Peer], None], *, is_upstream: bool) -> None:
    """The other side's connection ends without a word of ours, and nothing is left of the two."""
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
