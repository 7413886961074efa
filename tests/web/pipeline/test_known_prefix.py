"""Known prefix, through the proxy: what a growing conversation costs, and what the log says."""

import asyncio
from typing import Any

from tests.core.world import call, drawn, output, reasoning, user
from tests.web.wire import as_json, response, whole
from tests.web.world import Logged, World, logged, world

ASK = user("Which file sets the timeout? " + "x" * 4096)


async def talk(w: World, turns: int) -> list[Any]:
    """Play a conversation; return the input of each request as upstream received it."""
    items: list[Any] = [ASK]
    for n in range(turns):
        name = f"{n}"
        said = [reasoning(name), call(name)]
        w.upstream.answers(whole(as_json(response(*said) | {"id": f"resp_{drawn(n)}"})))
        await w.turn(*items)
        items += [said[1], output(said[1])]
    return [w.sent(n)["input"] for n in range(turns)]


async def test_a_growing_conversation_is_decided_by_what_is_new(capsys: Logged) -> None:
    """The way is counted, and in the log."""
    async with world() as w:
        await talk(w, 6)
        assert w.counted("decisions_total", dialect="responses", way="short") == 5
        assert w.counted("items_total", outcome="injected") == 15
    assert [line["way"] for line in logged(capsys, "exchange")] == ["new", *["short"] * 5]


async def test_one_history_asked_at_once_is_the_same_for_all() -> None:
    """Requests side by side share what is known."""
    async with world() as w:
        await talk(w, 4)
        seen = w.sent(3)["input"]
        items = [item for item in seen if item.get("type") != "reasoning"]
        w.upstream.otherwise = whole(as_json(response(call("side by side"))))
        await asyncio.gather(*[w.turn(*items) for _ in range(12)])
        assert all(w.sent(n)["input"] == seen for n in range(4, 16))


async def test_without_a_local_copy_the_store_is_asked_once() -> None:
    """Nothing is given, because nothing is kept."""
    async with world(local_max_bytes=0) as w:
        await talk(w, 6)
        assert w.counted("decisions_total", dialect="responses", way="too_large") == 4
        assert w.counted("items_total", outcome="injected") == 15
        asked = w.counted("store_operations_total", operation="recall", outcome="ok")
    assert asked == 5
