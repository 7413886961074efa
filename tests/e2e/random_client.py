"""
Random client: histories that grow, fork, shrink and are edited, in each API.

It drops what real clients drop, and knows only what it was answered.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from reasoning_replay.wires import WIRES

from tests.e2e.two_sides import Deed, Plan
from tests.strict_api.scripted import TOOL

__all__ = ["PROFILES", "RandomClient"]

Item = dict[str, Any]

PROFILES = {
    "responses": ("openai", "generic"),
    "chat": ("deepseek", "generic"),
    "messages": ("anthropic", "generic"),
    "gemini": ("gemini", "generic"),
}
MODELS = {
    "responses": ("gpt-5.4", "gpt-5.4-mini", "gpt-5.4-2026-03-05"),
    "chat": ("deepseek-v4", "kimi-k3"),
    "messages": ("claude-opus-4-6", "claude-sonnet-4-5", "claude-opus-5-5"),
    "gemini": ("gemini-3-pro-preview", "gemini-3-flash"),
}
SHAPES = ("RC", "RA", "RCC", "RCRC", "RTC", "A", "C", "RRA", "RTRA", "RC", "RA")
SHORT = ("ok", "continue", "yes", "Look again.", "Où ?", "“Fine”")
WORDS = ("rain", "snow", "river", "bergen", "tomorrow", "ferry", "émigré", "glass", "stone")
MOST_STATES = 12
REFUSALS = {
    "responses": """\
Item 'fc_0a' of type 'function_call' was provided without its required 'reasoning' item: 'rs_0a'.
Item 'rs_0a' of type 'reasoning' was provided without its required following item.
Duplicate item found with id msg_0a. Remove duplicate items from your input and try again.
Item with id 'rs_0a' not found. Items are not persisted when `store` is set to false.
The encrypted content for item rs_0a could not be verified.
The encrypted content could not be decrypted.
The encrypted content was not issued to this caller.
Invalid 'input[1].id': 'item_1'. Expected an ID that begins with 'fc'.
Missing required parameter: 'input[1].id'.
No tool output found for function call call_0a.
Unknown parameter: 'input[1].status'.
Invalid value: 'input[3]' is not a valid item.
Encrypted content is not supported with this model.
Reasoning input items can only be provided to a reasoning or computer use model.""",
    "chat": """\
The `reasoning_content` in the thinking mode must be passed back to the API.
Missing `reasoning_content` field in the assistant message at message index 2.
preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message
property 'reasoning_content' is unsupported
messages.3.assistant.reasoning_content: Extra inputs are not permitted
Corrupted thought signature.
Provider returned error
Element 3 of the history is not acceptable.""",
    "messages": """\
messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.
messages.3.content.0: Invalid `signature` in `thinking` block
messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a different \
conversation.
messages.5.content.0: `thinking` blocks in the latest assistant message cannot be modified.
messages.1.content.0.thinking: Input should be a valid string
Element 3 of the history is not acceptable.""",
    "gemini": """\
