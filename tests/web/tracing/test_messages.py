"""Spans of the Messages API: the operation, the path and the dialect."""

from tests.web.messages.exchanges import (
    ASK,
    CALL,
    COUNT,
    LOST,
    MODEL,
    TEXT,
    THOUGHT,
    answer,
    send,
    streamed,
)
from tests.web.tracing.collector import Collector
from tests.web.tracing.world import traced
from tests.web.wire import whole


async def test_a_message_is_a_span(spans: Collector) -> None:
    """It is an operation `chat` of its model; a count of tokens is none."""
    async with traced() as w:
        w.upstream.answers(answer(THOUGHT, TEXT, CALL), whole(b'{"input_tokens":31}'))
        await send(w, ASK)
        first, _ = await spans.came(2)
        assert first.name == f"chat {MODEL}"
        assert (
            first.known.items()
            >= {
                "http.route": "/messages",
                "gen_ai.operation.name": "chat",
                "gen_ai.response.id": "msg_1",
                "gen_ai.usage.cache_read.input_tokens": 4,
                "reasoning_replay.route": "messages",
                "reasoning_replay.dialect": "messages",
                "reasoning_replay.captured": "saved",
            }.items()
        )
        await send(w, *LOST, path=COUNT)
        *_, second, _ = await spans.came(4)
        assert second.name == "POST /messages/count_tokens"
        assert second.known["reasoning_replay.injected"] == 1


async def test_a_streamed_message_is_marked(spans: Collector) -> None:
    """The span says that the response was a stream."""
    async with traced() as w:
        w.upstream.answers(streamed(TEXT, reason="end_turn"))
        await send(w, ASK, stream=True)
        ours, _ = await spans.came(2)
        assert ours.known["gen_ai.request.stream"] is True
