"""The Messages API refuses and accepts the same requests as Anthropic's API."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.strict_api import Item, StrictApi

from tests.strict_api import scripted
from tests.strict_api.scripted import ASK, listening


@pytest.fixture
async def upstream() -> AsyncIterator[StrictApi]:
    """A scripted upstream that listens."""
    async with listening("messages") as upstream:
        yield upstream


async def ask(upstream: StrictApi, *messages: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the blocks, or the text of the error."""
    status, said = await scripted.ask(upstream, "messages", *messages, **more)
    return status, said if status != 200 else said["content"]


def said(*blocks: Item) -> Item:
    """Return a message of the model."""
    return {"role": "assistant", "content": blocks}


def result(call: Item) -> Item:
    """Return the message with the result of a call."""
    found = {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}
    return {"role": "user", "content": [found]}


async def test_reasoning_is_demanded_in_the_current_loop(upstream: StrictApi) -> None:
    """It starts the message, with its own signature; a new question exempts earlier loops."""
    _, (thought, call) = await ask(upstream, ASK)
    status, words = await ask(upstream, ASK, said(call), result(call))
    assert status == 400
    assert words.startswith("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`")
    forged = {**thought, "thinking": "Something else."}
    assert await ask(upstream, ASK, said(forged, call), result(call)) == (
        400,
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    )
    assert (await ask(upstream, ASK, said(thought, call), result(call)))[0] == 200
    assert (await ask(upstream, ASK, said(call), result(call), ASK))[0] == 200


async def test_adjacent_messages_are_one(upstream: StrictApi) -> None:
    """Reasoning in a message of its own counts; the next answer is that to one message."""
    _, (thought, call) = await ask(upstream, ASK)
    status, split = await ask(upstream, ASK, said(thought), said(call), result(call))
    assert status == 200
    _, whole = await ask(upstream, ASK, said(thought, call), result(call))
    assert [block.get("input") for block in split] == [block.get("input") for block in whole]
    status, words = await ask(upstream, ASK, said(call), said(thought), result(call))
    assert (status, words[:24]) == (400, "messages.1.content.0.typ")


async def test_without_thinking_nothing_is_demanded(upstream: StrictApi) -> None:
    """A history without reasoning is accepted then, and the answer has none."""
    off = {"thinking": {"type": "disabled"}}
    _, (call,) = await ask(upstream, ASK, **off)
    assert call["type"] == "tool_use"
    assert (await ask(upstream, ASK, said(call), result(call), **off))[0] == 200


async def test_a_block_may_be_bound_to_its_model_and_its_history(upstream: StrictApi) -> None:
    """A block of another model is refused; one of a bound model also after another history."""
    thinking: Item = {"type": "adaptive"}
    for model in ("claude-sonnet-5", "claude-fable-5-1"):
        more: Item = {"model": model, "thinking": thinking, "system": "Be brief."}
        _, (thought, call) = await ask(upstream, ASK, **more)
        assert not thought["thinking"]  # shown only if it is asked for
        history = [ASK, said(thought, call), result(call)]
        assert (await ask(upstream, *history, **more))[0] == 200
        edited = more | {"system": "Be long."}
        status, told = await ask(upstream, *history, **edited)
        if model == "claude-sonnet-5":
            assert status == 200
            status, told = await ask(upstream, *history, **(more | {"model": "claude-opus-4-8"}))
            assert (status, "Invalid `signature` in `thinking` block" in told) == (400, True)
            continue
        assert (status, "is bound to a different conversation" in told) == (400, True)
        drops = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        status, _ = await ask(upstream, *history, **(edited | {"thinking": thinking | drops}))
        assert status == 200
