"""Routes `/responses/compact` and `/responses/input_tokens`: replay works as on `/responses`."""

from typing import Any

import pytest

from tests.web.chat.completions import CHAT, SAID, said
from tests.web.line import request
from tests.web.wire import ASK, CALL, MESSAGE, RESULT, RS, as_json, response, whole
from tests.web.world import MODEL, World, world

KEY = "Authorization: Bearer sk-a"
COMPACTION = {"type": "compaction", "id": "cmp_0c1d2e3f4a5b6071", "encrypted_content": "gAAAAc"}
TRIGGER = {"type": "compaction_trigger"}
COMPACTED = {"id": "resp_3333333333", "object": "response.compaction", "output": [COMPACTION]}

sisters = pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/responses/input_tokens"])


async def taught(w: World) -> None:
    """Let the proxy capture something to inject."""
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    await w.turn(ASK, store=False)


@sisters
async def test_reasoning_is_injected(path: str) -> None:
    """Reasoning is injected on both routes: token counts and compactions depend on it."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(whole(as_json(COMPACTED)))
        body = as_json({"model": MODEL, "input": [ASK, CALL, RESULT, TRIGGER]})
        got = await w.ask(request("POST", path, KEY, body=body))
        assert got.mark == "injected=1"
        assert w.upstream.received[-1].target == path
        assert w.sent() == {"model": MODEL, "input": [ASK, RS, CALL, RESULT, TRIGGER]}
        assert got.body == as_json(COMPACTED)


@sisters
async def test_nothing_is_asked_for_and_nothing_is_captured(path: str) -> None:
    """Both routes have no `include`, and their responses are not captured."""
    async with world(include="always") as w:
        w.upstream.answers(whole(as_json(response(RS, MESSAGE))))
        body = as_json({"model": MODEL, "input": [ASK], "store": False})
        await w.ask(request("POST", path, KEY, body=body))
        assert w.upstream.received[-1].body == body
        assert w.counted("captured_items_total") == 0
        assert w.counted("exchanges_total", route=path.rpartition("/")[2], outcome="ok") == 1


async def test_what_upstream_says_of_the_reasoning_it_got_is_counted() -> None:
    """Upstream's report on the reasoning that it received is counted."""
    said: dict[str, Any] = {
        "input_transformations": [
            {"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"},
            {"id": "rs_2", "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"},
            {"id": "rs_3", "type": "reasoning", "action": "removed", "reason": "news_to_us"},
        ],
        "reasoning": {"effort": "low", "context": "all_turns"},
    }
    async with world() as w:
        w.upstream.answers(whole(as_json(response(RS, CALL, **said))))
        await w.turn(ASK)
        assert w.counted("removed_items_total", reason="prefix_mismatch") == 2
        assert w.counted("removed_items_total", reason="other") == 1
        assert w.counted("reasoning_contexts_total", context="all_turns") == 1


async def test_encrypted_content_that_is_not_known_is_counted() -> None:
    """Once for a response, by its API; the client gets it unchanged."""
    memory = {"type": "memory", "id": "mem_1", "encrypted_content": "gAAAAc"}
    async with world() as w:
        for _ in range(2):
            w.upstream.answers(whole(as_json(response(memory, memory | {"id": "mem_2"}, CALL))))
            await w.turn(ASK)
        w.upstream.answers(whole(as_json(said({**SAID, "encrypted_content": "gAAAAc"}))))
        body = as_json({"model": MODEL, "messages": [ASK]})
        got = await w.ask(request("POST", CHAT, KEY, body=body))
        assert b'"encrypted_content":"gAAAAc"' in got.body
        assert w.counted("unknown_carriers_total", dialect="responses") == 2
        assert w.counted("unknown_carriers_total", dialect="chat") == 1
