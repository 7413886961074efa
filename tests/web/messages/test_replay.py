"""Messages through the proxy: captured, injected, and kept apart from the other dialects."""

import json
from typing import Any

import pytest

from tests.web.chat.completions import chat
from tests.web.line import line_to, request
from tests.web.messages.exchanges import (
    ASK,
    CALL,
    COUNT,
    LOST,
    MODEL,
    PATH,
    REDACTED,
    RESULT,
    TEXT,
    THOUGHT,
    VERTEX,
    WHOLE,
    Json,
    answer,
    messages,
    send,
    streamed,
)
from tests.web.scripted import Script, wait
from tests.web.scripted import send as send_bytes
from tests.web.wire import as_json, whole
from tests.web.world import eventually, world

DONE = whole(b"{}")
BOUND = "claude-fable-5-1"
BLOCKS = (THOUGHT, TEXT, CALL)


@pytest.mark.parametrize("first", [answer(*BLOCKS), streamed(*BLOCKS)], ids=["plain", "streamed"])
async def test_dropped_reasoning_is_injected(first: bytes) -> None:
    """The next request has the block again, and the header and the metrics say so."""
    async with world() as w:
        w.upstream.answers(first, DONE)
        assert (await send(w, ASK)).mark == "injected=0"
        assert (await send(w, *LOST)).mark == "injected=1"
        assert messages(w) == WHOLE
        size = len(as_json(THOUGHT))
        assert w.counted("items_total", dialect="messages", outcome="injected") == 1
        assert w.counted("requests_total", dialect="messages", result="planned") == 2
        assert w.counted("captures_total", dialect="messages", result="saved") == 1
        assert w.counted("captured_bytes_total", dialect="messages") == size
        assert w.counted("injected_bytes_total", dialect="messages") == size
        assert w.counted("exchanges_total", route="messages", outcome="ok") == 2
        assert w.counted("tokens_total", dialect="messages", kind="cached") == 4
        assert w.counted("tokens_total", dialect="messages", kind="output") == 9
        for dialect in ("responses", "chat"):
            assert w.counted("requests_total", dialect=dialect) == 0


async def test_a_client_may_leave_at_the_reason_to_stop() -> None:
    """Some clients run the tools at once, without waiting for `message_stop`."""
    told = streamed(*BLOCKS)
    at = told.rindex(b"\r\n", 0, told.index(b"event: message_stop") - 2) + 2
    script = Script([send_bytes(told[:at]), wait(), send_bytes(told[at:])])
    body = as_json({"model": MODEL, "max_tokens": 2048, "messages": [ASK]})
    async with world() as w:
        w.upstream.plays(script)
        async with line_to(w.app.url) as line:
            await line.send(request("POST", PATH, "x-api-key: sk-ant-a", body=body))
            await line.head()
            while b"message_delta" not in await line.some():
                pass
        await eventually(lambda: w.counted("exchanges_total", outcome="client_gone") == 1)
        w.upstream.answers(DONE)
        assert (await send(w, *LOST)).mark == "injected=1"
        assert messages(w) == WHOLE


async def test_blocks_go_where_they_were_emitted() -> None:
    """Opaque blocks, and blocks between text and a call, keep their places; marks stay."""
    between = THOUGHT | {"thinking": "", "signature": "ErUBCkYIBx=="}
    marked = CALL | {"cache_control": {"type": "ephemeral"}}
    async with world() as w:
        w.upstream.answers(streamed(REDACTED, TEXT, between, CALL), DONE)
        await send(w, ASK)
        said = {"role": "assistant", "content": [TEXT, marked]}
        assert (await send(w, ASK, said, RESULT)).mark == "injected=2"
        assert messages(w)[1]["content"] == [REDACTED, TEXT, between, marked]


@pytest.mark.parametrize("first", [answer(*BLOCKS), streamed(*BLOCKS)], ids=["plain", "streamed"])
@pytest.mark.parametrize("path", [PATH, COUNT])
async def test_adjacent_messages_are_one(first: bytes, path: str) -> None:
    """The API joins them: reasoning in one is not sent again in the next, and else leads all."""

    def told(*messages: Json) -> list[Json]:
        return [ASK, *({"role": "assistant"} | one for one in messages), RESULT]

    own = told({"content": [THOUGHT]}, {"content": [TEXT, CALL]})
    three = told({"content": [THOUGHT]}, {"content": TEXT["text"]}, {"content": [CALL]})
    lost = told({"content": TEXT["text"]}, {"content": [CALL]})
    async with world() as w:
        w.upstream.answers(first, *[DONE] * 3)
        await send(w, ASK)
        for sent in (own, three):
            assert (await send(w, *sent, path=path)).mark == "injected=0, present=1"
            assert messages(w) == sent
        assert (await send(w, *lost, path=path)).mark == "injected=1"
        assert messages(w) == told({"content": [THOUGHT, TEXT]}, {"content": [CALL]})


