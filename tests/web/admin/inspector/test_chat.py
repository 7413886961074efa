"""Chat Completions in the inspector: marks of what was added to messages, and their prefixes."""

from typing import Any

from tests.web.admin.inspector.watching import watched
from tests.web.chat.completions import (
    ASK,
    LOST,
    MODEL,
    PASSED_BACK,
    RESULT,
    SAID,
    THOUGHT,
    WHOLE,
    answer,
    chat,
    messages,
    refusal,
)
from tests.web.chat.completions import said as completion
from tests.web.wire import as_json, whole

Json = dict[str, Any]

TEXT: Json = {"role": "assistant", "content": "7 degrees."}
NEXT: Json = {"role": "user", "content": "And tomorrow?"}
# A message of the model that the proxy never saw, and the question after it.
ELSEWHERE: Json = {"role": "assistant", "content": "Bring a coat."}
AGAIN: Json = {"role": "user", "content": "Sure?"}
FILLED = {"reasoning_content": ""}


def text(name: str, **more: object) -> bytes:
    """Return a completion with this id and a text."""
    return whole(as_json(completion(TEXT | more, "stop") | {"id": name}))


async def test_an_injected_member_is_marked_at_its_item() -> None:
    """The mark names the member; it is no item of its own."""
    async with watched() as (w, page):
        w.upstream.answers(answer(**THOUGHT), text("chatcmpl-2"), text("chatcmpl-3"))
        await chat(w, ASK)
        first = await page.ended(1)
        assert (first["dialect"], first["route"], first["model"]) == ("chat", "chat", MODEL)
        assert (first["captured"], first["captured_items"]) == ("saved", 1)
        await chat(w, *LOST)
        second = await page.ended(2)
        assert [item[:3] for item in second["strip"]["items"]] == [
            ["u", "message", ""],
            ["c", "function_call", SAID["tool_calls"][0]["id"]],
            ["o", "function_call_output", RESULT["tool_call_id"]],
        ]
        raw = as_json(THOUGHT)[1:-1]
        note = [1, "injected", 1, len(raw), "reasoning_content"]
        assert second["strip"]["notes"] == [note]
        assert second["items"] == 3
        await chat(w, *LOST, TEXT, NEXT)
        third = await page.ended(3)
        assert third["strip"]["notes"] == [note]


async def test_a_filler_is_marked() -> None:
    """Both when it heals and when it is known, next to a member that is injected."""
    history = [*LOST, TEXT, NEXT, ELSEWHERE, AGAIN]
    async with watched(chat_fill="on") as (w, page):
        w.upstream.answers(
            answer(**THOUGHT),
            text("chatcmpl-2"),
            refusal(PASSED_BACK),
            text("chatcmpl-3"),
            text("chatcmpl-4"),
        )
        await chat(w, ASK)
        await chat(w, *LOST)
        await chat(w, *history)
        healed = await page.ended(3)
        assert (healed["healed"], healed["outcomes"]["degraded"]) == ("lacks_reasoning", 2)
        await chat(w, *history, TEXT, NEXT)
        known = await page.ended(4)
        filled = [TEXT | FILLED, NEXT, ELSEWHERE | FILLED, AGAIN, TEXT | FILLED, NEXT]
        assert messages(w) == [*WHOLE, *filled]
        notes = [(place, what) for place, what, *_ in known["strip"]["notes"]]
        assert notes == [
            (1, "injected"),
            (5, "missed"),
            *((place, "degraded") for place in (3, 5, 7)),
        ]
        assert known["items"] == 9
