"""
Habits of frameworks with ids that recur, as real clients show them to a strict upstream.

Straight they are refused for lack of reasoning; through the proxy once, and then no more.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from openai import BadRequestError

from tests.e2e.chat_agent import ChatAgent
from tests.e2e.proxies import Reach, proxied, reached
from tests.e2e.sdk_loop import Message
from tests.fast_lane import each_value
from tests.strict.chat import FamilyName, StrictChat
from tests.strict.upstream import WRONG, Judged

Habit = Callable[[list[Message]], list[Message]]
QUESTIONS = ("Rain?", "And tomorrow?", "And then?")


@dataclass
class FrameworkAgent(ChatAgent):
    """A client of a framework, which keeps its history in a form of its own."""

    habit: Habit = list

    def results(self, kept: list[Message]) -> list[Message]:
        """Return the messages with the results of its calls, each another one."""
        results = super().results(kept)
        degrees = len(self.history)
        return [one | {"content": f"{degrees + n} degrees"} for n, one in enumerate(results)]

    def told(self) -> list[Message]:
        """Return the messages that the framework makes of the history."""
        return self.habit(json.loads(json.dumps(self.history)))


def camel(history: list[Message]) -> list[Message]:
    """Keep results by the ids of their calls, and the last text of a round before its calls."""
    results = {one["tool_call_id"]: one["content"] for one in history if one["role"] == "tool"}
    told: list[Message] = []
    opened = 0
    for one in history:
        if one["role"] == "tool":
            told.append(one | {"content": results[one["tool_call_id"]]})
        elif one["role"] == "assistant" and not one.get("tool_calls"):
            told.insert(opened, one)
        else:
            told.append(one)
        if one["role"] == "user":
            opened = len(told)
    return told


def agentscope(history: list[Message]) -> list[Message]:
    """Put the last text of a round into the next message with calls."""
    told: list[Message] = []
    texts: list[str] = []
    for one in history:
        if one["role"] == "assistant" and not one.get("tool_calls"):
            texts.append(one["content"])
            continue
        if one["role"] == "assistant":
            said = [one["content"], *texts] if one["content"] else texts
            one["content"] = [{"type": "text", "text": text} for text in said] or None
            texts = []
        told.append(one)
    return told


def langroid(history: list[Message]) -> list[Message]:
    """Add the name of the tool to the arguments of a call."""
    for one in history:
        for call in one.get("tool_calls") or ():
            function = call["function"]
            given = json.loads(function["arguments"]) | {"request": function["name"]}
            function["arguments"] = json.dumps(given)
    return history


def reversing(history: list[Message]) -> list[Message]:
    """Send parallel calls in another order."""
    for one in history:
        if "tool_calls" in one:
            one["tool_calls"].reverse()
    return history


def agno(history: list[Message]) -> list[Message]:
    """Replace the ids of calls."""
    for one in history:
        if "tool_call_id" in one:
            one["tool_call_id"] = "call_" + "0" * 24
        for call in one.get("tool_calls") or ():
            call["id"] = "call_" + "0" * 24
    return history


HABITS: dict[str, tuple[Habit, FamilyName, dict[str, Any]]] = {
    "camel": (camel, "kimi", {"loop": "chain"}),
    "camel-parallel": (camel, "kimi", {"loop": "parallel", "repeats": True}),
    "camel-same-words": (camel, "kimi", {"loop": "chain", "repeats": True}),
    "camel-running-ids": (camel, "kimi", {"loop": "chain", "ids": "counter"}),
    "agentscope": (agentscope, "kimi", {"loop": "preamble"}),
    "langroid": (langroid, "kimi", {"loop": "chain"}),
    "reversing": (reversing, "kimi", {"loop": "parallel"}),
    "agno": (agno, "openrouter", {"loop": "chain"}),
    "agno-parallel": (agno, "openrouter", {"loop": "parallel"}),
}
# Requests that upstream refuses first: a lookup by changed arguments is made after a refusal only.
REFUSED = {"langroid": 2}


@each_value(name=[*HABITS], way=["async", "async-stream"])
@pytest.mark.parametrize("reach", get_args(Reach))
async def test_a_framework_is_refused_once(name: str, way: Any, reach: Reach) -> None:
    """Straight for good; through the proxy, upstream then gets all reasoning where it was."""
    habit, family, behaviour = HABITS[name]
    api = StrictChat(family, **behaviour)
    is_straight = reach == "straight"
    async with (
        reached(api, reach) as base_url,
        FrameworkAgent(base_url, way, model=api.model, habit=habit) as agent,
    ):
        with pytest.raises(BadRequestError) if is_straight else contextlib.nullcontext():
            await agent.converse(QUESTIONS)
    refused = [one for one in api.judged if one.refusal]
    assert len(refused) == (1 if is_straight else REFUSED.get(name, 1))
    if not is_straight:
        states = {one.state for judged in accepted(api) for one in judged.findings}
        assert states == {"whole"}


def accepted(api: StrictChat) -> list[Judged]:
    """Return the requests that were not refused."""
    return [one for one in api.judged if one.refusal is None]


async def test_equal_conversations_are_all_saved_by_one_choice(tmp_path: Path) -> None:
    """
    Four conversations of one key say the same, and their ids recur: nothing tells them apart.

    The choice between their turns is made once, and stays at each of two replicas: upstream sees
    the same prefix again, and refuses no conversation twice for the same.
    """
    api = StrictChat("kimi", loop="chain", repeats=True)
    shared = {"store_url": f"sqlite://{tmp_path}/turns.db", "scope_secret": "one for both"}
    async with (
        api,
        proxied(api, upstream_profile="moonshot", **shared) as one,
        proxied(api, upstream_profile="moonshot", **shared) as two,
        contextlib.AsyncExitStack() as stack,
    ):
        agents = [
            await stack.enter_async_context(
                ChatAgent(base_url, model=api.model, api_key="sk-e2e-equal")
            )
            for base_url in (one, two, one, two)
        ]
        for question in QUESTIONS:
            for agent in agents:
                agent.history.append({"role": "user", "content": question})
            for _ in range(3):
                for agent in agents:
                    await agent.step()
    sent = defaultdict(list)
    for judged in accepted(api):
        thoughts = [m["reasoning_content"] for m in judged.messages if m.get("tool_calls")]
        sent[len(judged.messages)].append(thoughts)
    assert [len(each) for each in sent.values()] == [len(agents)] * 9
    for each in sent.values():
        assert each == [each[0]] * len(agents)
    for before, after in pairwise(sent.values()):
        assert after[0][: len(before[0])] == before[0]
    assert api.found(*WRONG) == []
    assert len(api.judged) - len(accepted(api)) <= len(agents)
