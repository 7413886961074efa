"""Chat Completions through the proxy: captured, injected, and kept apart from Responses."""

import json

import pytest
from reasoning_replay.core.dialects.registry import CHAT as DIALECT
from reasoning_replay.core.dialects.registry import scope_in

from tests.web.chat.completions import (
    ASK,
    CALL,
    LOST,
    RESULT,
    SAID,
    THOUGHT,
    WHOLE,
    Json,
    answer,
    chat,
    messages,
    streamed,
)
from tests.web.line import line_to, request
from tests.web.wire import CALL as ITEM
from tests.web.wire import LOST as LOST_ITEMS
from tests.web.wire import RS, as_json, response, whole
from tests.web.world import World, world

STREAMED = streamed(
    {"role": "assistant", "content": None, "reasoning_content": "I must "},
    {"reasoning_content": "look it up."},
    {"tool_calls": [CALL | {"index": 0}]},
)
DONE = whole(b"{}")


@pytest.mark.parametrize("first", [answer(**THOUGHT), STREAMED], ids=["plain", "streamed"])
async def test_dropped_reasoning_is_injected(first: bytes) -> None:
    """The next request has the reasoning again, and the header and the metrics say so."""
    async with world() as w:
        w.upstream.answers(first, DONE)
        got = await chat(w, ASK)
        assert got.mark == "injected=0"
        got = await chat(w, *LOST)
        assert got.mark == "injected=1"
        assert messages(w) == WHOLE
        size = len(as_json(THOUGHT)) - 2
        assert w.counted("items_total", dialect="chat", outcome="injected") == 1
        assert w.counted("requests_total", dialect="chat", result="planned") == 2
        assert w.counted("captures_total", dialect="chat", result="saved") == 1
        assert w.counted("captured_items_total", dialect="chat") == 1
        assert w.counted("captured_bytes_total", dialect="chat") == size
        assert w.counted("injected_bytes_total", dialect="chat") == size
        assert w.counted("exchanges_total", route="chat", outcome="ok") == 2
        for name in ("items", "requests", "captures", "captured_items", "injected_bytes", "tokens"):
            assert w.counted(f"{name}_total", dialect="responses") == 0


DETAILS = {"reasoning_details": [{"type": "reasoning.text", "text": "I must.", "index": 0}]}


@pytest.mark.parametrize(
    ("emitted", "kept"),
    [
        (THOUGHT, {"reasoning": THOUGHT["reasoning_content"]}),
        (THOUGHT, {"reasoning_details": DETAILS["reasoning_details"]}),
        (THOUGHT, {"reasoning_content": ""}),
        (DETAILS, {"reasoning_content": "I must."}),
        ({"reasoning": "I must."}, {"reasoning_content": "I must."}),
        (DETAILS, {"reasoning": "I must.", "reasoning_details": []}),
        (THOUGHT, {"reasoning_content": "it up."}),
        (DETAILS, {"reasoning_details": [{"type": "reasoning.text", "text": "st.", "index": 0}]}),
    ],
)
async def test_a_member_under_another_name_or_a_piece_is_no_replay(
    emitted: Json, kept: Json
) -> None:
    """Upstream gets what it emitted, and no word says that the client had replayed it."""
    async with world() as w:
        w.upstream.answers(answer(**emitted), DONE, DONE)
        await chat(w, ASK)
        got = await chat(w, ASK, SAID | kept, RESULT)
        assert got.mark == "injected=1"
        assert messages(w) == [ASK, SAID | kept | emitted, RESULT]
        assert w.counted("items_total", dialect="chat", outcome="present") == 0
        got = await chat(w, ASK, SAID | kept | emitted, RESULT)
        assert got.mark == "injected=0, present=1"
        assert messages(w) == [ASK, SAID | kept | emitted, RESULT]


async def test_tokens_are_counted_for_the_dialect() -> None:
    """The usage of a completion is counted under its own dialect."""
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT))
        await chat(w, ASK)
        assert w.counted("tokens_total", dialect="chat", kind="input") == 11
        assert w.counted("tokens_total", dialect="chat", kind="output") == 7


async def test_the_response_reaches_the_client_unchanged() -> None:
    """Comments, chunks and the end of a stream are the upstream's bytes."""
    async with world() as w:
        w.upstream.answers(STREAMED)
        got = await chat(w, ASK, stream=True)
        assert got.body.startswith(b": PROCESSING\n\ndata: {")
        assert got.body.endswith(b"data: [DONE]\n\n")


