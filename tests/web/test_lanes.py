"""Whose an answer or an error is on a WebSocket: where that is not certain, nothing comes of it."""

import asyncio

from tests.web.sockets import tunnelled
from tests.web.test_websocket_replay import LOST, create, failed, told
from tests.web.wire import MESSAGE, NEXT, PAIRING, RS_2, Item
from tests.web.world import Hooked, World, eventually, world

SAID = MESSAGE | {"content": [{"type": "output_text", "text": "Two.", "annotations": []}]}
BARE = {name: SAID[name] for name in SAID if name != "id"}


class SlowOnce:
    """Holds up the first recall, until it is told to let it through."""

    def __init__(self, w: World) -> None:
        self.asked = 0
        self._may = asyncio.Event()
        w.app.store.inner = Hooked(w.app.store.inner, self._before)

    async def _before(self, operation: str) -> None:
        if operation == "recall":
            self.asked += 1
            if self.asked == 1:
                await self._may.wait()

    def opens(self) -> None:
        """Let it through."""
        self._may.set()


def has_reasoning(seen: dict[str, list[Item]]) -> bool:
    """Tell whether upstream got any."""
    return any(item.get("type") == "reasoning" for item in seen["input"])


async def test_a_request_that_is_sent_during_a_cure_keeps_its_place() -> None:
    """It is answered next, so the refused one does not go out again behind it."""
    refusal, answer = failed(PAIRING), told(RS_2, SAID, rid="resp_2")
    async with world(store_timeout_ms=5000) as w, tunnelled(w) as (client, upstream):
        await client.send(create(*LOST))
        await upstream.event()
        store = SlowOnce(w)
        await upstream.send(refusal)
        await eventually(lambda: store.asked == 1)
        await client.send(create(NEXT))
        assert (await upstream.event())["input"] == [NEXT]
        store.opens()
        await client.gets(refusal)
        assert await upstream.is_silent()
        await upstream.send(b"".join(answer))
        await client.gets(*answer)
        await client.send(create(*LOST, BARE, NEXT))
        assert not has_reasoning(await upstream.event())
        assert w.counted("heals_total", diagnosis="lacks_reasoning", result="cured") == 0
