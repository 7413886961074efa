"""Expectations of upstream's input when a client drops its reasoning."""

import itertools
import json
from collections.abc import Sequence

from tests.e2e.agent import Agent, Item, Step
from tests.strict import StrictResponses

__all__ = ["assert_nothing_invented", "assert_restored"]


def _accepted(standin: StrictResponses, agent: Agent) -> list[list[Item]]:
    """Return the input of each turn of an agent; upstream accepted each one once."""
    opening = agent.whole[0]  # no other agent begins with it
    asked = [one for one in standin.received if one.body]  # all except WebSocket upgrades
    mine = [one for one in asked if json.loads(one.body)["input"][0] == opening]
    assert [(one.path, one.status) for one in mine] == [("/v1/responses", 200)] * len(agent.steps)
    return [json.loads(one.body)["input"] for one in mine]


def assert_restored(standin: StrictResponses, agent: Agent) -> None:
    """
    Assert that every turn reached upstream once, complete, and as a continuation of the last one.

    Complete: each reasoning item is there once, directly before the item that it led to. All other
    items are as sent, except that an id which the client dropped may be there again.
    """
    saw = _accepted(standin, agent)
    for step, items in zip(agent.steps, saw, strict=True):
        assert [_named(item, standin) for item in items] == [
            _named(item, standin) for item in step.whole
        ]
        _assert_ids(items, step, keeps_ids=agent.keeps != "no-ids")
        assert step.mark == (f"injected={_reasoning(items)}" if agent.is_marked else "")
    _assert_stable(saw)


def assert_nothing_invented(standin: StrictResponses, agent: Agent) -> None:
    """
    Assert that every turn reached upstream once, with all or some of its reasoning.

    Each reasoning item is directly before the item that it led to; all other items are as sent.
    """
    for step, items in zip(agent.steps, _accepted(standin, agent), strict=True):
        rest = iter(_named(item, standin) for item in step.whole)
        given = [_named(item, standin) for item in items]
        lost = [list(itertools.takewhile(item.__ne__, rest)) for item in given]
        assert all("reasoning" in item for item in itertools.chain(*lost))
        assert list(rest) == []


def _assert_stable(saw: Sequence[list[Item]]) -> None:
    """Assert that the input of each turn begins with the input of the turn before."""
    for before, after in itertools.pairwise(saw):
        assert after[: len(before)] == before


def _named(item: Item, standin: StrictResponses) -> Item:
    """Reduce an item to its comparable part: the identity of reasoning, all of other items."""
    if item.get("type") != "reasoning":
        return {name: value for name, value in item.items() if name != "id"}
    if item.get("id"):
        return {"reasoning": item["id"]}
    issued = standin.blobs.get(item["encrypted_content"])
    return {"reasoning": issued and issued.item_id}


def _assert_ids(items: list[Item], step: Step, *, keeps_ids: bool) -> None:
    """Assert that each id is the one that upstream emitted, and that no sent id is missing."""
    for item, emitted in zip(items, step.whole, strict=True):
        assert item.get("id") in (None, emitted.get("id"))
    if keeps_ids:
        assert [item for item in items if item.get("type") != "reasoning"] == step.sent


def _reasoning(items: Sequence[Item]) -> int:
    return sum(item.get("type") == "reasoning" for item in items)
