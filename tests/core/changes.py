"""Changes: edits that clients make to their history before each request."""

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

from tests.core.world import Item, user

Change = Callable[[int, list[Item]], list[Item]]
"""Returns the edited history, from the number of the turn and the history."""


def nothing(_: int, items: list[Item]) -> list[Item]:
    """Change nothing."""
    return items


# --- around the items of the model ---


def clock_in_a_developer_item(n: int, items: list[Item]) -> list[Item]:
    """Put the time into a first developer item."""
    return [{"role": "developer", "content": f"It is {n} o'clock."}, *items]


def system_item_replaced(n: int, items: list[Item]) -> list[Item]:
    """Put other instructions into a first system item."""
    return [{"role": "system", "content": f"You are agent {n}, and have taken over."}, *items]


def environment_at_the_head(n: int, items: list[Item]) -> list[Item]:
    """Put an updated environment message first."""
    return [_environment(n), *items]


def environment_moved(n: int, items: list[Item]) -> list[Item]:
    """Put the environment message before the newest message of the user."""
    at = _users(items)[-1]
    return [*items[:at], _environment(n), *items[at:]]


def retrieval(n: int, items: list[Item]) -> list[Item]:
    """Put retrieved passages into the newest message of the user."""
    at = _users(items)[-1]
    text = f"<passages>{n}</passages> {items[at]['content']}"
    return [*items[:at], user(text), *items[at + 1 :]]


def first_user_message_rewritten(n: int, items: list[Item]) -> list[Item]:
    """Write the progress into the first message of the user."""
    return [user(f"(Step {n}) {items[0]['content']}"), *items[1:]]


def old_outputs_cleared(_: int, items: list[Item]) -> list[Item]:
    """Clear all outputs except the newest."""
    return _outputs_as(items, lambda _: "[cleared]")


def old_outputs_shortened(_: int, items: list[Item]) -> list[Item]:
    """Shorten all outputs except the newest."""
    return _outputs_as(items, lambda text: text[:20] + "...")


# --- the items of the model ---


def preambles_emptied(_: int, items: list[Item]) -> list[Item]:
    """Empty the messages before calls."""
    return [_saying(item, "") if n in _preambles(items) else item for n, item in enumerate(items)]


def preambles_rewritten(_: int, items: list[Item]) -> list[Item]:
    """Replace the text of the messages before calls."""
    found = _preambles(items)
    return [_saying(item, "Well.") if n in found else item for n, item in enumerate(items)]


def preambles_dropped(_: int, items: list[Item]) -> list[Item]:
    """Leave out the messages before calls."""
    return [item for n, item in enumerate(items) if n not in _preambles(items)]


def texts_normalised(_: int, items: list[Item]) -> list[Item]:
    """Write plain quotes, dashes and spaces, another Unicode form, HTML escapes, no citations."""
    return [_saying(i, _normalised(_text(i))) if _is_message(i) else i for i in items]


def answers_shortened(_: int, items: list[Item]) -> list[Item]:
    """Shorten each message of the model to its first words."""
    return [_saying(item, _text(item)[:12]) if _is_message(item) else item for item in items]


def easy_form(_: int, items: list[Item]) -> list[Item]:
    """Reduce each message of the model to `role` and `content`."""
    return [
        {key: item[key] for key in item if key not in ("id", "type", "status")}
        | {"content": _text(item)}
        if _is_message(item)
        else item
        for item in items
    ]


def calls_renumbered(_: int, items: list[Item]) -> list[Item]:
    """Number the calls from the start of the history."""
    names = [item["call_id"] for item in items if item.get("type") == "function_call"]
    numbers = {name: f"call_{n}" for n, name in enumerate(names)}
    return [i | {"call_id": numbers[i["call_id"]]} if "call_id" in i else i for i in items]


def outputs_interleaved(_: int, items: list[Item]) -> list[Item]:
    """Put each output directly after its call."""
    outputs = {item["call_id"]: item for item in items if "output" in item}
    left = [item for item in items if "output" not in item]
    return [
        each
        for item in left
        for each in (item, outputs.get(item.get("call_id")))
        if each is not None
    ]


def half_named(_: int, items: list[Item]) -> list[Item]:
    """Send the second of two reasoning items as a reference, and leave out the first."""
    return [
        {key: item[key] for key in item if key not in ("summary", "encrypted_content")}
        | {"type": "item_reference"}
        if item.get("type") == before.get("type") == "reasoning"
        else item
        for before, item in zip([user(""), *items], items, strict=False)
    ]


# --- the part that is sent ---


def window(items: list[Item], kept: int) -> list[Item]:
    """Return the history from the `kept`-th newest message of the user on."""
    users = _users(items)
    return items[users[-kept] if kept <= len(users) else 0 :]


def window_of_2(_: int, items: list[Item]) -> list[Item]:
    """Keep the last two turns of the user."""
    return window(items, 2)


def window_of_3(_: int, items: list[Item]) -> list[Item]:
    """Keep the last three turns of the user."""
    return window(items, 3)


def head_cut_amid_a_turn(_: int, items: list[Item]) -> list[Item]:
    """Begin with the last but one call, without the message before it."""
    calls = [n for n, item in enumerate(items) if item.get("type") == "function_call"]
    if len(calls) < 3:
        return items
    at = begin = calls[-2]
    while _is_models(items[begin - 1]):
        begin -= 1
    led = [item for item in items[begin:at] if item["type"] == "reasoning"]
    return [*led, *items[at:]]


def head_summarised(n: int, items: list[Item]) -> list[Item]:
    """Replace all but the last two turns of the user by a summary."""
    kept = window(items, 2)
    return [user(f"Summary of {n} steps: all went well."), *kept] if kept != items else items


def head_compacted(n: int, items: list[Item]) -> list[Item]:
    """Replace all but the last two turns of the user by a `compaction`."""
    kept = window(items, 2)
    compacted = {"type": "compaction", "encrypted_content": f"gAAAAcompacted{n}"}
    return [compacted, *kept] if kept != items else items


def newest_turn(_: int, items: list[Item]) -> list[Item]:
    """Send the newest turn of the user only; `previous_response_id` names the rest."""
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
    """Return the indices of messages directly before a call."""
    return {
        n
        for n, (item, after) in enumerate(pairwise(items))
        if _is_message(item) and after.get("type") == "function_call"
    }


def _text(message: Item) -> str:
    return "".join(part["text"] for part in message["content"])


def _saying(message: Item, text: str) -> Item:
    return message | {"content": [part | {"text": text} for part in message["content"]]}


def _normalised(text: str) -> str:
    for typographic, plain in ('“"', '”"', "’'", "–-", ("…", "..."), ("\u00a0", " ")):  # noqa: RUF001
        text = text.replace(typographic, plain)
    text = re.sub(r" \(\[.*?\)\)", "", text)
    return unicodedata.normalize("NFD", text.replace("&", "&amp;").replace("<", "&lt;"))
