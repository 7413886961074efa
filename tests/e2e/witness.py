"""What upstream has to have seen when a client dropped its reasoning."""

import itertools
import json
from collections.abc import Sequence

from tests.e2e.agent import Agent, Item, Step
from tests.standin import StandIn

__all__ = ["assert_nothing_invented", "assert_restored"]


def _accepted(standin: StandIn, agent: Agent) -> list[list[Item]]:
    """Give what upstream saw as `input` of each turn of an agent; none was refused or repeated."""
    opening = agent.whole[0]  # which no other agent begins with
    asked = [one for one in standin.received if one.body]  # all but the upgrades to a WebSocket
    mine = [one for one in asked if json.loads(one.body)["input"][0] == opening]
    assert [(one.path, one.status) for one in mine] == [("/v1/responses", 200)] * len(agent.steps)
    return [json.loads(one.body)["input"] for one in mine]


def assert_restored(standin: StandIn, agent: Agent) -> None:
    """
    Every turn reached upstream once, whole, and as a continuation of the one before.

    Whole: each reasoning item once, directly ahead of what it led to; all else as it was sent,
    save that an id which the client dropped may be back.
    """
    saw = _accepted(standin, agent)
    for step, items in zip(agent.steps, saw, strict=True):
        assert [_named(item, standin) for item in items] == [
            _named(item, standin) for item in step.whole
        ]
        _assert_ids(items, step, keeps_ids=agent.keeps != "no-ids")
        assert step.mark == (f"injected={_reasoning(items)}" if agent.is_marked else "")
    _assert_stable(saw)


def assert_nothing_invented(standin: StandIn, agent: Agent) -> None:
    """
    Every turn reached upstream once, with some of its reasoning or all of it.

    What is there is directly ahead of what it led to; all else is as it was sent.
    """
    for step, items in zip(agent.steps, _accepted(standin, agent), strict=True):
        rest = iter(_named(item, standin) for item in step.whole)
        given = [_named(item, standin) for item in items]
        lost = [list(itertools.takewhile(item.__ne__, rest)) for item in given]
        assert all("reasoning" in item for item in itertools.chain(*lost))
        assert list(rest) == []


def _assert_stable(saw: Sequence[list[Item]]) -> None:
    """The input of each turn begins with the input of the turn before."""
    for before, after in itertools.pairwise(saw):
        assert after[: len(before)] == before


def _named(item: Item, standin: StandIn) -> Item:
    """Reduce an item to what has to be the same: reasoning to which one it is, the rest to all."""
    if item.get("type") != "reasoning":
        return {name: value for name, value in item.items() if name != "id"}
    if item.get("id"):
        return {"reasoning": item["id"]}
    binding = standin._sealer.maybe_open(item["encrypted_content"])
    return {"reasoning": binding and binding.item_id}


def _assert_ids(items: list[Item], step: Step, *, keeps_ids: bool) -> None:
    """An id that is there is the one that upstream gave; one that the client sent is there."""
    for item, emitted in zip(items, step.whole, strict=True):
        assert item.get("id") in (None, emitted.get("id"))
    if keeps_ids:
        assert [item for item in items if item.get("type") != "reasoning"] == step.sent


def _reasoning(items: Sequence[Item]) -> int:
    return sum(item.get("type") == "reasoning" for item in items)
