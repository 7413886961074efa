"""Expectations of an upstream's chat requests when a client drops its reasoning."""

import itertools
import json
from collections.abc import Sequence

from tests.e2e.chat_agent import ChatStep, Message
from tests.standin.chat import ChatStandIn
from tests.standin.chat.messages import CALL_MEMBERS, MESSAGE_MEMBERS

__all__ = ["assert_all_there", "assert_none_wrong"]


def assert_all_there(standin: ChatStandIn, steps: Sequence[ChatStep]) -> None:
    """
    Assert that every turn was accepted once, complete, and as a continuation of the last one.

    Complete: the reasoning of each message is there as it was emitted, and nothing else was added.
    """
    assert_none_wrong(standin, steps)
    assert standin.found("missing", "filler") == []
    assert standin.found("equal"), "nothing was due, so nothing is shown"


def assert_none_wrong(standin: ChatStandIn, steps: Sequence[ChatStep]) -> None:
    """Assert that every turn was accepted once, with all, some or none of its reasoning."""
    assert [one.refusal for one in standin.judged] == [None] * len(steps)
    assert standin.found("wrong", "other_model", "foreign") == []
    saw = [one.messages for one in standin.judged]
    for messages, step in zip(saw, steps, strict=True):
        assert [_bare(one) for one in messages] == [_bare(one) for one in step.sent]
    for before, after in itertools.pairwise(saw):
        assert json.dumps(after[: len(before)]) == json.dumps(before)


def _bare(message: Message) -> Message:
    """Return a message without the members of its reasoning, if it is the model's."""
    if message["role"] != "assistant":
        return message
    bare = {name: message[name] for name in message if name not in MESSAGE_MEMBERS}
    if "tool_calls" in bare:
        bare["tool_calls"] = [
            {name: call[name] for name in call if name not in CALL_MEMBERS}
            for call in bare["tool_calls"]
        ]
    return bare
