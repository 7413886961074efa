"""Spans of Chat Completions: the operation, the path and the dialect."""

from tests.web.chat.completions import ASK, LOST, MODEL, THOUGHT, answer, chat, streamed
from tests.web.tracing.collector import Collector
from tests.web.tracing.world import traced
from tests.web.wire import whole


async def test_a_completion_is_a_span(spans: Collector) -> None:
    """It is an operation `chat` of its model, with its tokens and the result of replay."""
    async with traced() as w:
        w.upstream.answers(answer(**THOUGHT), whole(b"{}"))
        await chat(w, ASK)
        first, _ = await spans.came(2)
        assert first.name == f"chat {MODEL}"
        assert (
            first.known.items()
            >= {
                "http.route": "/chat/completions",
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": MODEL,
                "gen_ai.response.id": "chatcmpl-1",
                "gen_ai.usage.input_tokens": 11,
                "gen_ai.usage.output_tokens": 7,
                "reasoning_replay.route": "chat",
                "reasoning_replay.dialect": "chat",
                "reasoning_replay.captured": "saved",
            }.items()
        )
        await chat(w, *LOST)
        *_, second, _ = await spans.came(4)
        assert second.known["reasoning_replay.injected"] == 1


async def test_a_streamed_completion_is_marked(spans: Collector) -> None:
    """The span says that the response was a stream."""
    async with traced() as w:
        w.upstream.answers(streamed({"role": "assistant", "content": "Hi"}, finish="stop"))
        await chat(w, ASK, stream=True)
        ours, _ = await spans.came(2)
        assert ours.known["gen_ai.request.stream"] is True
