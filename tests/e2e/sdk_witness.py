"""Expectations of what a judging upstream received when a client drops its reasoning."""

import itertools
import json
from collections.abc import Sequence

from reasoning_replay.strict_api.binding import blocks_of, is_reasoning

from tests.e2e.chat_agent import CALL_MEMBERS, MESSAGE_MEMBERS
from tests.e2e.sdk_loop import Message, Step
from tests.strict.upstream import WRONG, Upstream

__all__ = ["assert_all_there", "assert_none_wrong"]


def assert_all_there(standin: Upstream, steps: Sequence[Step]) -> None:
    """
    Assert that every turn was accepted once, complete, and as a continuation of the last one.

    Complete: the reasoning of each message is there as it was emitted, and nothing else was added.
    """
    assert_none_wrong(standin, steps)
    assert standin.found("missing") == []
    assert standin.found("whole"), "nothing was due, so nothing is shown"


def assert_none_wrong(standin: Upstream, steps: Sequence[Step]) -> None:
    """Assert that every turn was accepted once, with all, some or none of its reasoning."""
    assert [one.refusal for one in standin.judged] == [None] * len(steps)
    assert standin.found(*WRONG) == []
    saw = [one.messages for one in standin.judged]
    for messages, step in zip(saw, steps, strict=True):
        both = zip(messages, step.sent, strict=True)
        assert [_bare(one, sent) for one, sent in both] == [_bare(one, one) for one in step.sent]
    for before, after in itertools.pairwise(saw):
        assert _unmarked(after[: len(before)]) == _unmarked(before)


def _bare(message: Message, sent: Message) -> Message:
    """Return a message of the model without its reasoning, in the form in which it was sent."""
    if message["role"] != "assistant":
        return message
    bare = {name: message[name] for name in message if name not in MESSAGE_MEMBERS}
    if "tool_calls" in bare:
        bare["tool_calls"] = [
            {name: call[name] for name in call if name not in CALL_MEMBERS}
            for call in bare["tool_calls"]
        ]
    if isinstance(bare["content"], list):
        blocks = [block for block in bare["content"] if not is_reasoning(block)]
        is_text = isinstance(sent["content"], str) and [*blocks[0]] == ["type", "text"]
        bare["content"] = blocks[0]["text"] if is_text and len(blocks) == 1 else blocks
    return bare


def _unmarked(messages: list[Message]) -> str:
    """Return messages as JSON without cache marks; a text is the same as one block."""
    return json.dumps(
        [
            {**one, "content": [{**block, "cache_control": None} for block in blocks_of(one)]}
            for one in messages
        ]
    )