@pytest.mark.parametrize("first", [answer(*BLOCKS), streamed(*BLOCKS)], ids=["plain", "streamed"])
@pytest.mark.parametrize("path", [PATH, COUNT])
@pytest.mark.parametrize("model", [MODEL, BOUND])
async def test_another_text_before_the_calls(first: bytes, path: str, model: str) -> None:
    """Reasoning that led to calls leads a message with all of them, also without its text."""
    other = {"type": "text", "text": "[System: Empty message content sanitised]"}
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(first, DONE, DONE)
        await send(w, ASK, model=model)
        for blocks in ([other, CALL], [CALL]):
            said = {"role": "assistant", "content": blocks}
            got = await send(w, ASK, said, RESULT, path=path, model=model)
            assert got.mark == "injected=1"
            assert messages(w)[1]["content"] == [THOUGHT, *blocks]


SERVED: dict[str, tuple[Json, Json]] = {
    "mcp": (
        {"type": "mcp_tool_use", "id": "mcptoolu_014Q35RayjACSWkSj4X2yov1", "name": "echo"}
        | {"server_name": "s", "input": {"text": "x"}},
        {"type": "mcp_tool_result", "is_error": False}
        | {"content": [{"type": "text", "text": "x", "citations": None}]},
    ),
    "web_search": (
        {"type": "server_tool_use", "id": "srvtoolu_01GUk7pHBFbRVEoNiViomUfx"}
        | {"name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result"}
        | {"content": [{"type": "web_search_result", "url": "u", "page_age": None}]},
    ),
    "web_fetch": (
        {"type": "server_tool_use", "id": "srvtoolu_01GUk7pHBFbRVEoNiViomUfx"}
        | {"name": "web_fetch", "input": {"url": "u"}},
        {"type": "web_fetch_tool_result"}
        | {"content": {"type": "web_fetch_result", "url": "u", "retrieved_at": None}},
    ),
}


def without_nulls(value: Any) -> Any:
    """Return a value as a client sends it whose library leaves out null members."""
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return value


@pytest.mark.parametrize("tool", SERVED)
@pytest.mark.parametrize("model", [MODEL, BOUND])
@pytest.mark.parametrize("change", [without_nulls, list], ids=["without-nulls", "as-it-was"])
@pytest.mark.parametrize("make", [answer, streamed])
async def test_tools_of_the_server(tool: str, model: str, change: Any, make: Any) -> None:
    """Their calls and results are blocks of the model's message; a pause may end it there."""
    call, found = SERVED[tool]
    found = found | {"tool_use_id": call["id"]}
    again = call | {"id": "srvtoolu_01Kc5RbMz8WqYt3NxPdLgHfJ"}
    last = found | {"tool_use_id": again["id"]}
    late = THOUGHT | {"thinking": "", "signature": "ErUBCkYIBx=="}
    go = {"role": "user", "content": "And now?"}
    async with world(upstream_profile="anthropic") as w:
        paused = make(THOUGHT, call, found, late, TEXT, again, reason="pause_turn")
        w.upstream.answers(paused, make(last, THOUGHT, TEXT).replace(b"msg_1", b"msg_2"), DONE)
        await send(w, ASK, model=model)
        first = {"role": "assistant", "content": change([call, found, TEXT, again])}
        assert (await send(w, ASK, first, model=model)).mark == "injected=2"
        said = change([THOUGHT, call, found, late, TEXT, again])
        assert messages(w) == [ASK, {"role": "assistant", "content": said}]
        second = {"role": "assistant", "content": change([last, TEXT])}
        assert (await send(w, ASK, first, second, go, model=model)).mark == "injected=3"
        assert messages(w)[1]["content"] == said
        assert messages(w)[2]["content"] == change([last, THOUGHT, TEXT])


