"""
Prompt cache: how much of a request was processed before, as the API reports it.

A lost block is not refused by every model, but it shows here: what follows it is read anew.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tests.standin.common.judging import Message
from tests.standin.common.server import BYTES_PER_TOKEN
from tests.standin.messages.blocks import blocks_of, normal

__all__ = ["PromptCache", "Read"]

KEPT = 20_000


class Read(Struct, frozen=True):
    """Estimated tokens of one request, and how many of them were read from the cache."""

    tokens: int
    cached: int


class PromptCache:
    """The histories that one account has sent or received."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def read(self, caller: str, body: Message) -> Read:
        """Process a request, and keep its history."""
        size = cached = 0
        for digest, size in list(_steps(caller, body)):
            if digest in self._known:
                cached = size
            self._keep(digest)
        return Read(size // BYTES_PER_TOKEN, cached // BYTES_PER_TOKEN)

    def write(self, caller: str, body: Message, answer: Message) -> None:
        """Keep the history that a response made."""
        *_, (digest, _) = _steps(caller, {**body, "messages": [*body["messages"], answer]})
        self._keep(digest)

    def _keep(self, digest: str) -> None:
        self._known[digest] = self._known.pop(digest, None)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)


def _steps(caller: str, body: Message) -> Iterator[tuple[str, int]]:
    """Yield a digest and the size of the history up to each message."""
    head: list[Any] = [body.get("system"), body.get("tools")]
    digest = hashlib.sha256(json.dumps([caller, body.get("model"), head]).encode())
    size = len(json.dumps(head))
    for message in body["messages"]:
        raw = json.dumps([message.get("role"), [normal(block) for block in blocks_of(message)]])
        digest.update(raw.encode())
        size += len(raw)
        yield digest.hexdigest(), size
