"""Changes that clients make to a history before they send it, with every turn."""

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

from tests.core.world import Item, user

__all__ = ["AROUND", "OF_TOOLS", "Change", "window"]

Change = Callable[[int, list[Item]], list[Item]]
"""From the number of the turn and a history."""


def nothing(_: int, items: list[Item]) -> list[Item]:
    """Change nothing."""
    return items


# Around what the model said.


def clock_in_a_developer_item(n: int, items: list[Item]) -> list[Item]:
    """Begin with the time."""
    return [{"role": "developer", "content": f"It is {n} o'clock."}, *items]


def system_item_replaced(n: int, items: list[Item]) -> list[Item]:
    """Begin with other instructions."""
    return [{"role": "system", "content": f"You are agent {n}, and have taken over."}, *items]


def environment_at_the_head(n: int, items: list[Item]) -> list[Item]:
    """Begin with an environment message, renewed."""
    return [_environment(n), *items]


def environment_moved(n: int, items: list[Item]) -> list[Item]:
    """Put the environment message ahead of the newest message of the user."""
    at = _users(items)[-1]
    return [*items[:at], _environment(n), *items[at:]]


def retrieval(n: int, items: list[Item]) -> list[Item]:
    """Put what was found for it into the newest message of the user."""
    at = _users(items)[-1]
    text = f"<passages>{n}</passages> {items[at]['content']}"
    return [*items[:at], user(text), *items[at + 1 :]]


def first_user_message_rewritten(n: int, items: list[Item]) -> list[Item]:
    """Say how far the work has come."""
    return [user(f"(Step {n}) {items[0]['content']}"), *items[1:]]


def old_outputs_cleared(_: int, items: list[Item]) -> list[Item]:
    """Leave the newest output as it is."""
    return _outputs_as(items, lambda _: "[cleared]")


def old_outputs_shortened(_: int, items: list[Item]) -> list[Item]:
    """Leave the newest output as it is."""
    return _outputs_as(items, lambda text: text[:20] + "...")


# What the model said.


def preambles_emptied(_: int, items: list[Item]) -> list[Item]:
    """Leave no text in the messages ahead of calls."""
    return [_saying(item, "") if n in _preambles(items) else item for n, item in enumerate(items)]


def preambles_rewritten(_: int, items: list[Item]) -> list[Item]:
    """Have the messages ahead of calls say something else."""
    found = _preambles(items)
    return [_saying(item, "Well.") if n in found else item for n, item in enumerate(items)]


def preambles_dropped(_: int, items: list[Item]) -> list[Item]:
    """Leave out the messages ahead of calls."""
    return [item for n, item in enumerate(items) if n not in _preambles(items)]


def texts_normalised(_: int, items: list[Item]) -> list[Item]:
    """Have plain quotes, dashes and spaces, one Unicode form, HTML escapes, and no citations."""
    return [_saying(i, _normalised(_text(i))) if _is_message(i) else i for i in items]


def answers_shortened(_: int, items: list[Item]) -> list[Item]:
    """Keep the first words of each message of the model."""
    return [_saying(item, _text(item)[:12]) if _is_message(item) else item for item in items]


def easy_form(_: int, items: list[Item]) -> list[Item]:
    """Have a role and a text of each message of the model, and nothing else."""
    return [
        {key: item[key] for key in item if key not in ("id", "type", "status")}
        | {"content": _text(item)}
        if _is_message(item)
        else item
        for item in items
    ]


def calls_renumbered(_: int, items: list[Item]) -> list[Item]:
    """Count the calls from the head."""
    names = [item["call_id"] for item in items if item.get("type") == "function_call"]
    numbers = {name: f"call_{n}" for n, name in enumerate(names)}
    return [i | {"call_id": numbers[i["call_id"]]} if "call_id" in i else i for i in items]


def outputs_interleaved(_: int, items: list[Item]) -> list[Item]:
    """Put each output behind its call."""
    outputs = {item["call_id"]: item for item in items if "output" in item}
    left = [item for item in items if "output" not in item]
    return [
        each
        for item in left
        for each in (item, outputs.get(item.get("call_id")))
        if each is not None
    ]