@pytest.mark.parametrize("model", [MODEL, BOUND])
async def test_reasoning_after_the_last_call(model: str) -> None:
    """It led to nothing, so it is not kept; what led to the call goes before it, now and later."""
    late = THOUGHT | {"thinking": "", "signature": "ErUBCkYIBx=="}
    last, go = {"role": "assistant", "content": [TEXT]}, {"role": "user", "content": "And now?"}
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS, late), answer(late, TEXT, number=2), DONE)
        await send(w, ASK, model=model)
        assert (await send(w, *LOST, model=model)).mark == "injected=1"
        assert messages(w) == WHOLE
        assert (await send(w, *LOST, last, go, model=model)).mark == "injected=2"
        assert messages(w) == [*WHOLE, {"role": "assistant", "content": [late, TEXT]}, go]


async def test_a_text_becomes_a_list_only_to_carry_a_block() -> None:
    """A string is the same as one block of text; without an injection it stays a string."""
    said = {"role": "assistant", "content": TEXT["text"]}
    later = {"role": "user", "content": "And tomorrow?"}
    async with world() as w:
        w.upstream.answers(answer(THOUGHT, TEXT, reason="end_turn"), DONE, DONE)
        await send(w, ASK)
        assert (await send(w, ASK, said, later)).mark == "injected=1"
        assert messages(w)[1]["content"] == [THOUGHT, TEXT]
        await send(w, ASK, said, later, key="x-api-key: sk-ant-b")
        assert messages(w)[1] == said


async def test_the_response_reaches_the_client_unchanged() -> None:
    """A response is forwarded byte for byte, and each event of a stream is whole."""
    async with world() as w:
        w.upstream.answers(plain := answer(*BLOCKS), stream := streamed(*BLOCKS))
        got = await send(w, ASK)
        assert plain.endswith(b"\r\n\r\n" + got.body)
        got = await send(w, ASK, stream=True)
        events = [part for part in stream.split(b"\r\n") if part.startswith(b"event:")]
        assert got.body == b"".join(events)


async def test_a_count_of_tokens_has_the_same_input() -> None:
    """It gets the same blocks; its response is no turn."""
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), whole(b'{"input_tokens":31}'), DONE)
        await send(w, ASK)
        got = await send(w, *LOST, path=COUNT)
        assert (got.mark, got.body) == ("injected=1", b'{"input_tokens":31}')
        assert messages(w) == WHOLE
        assert w.counted("exchanges_total", route="count_tokens", outcome="ok") == 1
        assert w.counted("captures_total", dialect="messages") == 1
        await send(w, *LOST)
        assert messages(w) == WHOLE


async def test_the_path_names_the_model_in_a_cloud() -> None:
    """The model of a turn is that of the path, and another model gets nothing of it."""
    other = VERTEX.replace("sonnet-4-6", "opus-4-5")
    async with world(base="") as w:
        w.upstream.answers(answer(*BLOCKS), DONE, DONE)
        await send(w, ASK, path=VERTEX, model=None, anthropic_version="vertex-2023-10-16")
        assert (await send(w, *LOST, path=VERTEX, model=None)).mark == "injected=1"
        assert messages(w) == WHOLE
        assert (await send(w, *LOST, path=other, model=None)).mark == (
            "injected=0, guarded_model=1"
        )
        assert w.counted("exchanges_total", route="messages", outcome="ok") == 3


async def test_an_edit_before_a_bound_block_keeps_it_away() -> None:
    """The newest models bind a block to its history: after an edit there is none, and no error."""
    edited = [{"role": "user", "content": "What is the weather in Bergen?"}, *LOST[1:]]
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS), *[DONE] * 3)
        await send(w, ASK, model=BOUND)
        assert (await send(w, *edited, model=BOUND)).mark == "injected=0, guarded_prefix=1"
        assert messages(w) == edited
        got = await send(w, *LOST, model=BOUND, system="Be brief.")
        assert got.mark == "injected=0, guarded_prefix=1"
        assert (await send(w, *LOST, model=BOUND)).mark == "injected=1"
        assert messages(w) == WHOLE


REMINDER: Json = {"role": "system", "content": "Hurry.", "clear_at": "next_user_message"}
EFFORT: Json = {"role": "system", "content": [], "output_config": {"effort": "low"}}


