"""
Rules: what Anthropic Messages refuses beyond the strict API, in its words.

The signatures say what a block was emitted for; DeepSeek has none, and demands the thoughts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import Refused, Rule
from reasoning_replay.strict_api.ledger import Judgement
from reasoning_replay.strict_api.messages import (
    THINKING,
    bad_signature,
    blocks_of,
    is_reasoning,
    question,
    thoughts_of,
)

from tests.standin.messages.binding import Bound, bound_to, flaws
from tests.standin.messages.modes import Mode

__all__ = ["OVERLOADED", "deepseek", "signatures"]

# An error inside a stream whose status was 200.
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
_DOCS = "platform.claude.com/docs/en/build-with-claude/extended-thinking"

UNSIGNED = Rule("messages.{}.content.{}.thinking.signature: Field required", _DOCS, "2026-11")
BLANK = Rule(
    "messages.{}.content.{}.thinking: each thinking block must contain non-whitespace thinking",
    _DOCS,
    "2026-11",
)
BOUND_ELSEWHERE = Rule(
    "{}. The block is bound to a different conversation. Remove the block, or set"
    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". {}',
    _DOCS,
    "2026-11",
)
# The words for all but `system` are not confirmed.
_BOUND_TO = {
    "system": "The `system` prompt differs from the one this block was created with.",
    "tools": "The `tools` differ from the ones this block was created with.",
    "messages": "The `messages` before it differ from the ones this block was created with.",
    "thinking": "A `thinking` block before it was left out or moved.",
}
DEEPSEEK_MISSING = Rule(
    "The `content[].thinking` in the thinking mode must be passed back to the API.",
    "api-docs.deepseek.com/guides/anthropic_api",
    "2026-11",
)
# The vendor does not notice it, so the words are the stand-in's own.
NEVER_EMITTED = Rule("{} is not what was emitted for this message (stand-in)", "tests", "2026-11")


def signatures(
    mode: Mode,
    body: Item,
    account: str,
    emitted: Mapping[str, Bound],
    left_out: list[dict[str, Any]],
    *,
    drops: bool,
) -> Iterator[Refused]:
    """
    Each block is as it was emitted, by this model for this account, and after the same history.

    Args:
        mode: The mode, which may not look at the history.
        body: The request.
        account: The account that asks.
        emitted: What each signature stands for.
        left_out: Gets what an accepted request has in vain.
        drops: Whether blocks of another history are to be left out, not refused.
    """
    bound = [*bound_to(body, account)]
    for index, at, block in thoughts_of(body["messages"]):
        kind = block["type"]
        if kind == THINKING and "signature" not in block:
            yield UNSIGNED(index, at)
        if mode.name == "manual" and kind == THINKING and not str(block[THINKING]).strip():
            yield BLANK(index, at)
        known = emitted.get(str(block.get("signature", block.get("data"))))
        found = flaws(known, bound[index][at])
        if not mode.is_bound:
            found -= _BOUND_TO.keys()
        if not found:
            continue
        is_lost = mode.is_bound and bool(found & {"model", "account"})
        if "content" in found or (found & {"model", "account"} and not is_lost):
            yield bad_signature(index, at, block)
        elif is_lost or drops:
            reason = "unreadable" if is_lost else "prefix_mismatch"
            path = f"messages.{index}.content.{at}"
            left_out.append({"type": "thinking_dropped", "path": path, "reason": reason})
        else:
            differ = next(words for flaw, words in _BOUND_TO.items() if flaw in found)
            yield BOUND_ELSEWHERE(bad_signature(index, at, block), differ)


def deepseek(
    body: Item, messages: Sequence[Item], judgement: Judgement, *, thinks: bool
) -> Iterator[Refused]:
    """With tools and thinking, each message of the round has its reasoning, signed or not."""
    lacking = [one.path for one in judgement.lost if one.state == "missing"]
    start = question(messages) + 1
    for index, message in enumerate(messages) if thinks and body.get("tools") else ():
        if index < start or message.get("role") != "assistant":
            continue
        due = [*lacking, *judgement.unknown]
        is_due = any(path.startswith(f"messages.{index}.") for path in due)
        if is_due and not any(map(is_reasoning, blocks_of(message))):
            yield DEEPSEEK_MISSING()
    for one in judgement.lost:
        if one.state in {"damaged", "misplaced", "repeated"}:
            yield NEVER_EMITTED(one.path)
