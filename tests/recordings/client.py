"""The clients that are played: what each sends of a recorded request, and what must arrive."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.recordings import rawjson
from tests.recordings.rawjson import Edit
from tests.recordings.tape import Emitted, Exchange, Json, Key, Recording

__all__ = ["Piece", "Take", "Thought", "Variant", "is_stateful", "take", "with_reasoning"]

# Types that the API takes without their `id`; of all others it is required, and stays.
ID_IS_OPTIONAL = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "tool_search_call",
        "tool_search_output",
    }
)


class Variant(StrEnum):
    """What a client drops."""

    AS_RECORDED = "as recorded"
    IDS_KEPT = "ids kept"
    IDS_DROPPED = "ids dropped"
    HEAD_CUT = "head cut"
    HEAD_CUT_IDS_DROPPED = "head cut, ids dropped"

    @property
    def drops_ids(self) -> bool:
        """Whether the ids that the API can do without are left out."""
        return self in (Variant.IDS_DROPPED, Variant.HEAD_CUT_IDS_DROPPED)

    @property
    def cuts_head(self) -> bool:
        """Whether what precedes the first emitted item is left out."""
        return self in (Variant.HEAD_CUT, Variant.HEAD_CUT_IDS_DROPPED)


@dataclass(frozen=True, slots=True)
class Piece:
    """
    One item that the client sends.

    Attributes:
        raw: As it is sent.
        origin: The item that upstream emitted, where it is a replay of one.
    """

    raw: str
    item: Json
    origin: Emitted | None


@dataclass(frozen=True, slots=True)
class Thought:
    """One reasoning item that the client does not send: any of these emitted items is the one."""

    keys: frozenset[Key]
    label: str


@dataclass(frozen=True, slots=True)
class Take:
    """
    One exchange, as a client plays it.

    Attributes:
        body: What is sent.
        want: What must arrive as `input`; None where it is no list.
    """

    recording: Recording
    exchange: Exchange
    body: bytes
    want: tuple[Piece | Thought, ...] | None

    @property
    def missing(self) -> int:
        """How many reasoning items there are to restore."""
        return sum(isinstance(one, Thought) for one in self.want or ())


def take(recording: Recording, exchange: Exchange, variant: Variant) -> Take:
    """
    Return what a client sends of a recorded request, all other bytes verbatim.

    The recorded input is what must arrive. Where the recorded client dropped reasoning itself,
    what must arrive is its input with each run of reasoning ahead of the item it led to.
    """
    text = exchange.request.decode()
    at = rawjson.member(text, "input")
    if at is None or text[at.start] != "[" or is_stateful(json.loads(text)):
        return Take(recording, exchange, exchange.request, None)
    spans = rawjson.elements(text, at.start)
    items: list[Json] = [json.loads(text[span.start : span.end]) for span in spans]
    dropped = set() if variant is Variant.AS_RECORDED else _reasoning(recording, items)
    cut = _head(items, dropped) if variant.cuts_head and dropped else 0
    edits = rawjson.removals(spans, dropped | set(range(cut)))
    want: list[Piece | Thought] = []
    for n, (span, item) in enumerate(zip(spans, items, strict=True)):
        if n in dropped:
            want.append(Thought(recording.find(item), f"{item.get('id')} at {n}"))
            continue
        if n < cut:
            continue
        raw = text[span.start : span.end]
        if variant.drops_ids and item.get("type", "message") in ID_IS_OPTIONAL and "id" in item:
            whole, raw = raw, rawjson.without_member(raw, "id")
            # One edit more inside a kept element: it overlaps none of the removals.
            edits.append(Edit(span.start, span.start + len(whole), raw))
        origin = recording.emitted.get(exchange.origins.get(n, (0, 0)))
        want.append(Piece(raw, json.loads(raw), origin))
    if not any(_is_reasoning(recording, item) for item in items):
        want = with_reasoning(recording, [one for one in want if isinstance(one, Piece)])
    return Take(recording, exchange, rawjson.apply(text, edits).encode(), tuple(want))


def with_reasoning(recording: Recording, pieces: list[Piece]) -> list[Piece | Thought]:
    """
    Put each run of reasoning ahead of the first item sent of those that it led to.

    A run leads to the item behind it and to those behind that one, up to the next run.
    """
    want: list[Piece | Thought] = []
    given: set[Key] = set()
    for piece in pieces:
        if piece.origin is not None:
            n, index = piece.origin.key
            emitted = [one for key, one in sorted(recording.emitted.items()) if key[0] == n]
            ahead = [one for one in emitted if one.key[1] < index]
            while ahead and not ahead[-1].is_reasoning:
                ahead.pop()
            start = len(ahead)
            while start and ahead[start - 1].is_reasoning:
                start -= 1
            run = [one for one in ahead[start:] if one.key not in given]
            given |= {one.key for one in run}
            want += [Thought(frozenset([one.key]), f"{one.id} of {n}") for one in run]
        want.append(piece)
    return want


def is_stateful(body: Mapping[str, object]) -> bool:
    """Tell whether upstream holds the history."""
    return any(body.get(key) is not None for key in ("previous_response_id", "conversation"))


def _is_reasoning(recording: Recording, item: Json) -> bool:
    if item.get("type") == "reasoning":
        return True
    is_reference = item.get("type") == "item_reference" or item.keys() == {"id"}
    return is_reference and bool(recording.find({"id": item.get("id")}))


def _reasoning(recording: Recording, items: list[Json]) -> set[int]:
    return {n for n, item in enumerate(items) if _is_reasoning(recording, item)}


def _head(items: list[Json], dropped: Collection[int]) -> int:
    """Return how many items precede the first emitted one (reasoning goes with what it led to)."""
    for n, item in enumerate(items):
        if n in dropped or item.get("role") == "assistant":
            return n
        kind = str(item.get("type", ""))
        if kind.endswith("_call") or kind in ("program", "item_reference") or kind[:4] == "mcp_":
            return n
    return 0
