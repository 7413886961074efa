"""Each refusal of the vendors that keep reasoning as text, next to what they accept."""

from collections.abc import Callable
from typing import Any

from tests.standin.chat.client import RAIN, SNOW, refused, without

Ask = Callable[..., Any]

# --- DeepSeek ---

K1 = "The `reasoning_content` in the thinking mode must be passed back to the API."


async def test_deepseek_demands_each_message_of_the_round(standins: Ask) -> None:
    """Messages with calls and texts alike, after the last user message; null is absent."""
    _, client = await standins("deepseek", loop="chain")
    history = await client.step(*(await client.step(RAIN)))
    text = {"role": "assistant", "content": "One moment."}

    assert K1 in await refused(client, *without(history, "reasoning_content"))
    assert K1 in await refused(client, *history[:-2], *without(history[-2:], "reasoning_content"))
    assert K1 in await refused(client, history[0], {**history[1], "reasoning_content": None})
    assert K1 in await refused(client, *history, text)
    await client.ask(*history)
    await client.ask(*history, {**text, "reasoning_content": ""})


async def test_deepseek_exempts_earlier_rounds_and_requests_without_tools(standins: Ask) -> None:
    """A new question, no tools, or thinking switched off: nothing is demanded."""
    standin, client = await standins("deepseek")
    bare = without(await client.step(RAIN), "reasoning_content")

    await client.ask(*bare, SNOW)
    await client.ask(*bare, tools=[])
    await client.ask(*bare, extra_body={"thinking": {"type": "disabled"}})
    standin.behaviour.all_rounds = True
    assert K1 in await refused(client, *bare, SNOW)


async def test_deepseek_refuses_the_text_of_another_message(standins: Ask) -> None:
    """Empty is accepted for any message; a text only for its own."""
    standin, client = await standins("deepseek", loop="chain")
    history = await client.step(*(await client.step(RAIN)))
    first, second = history[1], history[3]
    other = {**second, "reasoning_content": first["reasoning_content"]}

    await client.ask(*history[:3], {**second, "reasoning_content": ""}, history[4])
    assert standin.found("wrong") == []
    assert "stand-in" in await refused(client, *history[:3], other, history[4])
    assert [finding.index for _, finding in standin.found("wrong")] == [3]


async def test_deepseek_demands_the_empty_text_that_it_emitted(standins: Ask) -> None:
    """A turn without reasoning has "" in the answer, and is refused without it."""
    standin, client = await standins("deepseek", loop="gaps")
    history = await client.step(*(await client.step(RAIN)))
    assert history[3]["reasoning_content"] == ""
    assert K1 in await refused(client, *history[:3], *without(history[3:], "reasoning_content"))
    await client.ask(*history)
    assert standin.judged[-1].count("equal") == 2


# --- Kimi ---


async def test_kimi_demands_each_message_with_calls(standins: Ask) -> None:
    """In all rounds, and not for texts; the error names the message."""
    _, client = await standins("kimi")
    history = await client.step(*(await client.step(RAIN)))
    words = (
        "thinking is enabled but reasoning_content is missing in assistant tool call message at"
        " index 1"
    )

    assert words in await refused(client, *without(history, "reasoning_content"))
    assert words in await refused(client, *without(history, "reasoning_content"), SNOW)
    await client.ask(*history[:3], *without(history[3:], "reasoning_content"), SNOW)
    await client.ask(
        *without(history, "reasoning_content"), extra_body={"thinking": {"type": "disabled"}}
    )


async def test_kimi_may_preserve_all_thinking(standins: Ask) -> None:
    """With `keep: all`, texts need their reasoning as well, also an empty one."""
    _, client = await standins("kimi", loop="gaps")
    history = [RAIN]
    for _ in range(4):
        history = await client.step(*history)
    keep = {"thinking": {"type": "enabled", "keep": "all"}}

    bare = [*history[:-1], *without(history[-1:], "reasoning_content")]
    said = await refused(client, *bare, SNOW, extra_body=keep)
    assert f"assistant message at index {len(history) - 1} is missing reasoning_content" in said
    await client.ask(*history, SNOW, extra_body=keep)


async def test_kimi_repeats_its_ids(standins: Ask) -> None:
    """Two turns have the ids of each other, and their own reasoning."""
    standin, client = await standins("kimi", loop="chain", repeats=True)
    history = await client.step(*(await client.step(RAIN)))
    first, second = history[1], history[3]
    assert first["tool_calls"] == second["tool_calls"]
    other = {**second, "reasoning_content": first["reasoning_content"]}
    assert "stand-in" in await refused(client, *history[:3], other, history[4])
    assert len(standin.found("wrong")) == 1
