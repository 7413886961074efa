"""Played clients: the part of a recorded request that each one sends, and the expected input."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.recordings import rawjson
from tests.recordings.rawjson import Edit
from tests.recordings.responses.tape import Emitted, Exchange, Json, Key, Recording

# Types that the API accepts without their `id`; all others require it, so it stays.
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
    """Parts of a request that a client drops."""

    AS_RECORDED = "as recorded"
    IDS_KEPT = "ids kept"
    IDS_DROPPED = "ids dropped"
    HEAD_CUT = "head cut"
    HEAD_CUT_IDS_DROPPED = "head cut, ids dropped"

    @property
    def drops_ids(self) -> bool:
        """Whether the ids that the API does not require are left out."""
        return self in (Variant.IDS_DROPPED, Variant.HEAD_CUT_IDS_DROPPED)

    @property
    def cuts_head(self) -> bool:
        """Whether the items before the first emitted one are left out."""
        return self in (Variant.HEAD_CUT, Variant.HEAD_CUT_IDS_DROPPED)


@dataclass(frozen=True, slots=True)
class Piece:
    """
    One item that the client sends.

    Attributes:
        raw: The JSON text that is sent.
        origin: The emitted item that it replays, if any.
    """

    raw: str
    item: Json
    origin: Emitted | None


@dataclass(frozen=True, slots=True)
class Thought:
    """One reasoning item that the client does not send: any of these emitted items matches it."""

    keys: frozenset[Key]
    label: str


@dataclass(frozen=True, slots=True)
class Take:
    """
    One exchange, as a client plays it.

    Attributes:
        body: The bytes that are sent.
        want: The expected `input`; None if it is not a list.
    """

    recording: Recording
    exchange: Exchange
    body: bytes
    want: tuple[Piece | Thought, ...] | None

    @property
    def missing(self) -> int:
        """Number of reasoning items to inject."""
        return sum(isinstance(one, Thought) for one in self.want or ())

    @property
    def is_sealed(self) -> bool:
        """Whether all of these were recorded with a blob, so that they can be injected."""
        wanted = [one for one in self.want or () if isinstance(one, Thought)]
        return all(self.recording.emitted[key].blobs for one in wanted for key in one.keys)


def take(recording: Recording, exchange: Exchange, variant: Variant) -> Take:
    """
    Return the part of a recorded request that a client sends, all other bytes verbatim.

    The recorded input is the expected input. If the recorded client dropped reasoning itself, the
    expected input is its own with each run of reasoning before the item it led to.
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
            # One more edit inside a kept element: it does not overlap any of the removals.
            edits.append(Edit(span.start, span.start + len(whole), raw))
        origin = recording.emitted.get(exchange.origins.get(n, (0, 0)))
        want.append(Piece(raw, json.loads(raw), origin))
    if not any(_is_reasoning(recording, item) for item in items):
        want = with_reasoning(recording, [one for one in want if isinstance(one, Piece)])
    return Take(recording, exchange, rawjson.apply(text, edits).encode(), tuple(want))


def with_reasoning(recording: Recording, pieces: list[Piece]) -> list[Piece | Thought]:
    """
    Insert each run of reasoning before the first sent item of those that it led to.

    A run leads to the item after it and to the following ones, up to the next run.
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
    """Return whether upstream holds the history."""
    return any(body.get(key) is not None for key in ("previous_response_id", "conversation"))


def _is_reasoning(recording: Recording, item: Json) -> bool:
    if item.get("type") == "reasoning":
        return True
    is_reference = item.get("type") == "item_reference" or item.keys() == {"id"}
    return is_reference and bool(recording.find({"id": item.get("id")}))


def _reasoning(recording: Recording, items: list[Json]) -> set[int]:
    return {n for n, item in enumerate(items) if _is_reasoning(recording, item)}


def _head(items: list[Json], dropped: Collection[int]) -> int:
    """Return how many items precede the first emitted one; reasoning counts as emitted."""
    for n, item in enumerate(items):
        if n in dropped or item.get("role") == "assistant":
            return n
        kind = str(item.get("type", ""))
        if kind.endswith("_call") or kind in ("program", "item_reference") or kind[:4] == "mcp_":
            return n
    return 0
