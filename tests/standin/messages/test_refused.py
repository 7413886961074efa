"""The stand-in refuses what the API refuses, in its words, and accepts what the API accepts."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.standin.messages import MessagesStandIn
from tests.standin.messages.client import (
    RAIN,
    SNOW,
    TOOLS,
    Message,
    ask,
    error,
    step,
    without,
)
from tests.standin.messages.rules import DROPS_BLOCKS

Start = Callable[..., Awaitable[MessagesStandIn]]
MARK = {"cache_control": {"type": "ephemeral"}}
OFF: Message = {"thinking": {"type": "disabled"}}


def other(messages: list[Message], at: int, *blocks: Any) -> list[Message]:
    """Return messages with other blocks in one of them."""
    return [*messages[:at], {**messages[at], "content": list(blocks)}, *messages[at + 1 :]]


# --- Manual thinking ---


@pytest.mark.parametrize(("loop", "found"), [("one_call", "tool_use"), ("preamble", "text")])
async def test_manual_thinking_starts_the_loop(start: Start, loop: str, found: str) -> None:
    """Without its reasoning, the message is refused; in a finished turn it is not."""
    standin = await start("manual", loop=loop)
    history = await step(standin, RAIN)
    said = await error(standin, *without(history))
    assert said.startswith(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
        f" `{found}`."
    )
    assert len(await step(standin, *history)) == 4
    assert (await ask(standin, *without(history), SNOW))[0] == 200
    assert (await ask(standin, *without(history), **OFF))[0] == 200


async def test_manual_thinking_needs_none_where_none_was(start: Start) -> None:
    """A message that was emitted without reasoning is accepted, one of another API is not."""
    standin = await start("manual", loop="gaps")
    history = await step(standin, *(await step(standin, RAIN)))
    assert (await ask(standin, *history))[0] == 200
    imported = other(history, 1, {**history[1]["content"][1], "input": {"city": "Oslo"}})
    assert "Expected `thinking`" in await error(standin, *imported)


async def test_blank_reasoning_is_refused(start: Start) -> None:
    """Models that show their reasoning accept no block without a text."""
    standin = await start("manual")
    history = await step(standin, RAIN)
    thought, call = history[1]["content"]
    said = await error(standin, *other(history, 1, {**thought, "thinking": " "}, call))
    assert said == (
        "messages.1.content.0.thinking: each thinking block must contain non-whitespace thinking"
    )


async def test_no_reasoning_in_a_last_message_without_thinking(start: Start) -> None:
    """An answer that the client began must not have any, if thinking is off."""
    standin = await start("manual", loop="text")
    history = await step(standin, RAIN)
    said = await error(standin, *history, **OFF)
    assert said.startswith("messages.1: When thinking is disabled, an `assistant` message in")
    assert (await ask(standin, *without(history), **OFF))[0] == 200


# --- Signatures ---


@pytest.mark.parametrize("mode", ["manual", "adaptive", "bound"])
async def test_a_signature_is_checked(start: Start, mode: str) -> None:
    """A changed text, a changed signature, and one of another block are refused, at their place."""
    standin = await start(mode, loop="chain")
    history = await step(standin, *(await step(standin, RAIN)))
    (first, _), (second, call) = history[1]["content"], history[3]["content"]
    for block in (
        {**second, "thinking": "Something else."},
        {**second, "signature": second["signature"][:-8]},
        {**second, "signature": "!"},
        {**second, "thinking": first["thinking"] + ".", "signature": first["signature"]},
    ):
        said = await error(standin, *other(history, 3, block, call))
        assert said == "messages.3.content.0: Invalid `signature` in `thinking` block"
    bare = {name: value for name, value in second.items() if name != "signature"}
    said = await error(standin, *other(history, 3, bare, call))
    assert said == "messages.3.content.0.thinking.signature: Field required"


async def test_redacted_reasoning_is_checked(start: Start) -> None:
    """It has nothing but data."""
    standin = await start("manual", loop="redacted")
    history = await step(standin, RAIN)
    redacted, call = history[1]["content"]
    assert [*redacted] == ["type", "data"]
    said = await error(standin, *other(history, 1, {**redacted, "data": "AAAA"}, call))
    assert said == "messages.1.content.0: Invalid `data` in `redacted_thinking` block"
    assert (await ask(standin, *history))[0] == 200


async def test_a_signature_is_of_one_model_and_one_account(start: Start) -> None:
    """Older models refuse a block of another one; the newest leaves it out."""
    standin = await start("adaptive")
    history = await step(standin, RAIN)
    for more in ({"model": "claude-opus-4-8"}, {"key": "sk-ant-two"}):
        assert "Invalid `signature`" in await error(standin, *history, **more)
    standin = await start("bound")
    history = await step(standin, RAIN)
    _, answer = await ask(standin, *history, model="claude-opus-5-5")
    assert answer["input_transformations"] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "unreadable"}
    ]


@pytest.mark.parametrize("mode", ["manual", "adaptive", "bound"])
async def test_the_latest_message_is_whole_or_bare(start: Start, mode: str) -> None:
    """Its blocks of reasoning may not be moved, and none may lack; in older messages they may."""
    standin = await start(mode, loop="interleaved")
    history = await step(standin, RAIN)
    first, text, second, call = history[1]["content"]
    modified = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot"
    assert modified in await error(standin, *other(history, 1, first, text, call))
    if mode == "bound":  # the block is after another history, too
        moved = await error(standin, *other(history, 1, first, second, text, call))
        assert moved.startswith("messages.1.content.1: Invalid `signature` in `thinking` block. ")
        return
    assert modified in await error(standin, *other(history, 1, first, second, text, call))
    later = await step(standin, *history)
    assert (await ask(standin, *other(later, 1, first, text, call)))[0] == 200


@pytest.mark.parametrize("mode", ["manual", "adaptive", "bound"])
async def test_adjacent_messages_are_one(start: Start, mode: str) -> None:
    """Reasoning in a message of its own counts, and the same once more is too much."""
    standin = await start(mode, loop="preamble")
    asked, said, results = await step(standin, RAIN)
    thought, text, call = said["content"]
    alone, both, other = ({**said, "content": one} for one in ([thought], [text, call], [call]))
    assert (await ask(standin, asked, alone, both, results))[0] == 200
    worded = {**said, "content": text["text"]}
    assert (await ask(standin, asked, alone, worded, other, results))[0] == 200
    assert standin.judged[-1].count("equal") == 1
    twice = await error(standin, asked, alone, said, results)
    if mode == "bound":
        assert twice.startswith("messages.1.content.1: Invalid `signature` in `thinking` block. ")
    else:
        assert "blocks in the latest assistant message cannot be modified" in twice
    if mode == "manual":
        assert "Expected `thinking`" in await error(standin, asked, both, alone, results)


# --- Adaptive ---


async def test_adaptive_thinking_is_lost_in_silence(start: Start) -> None:
    """It is accepted, found missing, and the prompt cache ends before it."""
    standin = await start("adaptive", loop="chain")
    history = await step(standin, RAIN)
    assert [block["type"] for block in history[1]["content"]] == ["thinking", "tool_use"]
    assert history[1]["content"][0]["thinking"] == ""
    await step(standin, *history)
    await step(standin, *without(history))
    assert [one.count("missing") for one in standin.judged] == [0, 0, 1]
    first, whole, bare = standin.reads
    assert first.cached == 0
    assert whole.cached > first.tokens == bare.cached


async def test_a_summary_is_shown_if_asked_for(start: Start) -> None:
    """Otherwise the text is empty, and the signature is all."""
    standin = await start("adaptive")
    history = await step(standin, RAIN, thinking={"type": "adaptive", "display": "summarized"})
    assert "Thought" in history[1]["content"][0]["thinking"]


# --- Bound ---


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"system": "Be brief."}, "`system` prompt differs"),
        ({"tools": [TOOLS[0] | {"description": "x"}]}, "`tools` differ"),
        ({"messages": [SNOW]}, "`messages` before it differ"),
    ],
)
async def test_a_bound_block_needs_its_history(
    start: Start, change: dict[str, Any], part: str
) -> None:
    """After any other, it is refused; without it, or with the switch, the request is accepted."""
    standin = await start("bound", loop="chain")
    history = await step(standin, *(await step(standin, RAIN)))
    history = [*change.pop("messages", [RAIN]), *history[1:]]
    said = await error(standin, *history, **change)
    assert said.startswith(
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a"
        " different conversation. Remove the block, or set"
    )
    assert part in said
    assert (await ask(standin, *without(history), **change))[0] == 200
    drops = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}, "type": "adaptive"}
    assert part in await error(standin, *history, thinking=drops, **change)
    _, answer = await ask(standin, *history, thinking=drops, betas=DROPS_BLOCKS, **change)
    assert [one["reason"] for one in answer["input_transformations"]] == ["prefix_mismatch"] * 2


async def test_a_bound_block_is_bound_to_the_blocks_before_it(start: Start) -> None:
    """Of older turns, the oldest may be missing; one between others unbinds all that follow."""
    standin = await start("bound", loop="chain")
    history = await step(standin, *(await step(standin, *(await step(standin, RAIN)))))
    assert (await ask(standin, *without(history[:2]), *history[2:], SNOW))[0] == 200
    assert (await ask(standin, *without(history[:4]), *history[4:], SNOW))[0] == 200
    assert (await ask(standin, *history[:4], *without(history[4:]), SNOW))[0] == 200
    hole = [*history[:2], *without(history[2:4]), *history[4:], SNOW]
    said = await error(standin, *hole)
    assert said.startswith("messages.5.content.0: Invalid `signature` in `thinking` block. ")
    assert "was left out or moved" in said


async def test_what_a_block_is_not_bound_to(start: Start) -> None:
    """Cache marks, null members, their order, and the form of a text."""
    standin = await start("bound")
    history = await step(standin, RAIN, system="Be good.")
    asked = {"role": "user", "content": [{"text": RAIN["content"], "type": "text"} | MARK]}
    thought, call = history[1]["content"]
    changed = other(history, 1, thought, dict(reversed((call | MARK).items())))
    more: Message = {"system": [{"type": "text", "text": "Be good.", "citations": None} | MARK]}
    assert (await ask(standin, asked, *changed[1:], **more))[0] == 200


# --- Others ---


async def test_deepseek_demands_the_current_round(start: Start) -> None:
    """Its blocks have no signature, and a text that is not its own is refused."""
    standin = await start("deepseek", loop="chain")
    history = await step(standin, *(await step(standin, RAIN)))
    first, second = history[1]["content"][0], history[3]["content"]
    assert [*first] == ["type", "thinking"]
    said = await error(standin, *history[:3], *without(history[3:]))
    assert said == "The `content[].thinking` in the thinking mode must be passed back to the API."
    said = await error(standin, *other(history, 3, first, second[1]))
    assert said.startswith("messages.3.content.0.0 is not what was emitted for this message")
    assert (await ask(standin, *without(history), SNOW))[0] == 200
    assert (await ask(standin, *without(history), **OFF))[0] == 200