@pytest.mark.parametrize(
    ("first", "later", "mark"),
    [
        ([EFFORT], [], "injected=1"),
        ([{"role": "system", "output_config": {"effort": "low"}}], [], "injected=1"),
        ([], [EFFORT], "injected=1"),
        ([REMINDER], [REMINDER], "injected=1"),
        ([REMINDER, EFFORT], [REMINDER], "injected=1"),
        ([REMINDER], [], "injected=0, guarded_prefix=1"),
        ([REMINDER], [REMINDER | {"content": "Go on."}], "injected=0, guarded_prefix=1"),
    ],
)
async def test_a_message_that_only_sets_the_effort_binds_nothing(
    first: list[Json], later: list[Json], mark: str
) -> None:
    """It may come and go. A reminder stays, cleared or not: the API refuses a block without it."""
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS), DONE)
        await send(w, ASK, *first, model=BOUND)
        assert (await send(w, ASK, *later, *LOST[1:], model=BOUND)).mark == mark


@pytest.mark.parametrize(
    ("model", "mark"), [(MODEL, "injected=2"), (BOUND, "injected=1, guarded_prefix=1")]
)
async def test_a_thread_that_ends_is_sent_as_a_whole(model: str, mark: str) -> None:
    """Upstream has the history, so nothing is due; the bound rest was made after an unseen one."""
    late = THOUGHT | {"thinking": "", "signature": "ErUBCkYIBx=="}
    call = CALL | {"id": "toolu_01Qw8nR4yU6cJm1TsX"}
    last = {"role": "assistant", "content": [call]}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "8 degrees"}
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS), answer(late, call, number=2), DONE)
        await send(w, ASK, model=model, thread={"type": "create"})
        more = {"type": "continue", "previous_message_id": "msg_1"}
        assert (await send(w, RESULT, model=model, thread=more)).mark == "injected=0"
        assert messages(w) == [RESULT]
        history = [*LOST, last, {"role": "user", "content": [result]}]
        assert (await send(w, *history, model=model, thread={"type": "create"})).mark == mark
        assert messages(w)[:3] == WHOLE


async def test_what_the_client_replays_or_switches_off_is_left_alone() -> None:
    """Its own blocks are counted; without thinking nothing is injected."""
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), DONE, DONE)
        await send(w, ASK)
        assert (await send(w, *WHOLE)).mark == "injected=0, present=1"
        got = await send(w, *LOST, thinking={"type": "disabled"})
        assert (got.mark, messages(w)) == ("injected=0, skipped=1", LOST)


@pytest.mark.parametrize(
    "other", ["x-api-key: sk-ant-b", "Authorization: Bearer sk-ant-a", "api-key: sk-ant-a"]
)
async def test_no_tenant_gets_the_reasoning_of_another(other: str) -> None:
    """A turn belongs to one key in one header; without a key nothing is captured or injected."""
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), DONE, DONE, DONE)
        await send(w, ASK)
        assert (await send(w, *LOST, key=other)).mark == "injected=0, missed=1"
        body = as_json({"model": "m", "messages": LOST})
        assert (await w.ask(request("POST", PATH, body=body))).mark == (
            "injected=0, asked=no_scope"
        )
        assert (await send(w, *LOST)).mark == "injected=1"


async def test_each_dialect_has_its_own_conversations() -> None:
    """The same words in another API do not find the turn, although the tenant is the same."""
    said = {"role": "assistant", "content": TEXT["text"]}
    bearer = "Authorization: Bearer sk-a"
    async with world() as w:
        w.upstream.answers(answer(THOUGHT, TEXT, reason="end_turn"), DONE, DONE, DONE)
        await send(w, ASK, key=bearer)
        got = await chat(w, ASK, said, ASK, model="claude-sonnet-4-6")
        assert (got.mark or "").startswith("injected=0, missed=1")
        got = await w.turn(ASK, said | {"type": "message"}, ASK, model="claude-sonnet-4-6")
        assert (got.mark or "").startswith("injected=0, missed=1")
        assert (await send(w, ASK, said, ASK, key=bearer)).mark == "injected=1"


async def test_shadow_mode_changes_no_request() -> None:
    """The decision is counted, and the client's bytes go out."""
    async with world(mode="shadow") as w:
        w.upstream.answers(answer(*BLOCKS), DONE)
        await send(w, ASK)
        assert (await send(w, *LOST)).mark == "injected=1, shadow"
        assert messages(w) == LOST


async def test_the_log_names_the_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    """The line of an exchange has its route, dialect and tokens."""
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS))
        await send(w, ASK)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (ours,) = [line for line in lines if line["event"] == "exchange"]
    want = {"route": "messages", "dialect": "messages", "cached_tokens": 4, "captured_items": 1}
    assert ours.items() >= want.items()
