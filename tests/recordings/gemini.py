"""
Adapter for Gemini: reasoning is a signature on a part, or on a part of its own.

The judge's own reading of the wire, written from the facts and the recordings. A summary of the
thoughts is no reasoning here: it need not come back, and most clients drop it.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tests.recordings import rawjson
from tests.recordings.adapter import (
    Adapter,
    Addition,
    Altered,
    Atom,
    Role,
    Said,
    folded,
    leaves_of,
)
from tests.recordings.rawjson import Edit
from tests.recordings.wire import events

_NAMES = ("thoughtSignature", "thought_signature")
_CALLS = ("functionCall", "function_call")
_ABOUT = {*_NAMES, "thought", "text", "partMetadata"}
_PARTS = "parts"
# Some clients write the same bytes in the alphabet for URLs.
_URL_SAFE = str.maketrans("-_", "+/")

Part = Mapping[str, Any]


class Gemini(Adapter):
    """The adapter of Gemini."""

    name = folder = "gemini"
    key = "contents"

    def answer(self, body: bytes, *, is_stream: bool) -> Said | None:
        """Return the content of the first candidate, if it ended."""
        text = "" if is_stream else body.decode()
        parts: list[Part] = []
        has_ended = False
        for chunk in events(body) if is_stream else [json.loads(text)]:
            for candidate in chunk.get("candidates", [])[:1]:
                parts += candidate.get("content", {}).get(_PARTS, [])
                has_ended = has_ended or bool(candidate.get("finishReason"))
        return _said({"role": "model", _PARTS: parts}, text) if has_ended else None

    def said(self, raw: str) -> Said:
        """Parse one element of `contents`."""
        return _said(json.loads(raw), raw)

    def without(self, raw: str, atoms: Collection[Atom]) -> str:
        """Remove signatures, and parts that are nothing else."""
        at = rawjson.member(raw, _PARTS)
        if at is None:
            return raw
        spans = rawjson.elements(raw, at.start)
        parts = [json.loads(raw[span.start : span.end]) for span in spans]
        gone: list[int] = []
        edits: list[Edit] = []
        for n, place in enumerate(_places(parts)):
            atom = _atom(parts[n], place)
            if atom is None or atom not in atoms:
                continue
            if place.startswith("own"):
                gone.append(n)
            else:
                bare = rawjson.without_member(raw[spans[n].start : spans[n].end], atom.field)
                edits.append(Edit(*spans[n], bare))
        return rawjson.apply(raw, [*edits, *rawjson.removals(spans, gone)])

    def additions(self, sent: str, got: str, *_: object) -> Sequence[Addition]:
        """Return the signatures, and the parts, that were added to the content."""
        mine, theirs = rawjson.member(sent, _PARTS), rawjson.member(got, _PARTS)
        if mine is None or theirs is None:
            raise Altered(f"no parts: {got[:80]}")
        left = [sent[span.start : span.end] for span in rawjson.elements(sent, mine.start)]
        spans = rawjson.elements(got, theirs.start)
        raws = [got[span.start : span.end] for span in spans]
        parts = [json.loads(raw) for raw in raws]
        found: list[Addition] = []
        back: list[Edit] = []
        for n, place in enumerate(_places(parts)):
            if left and raws[n] == left[0]:
                left.pop(0)
                continue
            atom = _atom(parts[n], place)
            if atom is None:
                raise Altered(f"not the client's bytes: {raws[n][:80]}")
            value = next(one for one in rawjson.members(raws[n]) if one.key == atom.field)
            if left and rawjson.without_member(raws[n], atom.field) == left[0]:
                back.append(Edit(*spans[n], left.pop(0)))
                raw = raws[n][value.start : value.end]
                leaves = leaves_of({atom.field: parts[n][atom.field]})
            else:  # with the comma before it, or after it
                is_first = n == 0
                start = spans[n].start if is_first else spans[n - 1].end
                back.append(Edit(start, spans[n + 1].start if is_first else spans[n].end, ""))
                raw, leaves = raws[n], leaves_of(parts[n])
            found.append(Addition(raw, (atom,), frozenset(leaves)))
        if rawjson.apply(got, back) != sent:
            raise Altered(f"not the client's bytes: {got[:80]}")
        return found


def _said(content: Mapping[str, Any], raw: str) -> Said:
    parts = content.get(_PARTS) or []
    others = [one for one in parts if not one.get("thought")]
    text = "".join(str(one.get("text") or "") for one in others)
    shown = [one for one in others if _data_of(one)]
    places = list(_places(parts))
    return Said(
        Role.MODEL if content.get("role") == "model" else Role.CLIENT,
        (folded(text), *map(_shown, shown)),
        tuple(str((_data_of(one) or {}).get("id") or "") for one in shown),
        tuple(
            atom
            for part, place in zip(parts, places, strict=True)
            if (atom := _atom(part, place)) is not None
        ),
        (),
        raw,
        frozenset(leaves_of(content)),
    )


def _data_of(part: Part) -> dict[str, Any] | None:
    """Return what a part holds, if that is no text."""
    return next((value for name, value in part.items() if name not in _ABOUT), None)


def _places(parts: Sequence[Part]) -> Iterator[str]:
    """Yield where each part is: texts that follow each other are one."""
    visible, is_text = 0, False
    for part in parts:
        if part.get("thought"):
            yield f"thought after {visible}"
        elif _data_of(part) is not None:
            visible, is_text = visible + 1, False
            yield f"part {visible}"
        elif part.get("text"):
            visible, is_text = visible + (not is_text), True
            yield f"part {visible}"
        else:
            yield f"own after {visible}"


def _atom(part: Part, place: str) -> Atom | None:
    """Return the signature of a part; None without one."""
    name = next((name for name in _NAMES if part.get(name)), "")
    if not name:
        return None
    value = str(part[name]).translate(_URL_SAFE).rstrip("=")
    return Atom(place, name, value, is_text=False)


def _shown(part: Part) -> str:
    """Return a part in a form that survives the usual client edits."""
    name = next(name for name in part if name not in _ABOUT)
    value = part[name]
    if name in _CALLS:
        return f"{value.get('name')} {json.dumps(value.get('args') or {}, sort_keys=True)}"
    data = {key: one for key, one in value.items() if key != "id" and one is not None}
    return json.dumps(sorted(str(one) for one in data.values()))