Function call is missing a thought_signature in functionCall parts. function call `x` , position 2.
Corrupted thought signature.
Element 3 of the history is not acceptable.""",
}
"""Refusals that each API sends, and one that is not known."""


@dataclass(frozen=True)
class State:
    """One state of a client: its history, and the other members of its requests."""

    history: tuple[Item, ...]
    more: Item
    model: str


class RandomClient:
    """
    A client that draws each step from a seed.

    Attributes:
        dialect: The API that it speaks.
    """

    def __init__(self, seed: int, dialect: str) -> None:
        self.dialect, self._wire = dialect, WIRES[dialect]
        rng = self._rng = random.Random(f"{seed} {dialect}")  # noqa: S311 (nothing secret)
        self._refusals = rng.choice((0.0, 0.15))
        self._other = rng.choice((0.0, 0.0, 0.3))  # the share of the second replica
        self._restless = rng.choice((0.05, 0.2))
        self._keeps = rng.choice(
            (0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0)
        )  # the share of reasoning that it keeps
        self._keeps_ids = rng.random() < 0.5
        self._streams = rng.random() < 0.5
        self._is_last = rng.random() < 0.5  # whether the history is the last member of a body
        self._spelling: Any = {
            "separators": rng.choice(((", ", ": "), (",", ":"))),
            "ensure_ascii": rng.random() < 0.3,
        }
        self._is_shadow = False
        self._states = [self._begun()]
        self._sent: list[tuple[State, Plan]] = []

    def _text(self, least: int) -> str:
        found = ""
        while len(found) < least:
            found += self._rng.choice(WORDS) + " "
        return found + str(self._rng.randrange(10**6))

    def _said(self) -> str:
        """Return a short text that others say as well, or a long one."""
        rng = self._rng
        return rng.choice(SHORT) if rng.random() < 0.4 else self._text(rng.choice((30, 90, 400)))

    def _begun(self) -> State:
        rng = self._rng
        more: Item = {}
        if self.dialect == "responses":
            more = {"store": False} if rng.random() < 0.7 else {}
            more["instructions"] = self._text(rng.choice((20, 3000)))
        elif self.dialect == "messages":
            more["system"] = self._text(rng.choice((20, 3000)))
        asks = self._wire.says(self._text(rng.choice((30, 3000))))
        return State((asks,), more, MODELS[self.dialect][0])

    def step(self) -> list[Plan] | Deed:
        """Draw one step."""
        rng = self._rng
        chance = rng.random()
        if self._sent and (chance < 0.06 or (self._is_shadow and chance < 0.5)):
            what = rng.choice(("forget", "forget", "forget", "forget_all", "shadow", "on", "on"))
            what = "on" if self._is_shadow else what
            self._is_shadow = what == "shadow"
            return Deed(what, rng.randrange(3))
        replica = int(rng.random() < self._other)
        if self._sent and chance < 0.12:
            state, sent = rng.choice(self._sent[-3:])
            return [self._planned(state, replace(sent, replica=replica, refusals=(), pieces=[]))]
        state = self._states[-1]
        if rng.random() < self._restless:
            state = rng.choice(self._states)
        if rng.random() < self._restless:
            state = self._changed(state)
        plans = []
        for n in range(rng.choice((2, 3)) if rng.random() < 0.08 else 1):
            if n and rng.random() < 0.5:
                asks = self._wire.says(self._said())
                state = replace(state, history=(*state.history, asks))
            plans.append(self._planned(state, self._plan(state, replica)))
        return plans

    def _planned(self, state: State, plan: Plan) -> Plan:
        self._sent.append((state, plan))
        return plan

    def _plan(self, state: State, replica: int) -> Plan:
        rng, wire = self._rng, self._wire
        # Described at length: so every body is long enough to be known.
        tool = TOOL | {"description": "Tells the weather. " * 130}
        streams = self._streams != (rng.random() < 0.05)
        body = wire.request(state.model, [*state.history], tool) | state.more
        if self._is_last:
            body[wire.history] = body.pop(wire.history)
        path = wire.path_of(state.model)
        if streams and self.dialect == "gemini":
            path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        elif streams:
            body["stream"] = True
        count = rng.choice((1, 1, 1, 2, 3)) if rng.random() < self._refusals else 0
        earlier = [plan for _, plan in self._sent]
        return Plan(
            self.dialect,
            path,
            json.dumps(body, **self._spelling).encode(),
            rng.choice(SHAPES),
            is_marked=rng.random() < 0.6,
            replica=replica,
            refusals=[self._refusal() for _ in range(count)],
            again=rng.choice(earlier) if earlier and rng.random() < 0.08 else None,
            cut=rng.random() if rng.random() < 0.1 else None,
        )

    def _refusal(self) -> bytes:
        message = self._rng.choice(REFUSALS[self.dialect].splitlines())
        fault: Item = {"message": message, "type": "invalid_request_error", "param": "input"}
        return json.dumps({"type": "error", "error": fault}).encode()

    def answered(self, plans: Sequence[Plan]) -> None:
        """Go on with the answers to the last step."""
        rng, wire = self._rng, self._wire
        for state, plan in self._sent[-len(plans) :]:
            history = state.history
            calls: list[str] = []
            if plan.answer and plan.until is None:
                reply = wire.read(plan.answer)
                said = reply.said if rng.random() < self._keeps else reply.kept
                calls = reply.calls
                history = (*history, *map(self._trimmed, said))
            results = wire.results(calls, self._said())
            asks = [] if results and rng.random() < 0.9 else [wire.says(self._said())]
            after = replace(state, history=(*history, *results, *asks))
            self._states = [*self._states, after][-MOST_STATES:]

    def _trimmed(self, item: Item) -> Item:
        keeps = self._keeps_ids or self.dialect != "responses" or item.get("type") == "reasoning"
        return {name: item[name] for name in item if keeps or name != "id"}

    def _changed(self, state: State) -> State:
        """Return a state after what clients do to their histories now and then."""
        rng, history = self._rng, list(state.history)
        at = rng.randrange(len(history))
        match rng.choice(("edit", "window", "merge", "model", "member", "drop", "new")):
            case "edit":
                history[at] = self._wire.says(self._said())
            case "window":
                history = history[at:]
            case "merge":
                history += rng.choice(self._states).history
            case "drop" if len(history) > 1:
                del history[at]
            case "model":
                return replace(state, model=rng.choice(MODELS[self.dialect]))
            case "member":
                more = {"metadata": {"n": str(rng.randrange(2))}}
                return replace(state, more=state.more | more)
            case "new":
                return self._begun()
        return replace(state, history=tuple(history))
