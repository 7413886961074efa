"""Habits: the items of a response that clients replay, and their form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.soak.claims import Item

INCLUDE = ["reasoning.encrypted_content"]
Keeps = Literal["dropped", "whole", "bare", "blob", "reference"]


@dataclass(frozen=True, slots=True)
class Habit:
    """
    One way to write a history.

    Attributes:
        reasoning: The form of replayed reasoning.
        has_ids: Whether other items keep their ids.
        more: Members of every request.
        named: Members and headers of a request that name the conversation.
        rounds_kept: Number of questions that are sent; older ones are cut off. 0: all.
        sums_up: Whether a summary in a user message replaces the cut part.
        is_stateful: Whether only new items are sent, and upstream stores the rest.
        weight: Relative frequency.
    """

    reasoning: Keeps = "dropped"
    has_ids: bool = False
    more: Item = field(default_factory=dict)
    named: Sequence[str] = ()
    rounds_kept: int = 0
    sums_up: bool = False
    is_stateful: bool = False
    weight: int = 2

    def maybe_write(self, item: Item) -> Item | None:
        """Write an emitted item as this client replays it; return None if it drops it."""
        if item["type"] == "reasoning":
            return _REASONING[self.reasoning](item)
        if self.has_ids or item["type"] not in ("function_call", "custom_tool_call", "message"):
            return item
        return {name: item[name] for name in item if name != "id"}


_REASONING: Mapping[Keeps, Callable[[Item], Item | None]] = {
    "dropped": lambda _: None,
    "whole": lambda item: item,
    "bare": lambda item: {name: item[name] for name in item if name != "encrypted_content"},
    "blob": lambda item: {name: item[name] for name in item if name != "id"},
    "reference": lambda item: {"type": "item_reference", "id": item["id"]},
}

UNSTORED: Item = {"store": False}
WITH_BLOBS: Item = {"store": False, "include": INCLUDE}
# Habits of real clients of /v1/responses; the clients with each habit are named if known.
HABITS: Mapping[str, Habit] = {
    "drops": Habit(has_ids=True, weight=4),
    "drops, unstored": Habit(has_ids=True, more=UNSTORED, weight=3),
    "drops with ids": Habit(weight=6),  # Cline, Continue, CrewAI, Google ADK
    "drops with ids, unstored": Habit(more=UNSTORED, weight=5),  # LlamaIndex, Strands
    "drops, asks for blobs": Habit(more=WITH_BLOBS, weight=4),  # AI SDK, with pruned reasoning
    "replays": Habit("whole", has_ids=True, more=WITH_BLOBS, named=["prompt_cache_key"]),  # Codex
    "replays bare": Habit("bare", has_ids=True),  # the SDKs' own loops
    "replays bare, unstored": Habit("bare", has_ids=True, more=UNSTORED),
    "replays blobs": Habit("blob", more=WITH_BLOBS, named=["prompt_cache_key", "session-id"]),
    "refers": Habit("reference"),  # AI SDK
    "cuts its head": Habit(rounds_kept=2),
    "sums up": Habit(more=UNSTORED, rounds_kept=3, sums_up=True),
    "chains": Habit(is_stateful=True),
}
