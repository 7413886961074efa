"""Recorded conversations, replayed through the dialect with their reasoning left out."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS
from reasoning_replay.core.dialects.chat.profiles import profile_of

from tests.core.dialects.chat.chats import Chats, Message
from tests.recordings.wire import root

__all__ = ["Lack", "folders", "replay"]

_THOUGHTS = re.compile(r"\s*<think>\s*(.*?)\s*</think>\s*", re.DOTALL)
_OPAQUE = frozenset({"signature", "thought_signature", "data", "reasoning_opaque"})
_TEXTS = frozenset({"reasoning_content", "reasoning", "reasoning_text", "text", "summary"})


@dataclass(frozen=True)
class Lack:
    """
    One message of a request that did not get what its client once sent.

    Attributes:
        lacking, added: Atoms that it lacks, and atoms that it has instead.
    """

    exchange: int
    message: int
    lacking: frozenset[str]
    added: frozenset[str]


def folders(kind: str) -> list[Path]:
    """Return the recordings of a kind; [] if there are none on this machine."""
    found = root()
    inside = found / "chat" / kind if found is not None else None
    return sorted(inside.iterdir()) if inside is not None and inside.is_dir() else []


def replay(folder: Path) -> tuple[int, list[Lack]]:
    """Return how many messages of a recording had reasoning, and those that lack any of it."""
    first = json.loads((folder / "exchange-1.meta.json").read_text())
    chats = Chats(ChatDialect(profile_of("auto", first["url"])))
    due = 0
    lacks: list[Lack] = []
    for n in range(1, json.loads((folder / "meta.json").read_text())["exchanges"] + 1):
        top = json.loads((folder / f"exchange-{n}.request.json").read_bytes())
        sent = top | {"messages": [_stripped(message) for message in top["messages"]]}
        decided = chats.decide(json.dumps(sent).encode())
        received = json.loads(decided.body)["messages"]
        for at, (want, got) in enumerate(zip(top["messages"], received, strict=True)):
            wanted, held = atoms_of(want), atoms_of(got)
            due += bool(wanted)
            if not wanted <= held or (held and not wanted):
                lacks.append(Lack(n, at, wanted - held, held - wanted))
        chats.keep(decided, _response(folder, n))
    return due, lacks


def _response(folder: Path, n: int) -> bytes:
    streamed = folder / f"exchange-{n}.response.sse"
    plain = folder / f"exchange-{n}.response.json"
    return streamed.read_bytes() if streamed.exists() else plain.read_bytes()


def atoms_of(message: Message) -> frozenset[str]:
    """Return the signatures and the texts of a message's reasoning; white space is folded."""
    found: set[str] = set()
    for holder, names in _holders(message):
        for name in names:
            found.update(_atoms(name, holder.get(name)))
    content = message.get("content")
    if message["role"] == "assistant" and isinstance(content, str):
        thoughts = _THOUGHTS.match(content)
        found |= {" ".join(thoughts[1].split())} if thoughts else set()
    if message["role"] == "assistant" and isinstance(content, list):
        thinking = [part["thinking"] for part in content if part.get("type") == "thinking"]
        found |= {"".join(p["text"] for p in parts) for parts in thinking}
    return frozenset(found - {""})


def _atoms(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if name in _OPAQUE:
            yield value
        elif name in _TEXTS:
            yield " ".join(value.split())
    elif isinstance(value, list):
        for each in value:
            yield from _atoms(name, each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _atoms(key, each)


def _holders(message: Message) -> list[tuple[Message, tuple[str, ...]]]:
    if message["role"] != "assistant":
        return []
    return [
        (message, MESSAGE_MEMBERS),
        *((c, CALL_MEMBERS) for c in message.get("tool_calls") or ()),
    ]


def _stripped(message: Message) -> Message:
    """Return a message without reasoning, as a client sends it that follows the API's schema."""
    made: Message = json.loads(json.dumps(message))
    for holder, names in _holders(made):
        for name in names:
            holder.pop(name, None)
    content = made.get("content")
    if made["role"] == "assistant" and isinstance(content, str):
        made["content"] = (
            _THOUGHTS.sub("", content, count=1) if _THOUGHTS.match(content) else content
        )
    if made["role"] == "assistant" and isinstance(content, list):
        made["content"] = [part for part in content if part.get("type") != "thinking"]
    return made