async def test_each_dialect_has_its_own_conversations() -> None:
    """The same words in the other API do not find the turn, although the tenant is the same."""
    words = {"role": "assistant", "content": "It is seven degrees in Oslo, and rather cloudy."}
    said_before = {"type": "message", "role": "assistant", "content": words["content"]}
    async with world() as w:
        choice = {"index": 0, "message": words | THOUGHT, "finish_reason": "stop"}
        completion = {"id": "resp_1", "model": "gpt-5.4", "choices": [choice]}
        w.upstream.answers(whole(as_json(completion)), DONE)
        await chat(w, ASK, model="gpt-5.4")
        got = await w.turn(ASK, said_before, ASK)
        assert (got.mark or "").startswith("injected=0, missed=1")
        w.upstream.answers(whole(as_json(response(RS, ITEM))), DONE, DONE)
        await w.turn(*LOST_ITEMS[:1])
        call = CALL | {"id": ITEM["call_id"]}
        got = await chat(w, ASK, SAID | {"tool_calls": [call]}, RESULT, model="gpt-5.4")
        assert (got.mark or "").startswith("injected=0, missed=1")
        assert (await w.turn(*LOST_ITEMS)).mark == "injected=1"


async def test_no_tenant_gets_the_reasoning_of_another() -> None:
    """A turn belongs to one key; without a key nothing is captured or injected."""
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT), *[DONE] * 3)
        await chat(w, ASK)
        assert (await chat(w, *LOST, key="sk-b")).mark == "injected=0, missed=1"
        body = as_json({"model": "m", "messages": LOST})
        got = await w.ask(request("POST", "/v1/chat/completions", body=body))
        assert got.mark == "injected=0, asked=no_scope"
        assert (await chat(w, *LOST)).mark == "injected=1"


async def test_the_log_names_dialect_and_tenant(capsys: pytest.CaptureFixture[str]) -> None:
    """The scope in the log is the tenant's in both dialects, and deletes the conversations."""
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT), whole(as_json(response(RS, ITEM))))
        await chat(w, ASK)
        await w.turn(LOST_ITEMS[0])
        await w.get("/v1/models")
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        ours = [line for line in lines if line["event"] == "exchange"]
        assert [line.get("dialect") for line in ours] == ["chat", "responses", None]
        scope = ours[0]["scope"]
        assert ours[1]["scope"] == scope
        kept = (await w.app.store.survey(None, "", 10)).conversations
        tenant = bytes.fromhex(scope)
        assert {one.scope for one in kept} == {tenant, scope_in(DIALECT, tenant)}
        events = await inspected(w)
        assert [one["dialect"] for one in events] == ["chat", "responses", ""]
        assert events[0]["scope"] == scope
        async with line_to(w.app.admin_url) as line:
            asked = f"DELETE /scopes/{scope} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert (await line.ask(asked.encode())).status == 200
        assert (await w.app.store.survey(None, "", 10)).conversations == []


async def inspected(w: World) -> list[dict[str, object]]:
    """Return the exchanges that the inspector has."""
    return [json.loads(one)["exchange"] for one in w.app.recorder.recent()]


async def test_parallel_calls_may_be_split_and_re_ordered() -> None:
    """The ids are random, so the order says nothing: the text goes to the first message, once."""
    second = CALL | {"id": "call_Qw8nR4yU6cJm1TsX"}
    last = RESULT | {"tool_call_id": second["id"]}
    parts = [SAID | {"tool_calls": [one]} for one in (second, CALL)]
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT, tool_calls=[CALL, second]), DONE)
        await chat(w, ASK)
        got = await chat(w, ASK, parts[0], last, parts[1], RESULT)
        assert got.mark == "injected=1"
        assert messages(w) == [ASK, parts[0] | THOUGHT, last, parts[1], RESULT]


async def test_shadow_mode_changes_no_request() -> None:
    """The decision is counted, and the client's bytes go out."""
    async with world(mode="shadow") as w:
        w.upstream.answers(answer(**THOUGHT), DONE)
        await chat(w, ASK)
        assert (await chat(w, *LOST)).mark == "injected=1, shadow"
        assert messages(w) == LOST
        assert w.counted("injected_bytes_total", dialect="chat") == 0


async def test_mode_off_reads_nothing() -> None:
    """Nothing is captured, and no header is added."""
    async with world(mode="off") as w:
        w.upstream.answers(answer(**THOUGHT), DONE)
        await chat(w, ASK)
        got = await chat(w, *LOST)
        assert (got.mark, messages(w)) == (None, LOST)


async def test_only_the_current_round_gets_reasoning_by_setting() -> None:
    """Older rounds are skipped, and counted as that."""
    history = [*LOST, {"role": "assistant", "content": "7 degrees."}, ASK]
    for rounds, mark in (("all", "injected=1, missed=1"), ("current", "injected=0, skipped=1")):
        async with world(chat_rounds=rounds) as w:
            w.upstream.answers(answer(**THOUGHT), DONE)
            await chat(w, ASK)
            assert ((await chat(w, *history)).mark or "").startswith(mark)


async def test_the_memory_budget_holds_for_chat() -> None:
    """A body over the limits is forwarded unread."""
    async with world(inspect_max_bytes=20_000) as w:
        w.upstream.answers(DONE)
        got = await chat(w, {"role": "user", "content": "x" * 30_000})
        assert got.mark == "injected=0, asked=too_large"
        assert w.counted("requests_total", dialect="chat", result="too_large") == 1
