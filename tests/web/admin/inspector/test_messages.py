"""Anthropic Messages in the inspector: its blocks by name, and the prefix that upstream sees."""

import json
from typing import Any

from reasoning_replay.web.admin.inspector.prefixes import Prefix

from tests.web.messages.exchanges import (
    ASK,
    CALL,
    LOST,
    REDACTED,
    RESULT,
    TEXT,
    THOUGHT,
    answer,
    messages,
    send,
)
from tests.web.wire import as_json
from tests.web.world import World, eventually, world

MARK = {"cache_control": {"type": "ephemeral"}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_01Zk3mQ9xT7b", "name": "find", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": SEARCH["id"], "content": []}
SAID = {"type": "text", "text": "It is 7 degrees in Oslo, and it rains there all day."}
TOOLS = [{"name": "get_weather", "input_schema": {"type": "object"}}]
GO = {"role": "user", "content": "And tomorrow?"}
LATER = [*LOST, {"role": "assistant", "content": [SEARCH, FOUND, SAID]}, GO]


async def shown(w: World, count: int) -> tuple[Any, Any, Prefix | None]:
    """Return the items, the notes and the prefix of the newest of so many exchanges."""
    recorder = w.app.recorder
    await eventually(lambda: len(recorder._over) == count)
    told = json.loads(recorder.recent()[-1])["exchange"]["strip"]
    return told["items"], told["notes"], recorder._over[-1].prefix


def kept(before: int, of: int | None = None, *, is_head_new: bool = False) -> Prefix:
    """Return the prefix of a request that begins with so many items of the one before."""
    of = before if of is None else of
    return Prefix(of, before, has_moved=is_head_new or before < of, is_head_new=is_head_new)


async def test_a_conversation_is_shown_block_by_block() -> None:
    """Each has its type and its id; a result is no call, also if upstream ran the tool."""
    async with world() as w:
        w.upstream.answers(
            answer(THOUGHT, REDACTED, TEXT, CALL),
            answer(SEARCH, FOUND, THOUGHT, SAID, number=2),
            answer(SAID, number=3),
        )
        await send(w, ASK, tools=TOOLS)
        await send(w, *LOST, tools=TOOLS)
        items, notes, prefix = await shown(w, 2)
        kinds = [("u", "message", ""), ("m", "message", ""), ("c", "tool_use", CALL["id"])]
        kinds.append(("o", "tool_result", CALL["id"]))
        assert [tuple(item[:3]) for item in items] == kinds
        sizes = [len(as_json(block)) for block in (THOUGHT, REDACTED)]
        assert notes == [
            [1, "injected", 1, sizes[0], "thinking.0"],
            [1, "injected", 1, sizes[1], "redacted_thinking.0"],
        ]
        assert prefix == kept(1)

        await send(w, *LATER, tools=TOOLS)
        items, notes, prefix = await shown(w, 3)
        assert [item[0] for item in items] == list("umcocomu")
        assert [item[1] for item in items[4:6]] == ["server_tool_use", "web_search_tool_result"]
        assert [note[:2] for note in notes] == [[1, "injected"], [1, "injected"], [6, "injected"]]
        assert prefix == kept(6)


async def test_a_prefix_is_kept_if_marks_move_and_texts_become_lists() -> None:
    """Upstream sees the same; an edit and another list of tools move it."""
    async with world() as w:
        w.upstream.answers(*[answer(THOUGHT, SAID, number=n) for n in range(4)])
        marked = {"role": "user", "content": [{"type": "text", "text": ASK["content"], **MARK}]}
        said = {"role": "assistant", "content": SAID["text"]}
        await send(w, marked, tools=TOOLS)
        await send(w, ASK, said, GO, tools=TOOLS)
        assert (await shown(w, 2))[2] == kept(1)
        assert messages(w)[1]["content"] == [THOUGHT, SAID]
        await send(w, ASK, said, GO, said, ASK, tools=TOOLS)
        assert (await shown(w, 3))[2] == kept(4)
        await send(w, GO, said, GO, said, ASK, said, RESULT, tools=[])
        assert (await shown(w, 4))[2] == kept(0, 7, is_head_new=True)
