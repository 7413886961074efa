"""Anthropic Messages in the inspector: its blocks by name."""

from tests.web.admin.inspector.watching import watched
from tests.web.messages.exchanges import (
    ASK,
    CALL,
    LOST,
    REDACTED,
    TEXT,
    THOUGHT,
    answer,
    send,
)
from tests.web.wire import as_json

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_01Zk3mQ9xT7b", "name": "find", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": SEARCH["id"], "content": []}
SAID = {"type": "text", "text": "It is 7 degrees in Oslo, and it rains there all day."}
TOOLS = [{"name": "get_weather", "input_schema": {"type": "object"}}]
GO = {"role": "user", "content": "And tomorrow?"}
LATER = [*LOST, {"role": "assistant", "content": [SEARCH, FOUND, SAID]}, GO]


async def test_a_conversation_is_shown_block_by_block() -> None:
    """Each has its type and its id; a result is no call, also if upstream ran the tool."""
    async with watched() as (w, page):
        w.upstream.answers(
            answer(THOUGHT, REDACTED, TEXT, CALL),
            answer(SEARCH, FOUND, THOUGHT, SAID, number=2),
            answer(SAID, number=3),
        )
        await send(w, ASK, tools=TOOLS)
        await send(w, *LOST, tools=TOOLS)
        one = await page.ended(2)
        items, notes = one["strip"]["items"], one["strip"]["notes"]
        kinds = [("u", "message", ""), ("m", "message", ""), ("c", "tool_use", CALL["id"])]
        kinds.append(("o", "tool_result", CALL["id"]))
        assert [tuple(item[:3]) for item in items] == kinds
        sizes = [len(as_json(block)) for block in (THOUGHT, REDACTED)]
        assert notes == [
            [1, "injected", 1, sizes[0], "thinking.0"],
            [1, "injected", 1, sizes[1], "redacted_thinking.0"],
        ]

        await send(w, *LATER, tools=TOOLS)
        one = await page.ended(3)
        items, notes = one["strip"]["items"], one["strip"]["notes"]
        assert [item[0] for item in items] == list("umcocomu")
        assert [item[1] for item in items[4:6]] == ["server_tool_use", "web_search_tool_result"]
        assert [note[:2] for note in notes] == [[1, "injected"], [1, "injected"], [6, "injected"]]
