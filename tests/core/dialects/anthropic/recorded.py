"""Recorded conversations, replayed through the dialect with their reasoning left out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning_replay.core.dialects.anthropic.profiles import profile_of

from tests.core.dialects.anthropic.tenant import REASONING, Message, Tenant, dialect_of
from tests.recordings.wire import root

__all__ = ["Lack", "Replay", "folders", "replay"]


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
    inside = found / "messages" / kind if found is not None else None
    return sorted(inside.iterdir()) if inside is not None and inside.is_dir() else []


class Replay:
    """One recording, replayed exchange by exchange, for a tenant that others may share."""

    def __init__(self, folder: Path, tenant: Tenant | None = None) -> None:
        """Start before the first exchange; without a tenant, it has its own."""
        self._folder = folder
        self.name = folder.name
        first = json.loads((folder / "exchange-1.meta.json").read_text())
        self.host = first["url"].split("/")[2]
        self._tenant = tenant or Tenant(dialect_of(profile_of("auto", first["url"])))
        self._known: set[str] = set()
        self.due = 0
        self.lacks: list[Lack] = []

    def steps(self) -> Iterator[None]:
        """
        Replay the exchanges, and judge each request.

        What an earlier response produced is left out of a request; other reasoning stays.
        """
        for n in range(1, json.loads((self._folder / "meta.json").read_text())["exchanges"] + 1):
            self._exchange(n)
            yield

    def _exchange(self, n: int) -> None:
        tenant, known = self._tenant, self._known
        top = json.loads((self._folder / f"exchange-{n}.request.json").read_bytes())
        sent = top | {"messages": [_stripped(message, known) for message in top["messages"]]}
        decided = tenant.decide(json.dumps(sent).encode())
        received = json.loads(decided.body)["messages"]
        for at, (want, got) in enumerate(zip(top["messages"], received, strict=True)):
            wanted, has = atoms_of(want), atoms_of(got)
            self.due += bool(wanted)
            if wanted != has:
                self.lacks.append(Lack(n, at, wanted - has, has - wanted))
            else:
                assert _kinds(want) == _kinds(got)
        turn = tenant.keep(decided, _response(self._folder, n))
        runs = [part.raw for item in turn.items for part in item.run] if turn is not None else []
        known |= {atom for raw in runs for atom in atoms_of({"content": [json.loads(raw)]})}


def replay(folder: Path) -> tuple[int, list[Lack]]:
    """Return how many messages of a recording had reasoning, and those that lack any of it."""
    alone = Replay(folder)
    for _ in alone.steps():
        pass
    return alone.due, alone.lacks


def _response(folder: Path, n: int) -> bytes:
    streamed = folder / f"exchange-{n}.response.sse"
    plain = folder / f"exchange-{n}.response.json"
    return streamed.read_bytes() if streamed.exists() else plain.read_bytes()


def atoms_of(message: Message) -> frozenset[str]:
    """Return the signatures, the redacted data and the texts of a message's reasoning."""
    found: set[str] = set()
    for block in message["content"] if isinstance(message["content"], list) else ():
        if block["type"] in REASONING:
            found |= {block.get("signature", ""), block.get("data", "")}
            found.add(" ".join(block.get("thinking", "").split()))
    return frozenset(found - {""})


def _stripped(message: Message, known: set[str]) -> Message:
    """Return a message without the reasoning that an earlier response produced."""
    content: Any = message["content"]
    if isinstance(content, list):
        content = [
            block
            for block in content
            if block["type"] not in REASONING or not atoms_of({"content": [block]}) <= known
        ]
    return message | {"content": content}


def _kinds(message: Message) -> list[str]:
    content = message["content"]
    return [block["type"] for block in content] if isinstance(content, list) else []