def half_named(_: int, items: list[Item]) -> list[Item]:
    """Name the second of two reasoning items in a row, and leave out the first."""
    return [
        {key: item[key] for key in item if key not in ("summary", "encrypted_content")}
        | {"type": "item_reference"}
        if item.get("type") == before.get("type") == "reasoning"
        else item
        for before, item in zip([user(""), *items], items, strict=False)
    ]


# How much of it is sent.


def window(items: list[Item], kept: int) -> list[Item]:
    """Return a history from one of the newest messages of the user on."""
    users = _users(items)
    return items[users[-kept] if kept <= len(users) else 0 :]


def window_of_2(_: int, items: list[Item]) -> list[Item]:
    """Keep two turns of the user."""
    return window(items, 2)


def window_of_3(_: int, items: list[Item]) -> list[Item]:
    """Keep three turns of the user."""
    return window(items, 3)


def head_cut_amid_a_turn(_: int, items: list[Item]) -> list[Item]:
    """Begin with the last but one call, without the message ahead of it."""
    calls = [n for n, item in enumerate(items) if item.get("type") == "function_call"]
    if len(calls) < 3:
        return items
    at = begin = calls[-2]
    while _is_models(items[begin - 1]):
        begin -= 1
    led = [item for item in items[begin:at] if item["type"] == "reasoning"]
    return [*led, *items[at:]]


def head_summarised(n: int, items: list[Item]) -> list[Item]:
    """Have a summary in place of all but two turns of the user."""
    kept = window(items, 2)
    return [user(f"Summary of {n} steps: all went well."), *kept] if kept != items else items


def head_compacted(n: int, items: list[Item]) -> list[Item]:
    """Have a `compaction` in place of all but two turns of the user."""
    kept = window(items, 2)
    compacted = {"type": "compaction", "encrypted_content": f"gAAAAcompacted{n}"}
    return [compacted, *kept] if kept != items else items


def newest_turn(_: int, items: list[Item]) -> list[Item]:
    """Begin with the newest message of the user: upstream is told what came before."""
    return window(items, 1)


def _environment(n: int) -> Item:
    return user(f"<environment>It is {n} o'clock.</environment>")


def _users(items: list[Item]) -> list[int]:
    return [n for n, item in enumerate(items) if item.get("role") == "user"]


def _outputs_as(items: list[Item], write: Callable[[str], str]) -> list[Item]:
    old = [item for item in items if "output" in item][:-1]
    return [item | {"output": write(item["output"])} if item in old else item for item in items]


def _is_message(item: Item) -> bool:
    return item.get("type") == "message" and item["role"] == "assistant"


def _is_models(item: Item) -> bool:
    return _is_message(item) or item.get("type") == "reasoning"


def _preambles(items: list[Item]) -> set[int]:
    """Return the indices of messages directly ahead of a call."""
    return {
        n
        for n, (item, after) in enumerate(pairwise(items))
        if _is_message(item) and after.get("type") == "function_call"
    }


def _text(message: Item) -> str:
    (part,) = message["content"]
    text: str = part["text"]
    return text


def _saying(message: Item, text: str) -> Item:
    (part,) = message["content"]
    return message | {"content": [part | {"text": text}]}


def _normalised(text: str) -> str:
    for typographic, plain in ('“"', '”"', "’'", "–-", ("…", "..."), ("\u00a0", " ")):  # noqa: RUF001
        text = text.replace(typographic, plain)
    text = re.sub(r" \(\[.*?\)\)", "", text)
    return unicodedata.normalize("NFD", text.replace("&", "&amp;").replace("<", "&lt;"))


AROUND: list[tuple[Change, str]] = [
    (nothing, "It is {n} o'clock."),
    (nothing, "You are agent {n}, and have taken over."),
    (clock_in_a_developer_item, ""),
    (system_item_replaced, ""),
    (environment_at_the_head, ""),
    (environment_moved, ""),
    (retrieval, ""),
    (first_user_message_rewritten, ""),
]
"""What changes in any conversation, and its instructions: of the turn `n`, or none."""

OF_TOOLS: list[tuple[Change, str]] = [
    (old_outputs_cleared, ""),
    (old_outputs_shortened, ""),
    (preambles_emptied, ""),
    (preambles_rewritten, ""),
]
"""What changes beside calls."""
