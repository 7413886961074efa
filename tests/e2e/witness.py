"""
Expectations of what a strict API received when a client drops its reasoning.

The first two are for Responses, and compare items; the others are for messages, as they are judged.
"""

import itertools
import json
from collections.abc import Sequence

from reasoning_replay.strict_api.binding import blocks_of, is_reasoning

from tests.e2e.agent import Agent, Item, Step
from tests.e2e.chat_agent import CALL_MEMBERS, MESSAGE_MEMBERS
from tests.e2e.sdk_loop import Message
from tests.strict import StrictResponses
from tests.strict.upstream import WRONG, Upstream

__all__ = ["assert_all_there", "assert_none_wrong", "assert_nothing_invented", "assert_restored"]


def _accepted(api: StrictResponses, agent: Agent) -> list[list[Item]]:
    """Return the input of each turn of an agent; upstream accepted each one once."""
    opening = agent.whole[0]  # no other agent begins with it
    asked = [one for one in api.received if one.body]  # all except WebSocket upgrades
    mine = [one for one in asked if json.loads(one.body)["input"][0] == opening]
    assert [(one.path, one.status) for one in mine] == [("/v1/responses", 200)] * len(agent.steps)
    return [json.loads(one.body)["input"] for one in mine]


def assert_restored(api: StrictResponses, agent: Agent) -> None:
    """
    Assert that every turn reached upstream once, complete, and as a continuation of the last one.

    Complete: each reasoning item is there once, directly before the item that it led to. All other
    items are as sent, except that an id which the client dropped may be there again.
    """
    saw = _accepted(api, agent)
    for step, items in zip(agent.steps, saw, strict=True):
        assert [_named(item, api) for item in items] == [_named(item, api) for item in step.whole]
        _assert_ids(items, step, keeps_ids=agent.keeps != "no-ids")
        assert step.mark == (f"injected={_reasoning(items)}" if agent.is_marked else "")
    _assert_stable(saw)


def assert_nothing_invented(api: StrictResponses, agent: Agent) -> None:
    """
    Assert that every turn reached upstream once, with all or some of its reasoning.

    Each reasoning item is directly before the item that it led to; all other items are as sent.
    """
    for step, items in zip(agent.steps, _accepted(api, agent), strict=True):
        rest = iter(_named(item, api) for item in step.whole)
        given = [_named(item, api) for item in items]
        lost = [list(itertools.takewhile(item.__ne__, rest)) for item in given]
        assert all("reasoning" in item for item in itertools.chain(*lost))
        assert list(rest) == []


def _assert_stable(saw: Sequence[list[Item]]) -> None:
    """Assert that the input of each turn begins with the input of the turn before."""
    for before, after in itertools.pairwise(saw):
        assert after[: len(before)] == before


def _named(item: Item, api: StrictResponses) -> Item:
    """Reduce an item to its comparable part: the identity of reasoning, all of other items."""
    if item.get("type") != "reasoning":
        return {name: value for name, value in item.items() if name != "id"}
    if item.get("id"):
        return {"reasoning": item["id"]}
    issued = api.blobs.get(item["encrypted_content"])
    return {"reasoning": issued and issued.item_id}


def _assert_ids(items: list[Item], step: Step, *, keeps_ids: bool) -> None:
    """Assert that each id is the one that upstream emitted, and that no sent id is missing."""
    for item, emitted in zip(items, step.whole, strict=True):
        assert item.get("id") in (None, emitted.get("id"))
    if keeps_ids:
        assert [item for item in items if item.get("type") != "reasoning"] == step.sent


def _reasoning(items: Sequence[Item]) -> int:
    return sum(item.get("type") == "reasoning" for item in items)


def assert_all_there(api: Upstream, steps: Sequence[Step]) -> None:
    """
    Assert that every turn was accepted once, complete, and as a continuation of the last one.

    Complete: the reasoning of each message is there as it was emitted, and nothing else was added.
    """
    assert_none_wrong(api, steps)
    assert api.found("missing") == []
    assert api.found("whole"), "nothing was due, so nothing is shown"


def assert_none_wrong(api: Upstream, steps: Sequence[Step]) -> None:
    """Assert that every turn was accepted once, with all, some or none of its reasoning."""
    assert [one.refusal for one in api.judged] == [None] * len(steps)
    assert api.found(*WRONG) == []
    saw = [one.messages for one in api.judged]
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
