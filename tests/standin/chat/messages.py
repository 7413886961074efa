"""
Messages of a request as parts: each vendor's reasoning, and what it led to.

Two spellings of one visible message are equal here: null, "" and [] as content, a text and a list
of its parts, and re-serialised arguments.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.chat import parts_of as said_of
from reasoning_replay.strict_api.dialect import canonical
from reasoning_replay.strict_api.ledger import Part

from tests.standin.chat.families import Family

__all__ = [
    "CALL_MEMBERS",
    "FRAME",
    "MESSAGE_MEMBERS",
    "SENTINELS",
    "joined",
    "parts_of",
    "reasoning_of",
    "thoughts_of",
]

FRAME = ("system", "developer")
"""Roles that an application rewrites with every request."""
MESSAGE_MEMBERS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking_blocks",
    "reasoning_items",
    "reasoning_text",
    "reasoning_opaque",
    "extra_content",
    "thought_signature",
    "provider_specific_fields",
)
CALL_MEMBERS = ("extra_content", "thought_signature", "provider_specific_fields")
SENTINELS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Values that Google documents for calls without a signature."""
OWN = {
    "details": "reasoning_details",
    "blocks": "thinking_blocks",
    "signatures": "extra_content",
}
"""The members that carry reasoning, for the forms that are not the name of one."""


def parts_of(family: Family, message: Item, path: str, thoughts: set[str]) -> Iterator[Part]:
    """
    Yield the parts of a message, each reasoning before what it led to.

    A vendor reads no name but its own. So the same words under another name are no reasoning;
    other words there are foreign.

    Args:
        family: The vendor.
        message: The message.
        path: Where it is.
        thoughts: The words of all that was thought for this caller.
    """
    if message.get("role") != "assistant":
        yield from said_of(message, path)
        return
    own = OWN.get(family.form, family.form)
    carried = reasoning_of(message)
    due = {one: value for one, value in carried.items() if one.rpartition(".")[2] == own}
    words = {*thoughts_of(due.get(own))} if own in due else thoughts
    for name, value in carried.items():
        is_alias = name not in due
        if is_alias and not words.issuperset(thoughts_of(value)):
            yield Part("reasoning", f"{path}.{name}", canonical([name, value]))
    if own in due and not _is_sentinel(due[own]):
        yield Part("reasoning", f"{path}.{own}", canonical(due[own]))
    for part in said_of({**message, "reasoning_content": None}, path):
        call = part.path.removeprefix(path).strip(".").replace("[", ".").replace("]", "")
        value = due.get(f"{call}.{own}")
        if value is not None and not _is_sentinel(value):
            yield Part("reasoning", f"{path}.{call}.{own}", canonical(value))
        yield part


def reasoning_of(message: Item) -> dict[str, Any]:
    """
    Return the reasoning that a message carries, by its path.

    A path is the name of a member, `tool_calls.N.` and the name of a member of a call, or
    `content.thinking`. Null is absent; "" is not.
    """
    found = {
        name: message[name] for name in MESSAGE_MEMBERS if message.get(name) not in (None, [], {})
    }
    for index, call in enumerate(message.get("tool_calls") or ()):
        for name in CALL_MEMBERS:
            if call.get(name) not in (None, {}):
                found[f"tool_calls.{index}.{name}"] = call[name]
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    thought = "".join(
        str(text.get("text") or "")
        for part in parts
        if part.get("type") == "thinking"
        for text in part.get("thinking") or ()
    )
    if thought:
        found["content.thinking"] = thought
    if "reasoning_details" in found:
        found["reasoning_details"] = joined(found["reasoning_details"])
    if "thinking_blocks" in found:  # LiteLLM leaves the index out of what it sends to Claude
        found["thinking_blocks"] = [
            {name: block[name] for name in block if name != "index"}
            for block in joined(found["thinking_blocks"])
        ]
    return found


def thoughts_of(value: object) -> Iterator[str]:
    """Yield the words in a piece of reasoning; "" says nothing."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from thoughts_of(inner)


def joined(details: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """
    Join the fragments of a list that belong together, as OpenRouter's own SDK and LiteLLM do.

    Fragments of one index and one type are one entry: texts are appended, and any other member is
    the last one that is not null. Providers accept joined and separate fragments (recorded).
    """
    entries: dict[tuple[object, object], dict[str, Any]] = {}
    for fragment in details:
        key = (fragment.get("index"), fragment.get("type"))
        entry = entries.setdefault(key, {})
        for name, value in fragment.items():
            if value is None:
                continue
            appends = name in {"text", "summary", "data", "thinking"} and name in entry
            entry[name] = entry[name] + value if appends else value
    return list(entries.values())


def _is_sentinel(value: object) -> bool:
    words = [*thoughts_of(value)]
    return bool(words) and {*words} <= {*SENTINELS}
