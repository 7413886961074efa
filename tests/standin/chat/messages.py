"""
Messages of a request: what is visible of them, where they stand, and which reasoning they carry.

Two spellings of one visible message are equal here: null, "" and [] as content, a text and a list
of its parts, other white space, and re-serialised arguments. Ids count for nothing, since clients
change them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.standin.common.judging import Message, Reading
from tests.standin.common.ledger import Visible

__all__ = [
    "CALL_MEMBERS",
    "CHAT",
    "FRAME",
    "MESSAGE_MEMBERS",
    "SENTINELS",
    "joined",
    "last_user",
    "places",
    "reasoning_of",
    "text_of",
    "visible",
]

FRAME = ("system", "developer")
"""Roles that an application rewrites with every request."""
MESSAGE_MEMBERS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "reasoning_text",
    "reasoning_opaque",
    "extra_content",
    "thought_signature",
)
CALL_MEMBERS = ("extra_content", "thought_signature")
SENTINELS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Values that Google documents for calls without a signature."""


def visible(message: Message) -> Visible:
    """Return what is visible of a message."""
    calls = tuple(
        (str(function.get("name")), _canonical(function.get("arguments")))
        for function in _functions(message)
    )
    return Visible(str(message.get("role")), " ".join(text_of(message).split()), calls)


def text_of(message: Message) -> str:
    """Return the text of a message."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def places(caller: str, messages: Sequence[Message]) -> Iterator[str]:
    """
    Yield the place of each message, and that of a next one.

    A place is a digest of the caller and of all that was visible before, without the frame.
    """
    digest = hashlib.sha256(caller.encode())
    for message in messages:
        yield digest.hexdigest()
        if message.get("role") not in FRAME:
            seen = visible(message)
            digest.update(json.dumps([seen.role, seen.text, seen.calls]).encode())
    yield digest.hexdigest()


def last_user(messages: Sequence[Message]) -> int:
    """Return the index of the last user message, -1 if there is none: a round starts there."""
    return max((at for at, one in enumerate(messages) if one.get("role") == "user"), default=-1)


def reasoning_of(message: Message) -> dict[str, Any]:
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
    return found


def joined(details: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """
    Join the fragments of `reasoning_details` that belong together, as OpenRouter's own SDK does.

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
            appends = name in {"text", "summary", "data"} and name in entry
            entry[name] = entry[name] + value if appends else value
    return list(entries.values())


def _functions(message: Message) -> Iterator[Mapping[str, Any]]:
    for call in message.get("tool_calls") or ():
        yield call.get("function") or {}
    if legacy := message.get("function_call"):
        yield legacy


def _canonical(arguments: object) -> str:
    """Return arguments as JSON in one spelling; a text that is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(str(arguments or "{}")), sort_keys=True)
    except ValueError:
        return str(arguments)


CHAT = Reading(visible, reasoning_of, places, SENTINELS)
