"""Client of Anthropic Messages: what its requests and answers look like."""

import re
from collections.abc import Sequence

from reasoning_replay.core.dialects.client_wire import Item, Reply, Wire

# Claude up to 4.6 thinks with a budget, as other vendors' models do; later models refuse one.
_HAS_BUDGET = re.compile(r"claude-(?:[123]|[a-z]+-4(?:[-.][0-6])?(?!\d|[-.]\d(?!\d)))")


def _read_message(answer: Item) -> Reply:
    blocks: list[Item] = answer["content"]
    reasoning = [one for one in blocks if one["type"] in {"thinking", "redacted_thinking"}]
    kept = [one for one in blocks if one not in reasoning]
    return Reply(
        [{"role": "assistant", "content": blocks}],
        [{"role": "assistant", "content": kept}] if kept else [],
        [one["id"] for one in kept if one["type"] == "tool_use"],
        [bool(one.get("signature") or one.get("data")) for one in reasoning],
    )


def _results_in_one_message(calls: Sequence[str], text: str) -> list[Item]:
    results = [{"type": "tool_result", "tool_use_id": call, "content": text} for call in calls]
    return [{"role": "user", "content": results}] if results else []


def _thinking(model: str) -> Item:
    has_budget = "claude" not in model or _HAS_BUDGET.search(model)
    budget = {"type": "enabled", "budget_tokens": 1024}
    return {"max_tokens": 4096, "thinking": budget if has_budget else {"type": "adaptive"}}


WIRE = Wire(
    path="/messages",
    history="messages",
    tool=lambda function: {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    },
    results=_results_in_one_message,
    read=_read_message,
    demanded=_thinking,
    headers={"anthropic-version": "2023-06-01"},
)
