"""Twins: conversations that cannot be distinguished by the requests of their clients."""

import json
from collections.abc import Iterable

from tests.recordings.responses.client import Piece, Take, Thought, Variant, take
from tests.recordings.responses.tape import Json, Recording
from tests.recordings.wire import KNOWN

# Members that clients leave out of items or rewrite: they do not identify an item.
_NOTHING_TOLD = frozenset({"id", "status", "annotations", "logprobs", "phase", "type"})


def ambiguous(variant: Variant) -> list[str]:
    """Return the exchanges of the one tenant that a client with fewer ids makes ambiguous."""
    known: dict[str, list[str]] = KNOWN["responses"]
    return known["always"] + (known["ids dropped"] if variant.drops_ids else [])


def twins(this: Take, mix: Iterable[Recording], variant: Variant) -> set[str]:
    """
    Name the recordings with the same visible content up to the first missing reasoning.

    Another recording is a twin if, after the same items under the same instructions, its upstream
    emitted an equal item, with reasoning before it or without. Instructions and system messages
    count if the client sends them: some send them in the first turn only.
    """
    pieces = list(this.want or ())
    first = next(n for n, one in enumerate(pieces) if isinstance(one, Thought))
    lead = next(one for one in pieces[first:] if isinstance(one, Piece))
    before = _said(pieces[:first])
    frame = json.loads(this.body).get("instructions")
    found: set[str] = set()
    for recording in mix:
        if recording.name == this.recording.name:
            continue
        for exchange in recording.exchanges:
            other = take(recording, exchange, Variant.AS_RECORDED)
            if frame is not None and json.loads(other.body).get("instructions") != frame:
                continue
            heard = _said(other.want or ())
            if variant.cuts_head:
                heard = heard[len(heard) - len(before) :]
            if heard == before and any(
                _told(one.item) == _told(lead.item) for one in exchange.emitted
            ):
                found.add(recording.name)
    return found


def _said(pieces: Iterable[Piece | Thought]) -> list[str]:
    """Return the visible items, without reasoning and without the application's own messages."""
    items = [one.item for one in pieces if isinstance(one, Piece)]
    return [
        _told(item)
        for item in items
        if item.get("type") != "reasoning" and item.get("role") not in ("system", "developer")
    ]


def _told(item: Json) -> str:
    """Return the content of an item, for comparison."""
    content = item.get("content")
    if "role" in item and isinstance(content, list):
        words = "".join(str(part.get("text", part)) for part in content)
        return json.dumps([item["role"], words])
    if "role" in item and isinstance(content, str):
        return json.dumps([item["role"], content])
    told = {name: value for name, value in item.items() if name not in _NOTHING_TOLD}
    return json.dumps(told, sort_keys=True)
