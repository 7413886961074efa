"""
Judge of the recordings: compares the received input with the recorded one.

Pure; shares no code with the proxy. Allowed differences from the client's bytes: whole reasoning
items that this conversation emitted, at their recorded places; an item's `id`, injected as upstream
emitted it or left out; a message's `phase`, injected as upstream emitted it; one more value in
`include`, if the request is stateless. Everything else is a fault, and each fault is named.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.recordings import rawjson, runner
from tests.recordings.rawjson import Edit, Span
from tests.recordings.responses.client import ID_IS_OPTIONAL, Piece, Take, Thought, is_stateful
from tests.recordings.responses.tape import Json, Key

# Families that refuse the value with 400 (recorded).
WITHOUT_REASONING = re.compile(r"\bgpt-(3|4o|4\.1|4\b|4-)|-chat\b")
SHOWN = 80  # characters of an item that a fault quotes
INCLUDE = "reasoning.encrypted_content"
# Members of an emitted item that input refuses, or that may be left out with the other id.
_MAY_LACK = frozenset({"status", "created_by", "id"})


@dataclass(frozen=True, slots=True)
class Rule:
    """
    The form that an upstream accepts.

    Attributes:
        ids: How ids travel, as in docs/upstreams.md: together, kept, dropped or required.
        keeps_items: Whether it may store items, so that an id alone can be enough.
    """

    ids: str = "together"
    keeps_items: bool = True


TOGETHER = Rule()
# By profile; all others have OpenAI's. Source: the recorded inputs that were accepted. Azure:
# `store: false`, reasoning with its id, call without. DeepSeek: the same, nothing stored. ChatGPT
# login: neither id. xAI and Bedrock: both ids, or neither.
RULES = {
    "azure": Rule("required"),
    "codex": Rule("dropped", keeps_items=False),
    "copilot": Rule("kept", keeps_items=False),
    "openrouter": Rule("kept", keeps_items=False),
    "deepseek": Rule("kept", keeps_items=False),
}


@dataclass(slots=True)
class Verdict(runner.Verdict):
    """
    The verdict on one exchange, which counts reasoning items.

    Attributes:
        ids_changed: Number of items with an id that was injected or left out.
    """

    ids_changed: int = 0


@dataclass(frozen=True, slots=True)
class _Arrived:
    """One item of the received input, and the piece that it matches; None if it was added."""

    span: Span
    raw: str
    item: Json
    piece: Piece | None


def judge(take: Take, got: bytes, rule: Rule = TOGETHER) -> Verdict:
    """Judge the received body of one exchange, at an upstream with this rule."""
    verdict = Verdict(take.missing)
    if got == take.body:
        verdict.missing = [one.label for one in take.want or () if isinstance(one, Thought)]
        return verdict
    try:
        text = got.decode()
        edits = _undo_include(take.body.decode(), text, rule, verdict)
        if take.want is not None:
            arrived = _align(take.want, text, verdict)
            _compare(take, arrived, verdict)
            _pairs(take, arrived, rule, verdict)
            edits += _undo_input(arrived, verdict)
    except (ValueError, LookupError) as error:
        verdict.wrong.append(f"the received body cannot be parsed: {error!r}")
        return verdict
    if rawjson.apply(text, edits).encode() != take.body:
        verdict.wrong.append("without the added parts it differs from the client's request")
    return verdict


def _undo_include(sent: str, got: str, rule: Rule, verdict: Verdict) -> list[Edit]:
    before, after = rawjson.member(sent, "include"), rawjson.member(got, "include")
    if after is None:
        return []
    raw = sent[before.start : before.end] if before is not None else "null"
    if got[after.start : after.end] == raw:
        return []
    given = json.loads(raw) or []
    now = json.loads(got[after.start : after.end])
    if sorted(now) != sorted([*given, INCLUDE]):
        verdict.wrong.append(f"include is {now}, but the client sent {given}")
        return []
    request = json.loads(sent)
    is_stored = request.get("store") is not False and rule.keeps_items
    is_named = is_stored and not has_easy_form(request)
    if is_named or is_stateful(request) or WITHOUT_REASONING.search(str(request.get("model"))):
        verdict.wrong.append("include was extended although it is not needed, or is refused")
    if before is not None:
        return [Edit(after.start, after.end, raw)]
    if got[after.end :].lstrip()[:1] == ",":
        return [Edit(after.key_start, got.index(",", after.end) + 1, "")]
    return [Edit(got.rindex(",", 0, after.key_start), after.end, "")]


def has_easy_form(request: Mapping[str, Any]) -> bool:
    """Return whether a message of the model cannot have an id, so that a blob is needed."""
    items = request.get("input")
    return any(
        item.get("role") == "assistant"
        and "id" not in item
        and (item.get("type") != "message" or isinstance(item.get("content"), str))
        for item in (items if isinstance(items, list) else ())
    )


def _align(want: Sequence[Piece | Thought], got: str, verdict: Verdict) -> list[_Arrived]:
    """Match received items with those that the client sent; the others must be reasoning."""
    at = rawjson.member(got, "input")
    spans = rawjson.elements(got, at.start) if at is not None else []
    pieces = [one for one in want if isinstance(one, Piece)]
    arrived: list[_Arrived] = []
    for span in spans:
        raw = got[span.start : span.end]
        item: Json = json.loads(raw)
        piece = pieces[0] if pieces and _is_same(pieces[0], raw, item) else None
        if piece is not None:
            pieces.pop(0)
        elif item.get("type") != "reasoning":
            verdict.wrong.append(f"an item that the client did not send: {raw[:SHOWN]}")
        arrived.append(_Arrived(span, raw, item, piece))
    verdict.wrong += [f"lost: {piece.raw[:SHOWN]}" for piece in pieces]
    return arrived


def _is_same(piece: Piece, raw: str, item: Json) -> bool:
    """Return whether it is the client's item, except for an id and phase that upstream emitted."""
    if raw == piece.raw:
        return True
    if "phase" in item and "phase" not in piece.item:
        emitted_phase = piece.origin.item.get("phase") if piece.origin is not None else None
        if not emitted_phase or item["phase"] != emitted_phase:
            return False
        found = next(one for one in rawjson.members(raw) if one.key == "phase")
        raw = raw[: raw.rindex(",", 0, found.key_start)] + raw[found.end :]
        return _is_same(piece, raw, {key: value for key, value in item.items() if key != "phase"})
    if item.get("id") == piece.item.get("id") or _members(raw) != _members(piece.raw):
        return False
    emitted = piece.origin.id if piece.origin is not None else ""
    if "id" not in item:  # left out: it was upstream's, and the API does not require it
        kind = piece.item.get("type", "message")
        return piece.item.get("id") == emitted != "" and kind in ID_IS_OPTIONAL
    return not piece.item.get("id") and item["id"] == emitted != ""


def _members(raw: str) -> list[tuple[str, str]]:
    found = [(one.key, raw[one.start : one.end]) for one in rawjson.members(raw)]
    return [one for one in found if one[0] != "id"]


def _compare(take: Take, arrived: Sequence[_Arrived], verdict: Verdict) -> None:
    """Check that between two items of the client exactly the wanted reasoning is, in its order."""
    wanted: list[list[Thought]] = [[]]
    for one in take.want or ():
        if isinstance(one, Thought):
            wanted[-1].append(one)
        else:
            wanted.append([])
    added: list[list[_Arrived]] = [[]]
    for this in arrived:
        if this.piece is None:
            added[-1].append(this)
        else:
            added.append([])
    added += [[] for _ in wanted[len(added) :]]
    for here, found in zip(wanted, added, strict=True):
        for this in found:
            keys = take.recording.find(this.item)
            skipped: list[str] = []
            while here and not keys & here[0].keys:
                skipped.append(here.pop(0).label)
            verdict.missing += skipped
            if not here:
                fault = "in the wrong place" if keys else "of another conversation"
                verdict.wrong.append(f"reasoning {fault}: {this.raw[:SHOWN]}")
                continue
            here.pop(0)
            verdict.restored += 1
            if not any(_is_verbatim(take, key, this.item) for key in keys):
                verdict.wrong.append(f"reasoning not as upstream emitted it: {this.raw[:SHOWN]}")
        verdict.missing += [one.label for one in here]


def _is_verbatim(take: Take, key: Key, item: Json) -> bool:
    emitted = take.recording.emitted[key].item
    lacks = emitted.keys() - item.keys()
    return lacks <= _MAY_LACK and all(emitted.get(name, "") == item[name] for name in item)


def _pairs(take: Take, arrived: Sequence[_Arrived], rule: Rule, verdict: Verdict) -> None:
    """
    Check that the ids of added reasoning and of the item it led to follow the rule.

    Reasoning with plain text and no blob is not bound to its item and may always keep its id.
    """
    is_stored = json.loads(take.body).get("store") is not False
    for n, this in enumerate(arrived):
        if rule.ids == "kept" and this.piece is not None and _id(this.item) != _id(this.piece.item):
            verdict.wrong.append(f"an id was injected or removed: {this.raw[:SHOWN]}")
        if this.piece is not None or not this.item.get("encrypted_content"):
            continue
        group = [one for one in arrived[n:] if one.item.get("type") != "reasoning"]
        lead = group[0].piece if group else None
        if lead is None or lead.origin is None:
            continue  # already reported: no item that it could have led to
        has_id = bool(this.item.get("id"))
        lead_has_id = group[0].item.get("id") == lead.origin.id
        demands_id = lead.item.get("type", "message") not in ID_IS_OPTIONAL
        is_right = {
            "together": has_id == lead_has_id,
            "kept": has_id,
            "dropped": has_id == lead_has_id == demands_id,
            "required": has_id and (lead_has_id or not is_stored),
        }[rule.ids]
        if not is_right:
            verdict.wrong.append(f"ids do not follow the rule {rule.ids!r}: {this.raw[:SHOWN]}")


def _id(item: Json) -> object:
    return item.get("id")


def _undo_input(arrived: Sequence[_Arrived], verdict: Verdict) -> list[Edit]:
    """Return the edits that remove the added items and reset the ids to the client's."""
    spans = [one.span for one in arrived]
    added = [n for n, one in enumerate(arrived) if one.piece is None]
    edits = rawjson.removals(spans, added)
    for one in arrived:
        if one.piece is not None and one.raw != one.piece.raw:
            verdict.ids_changed += _id(one.item) != _id(one.piece.item)
            edits.append(Edit(one.span.start, one.span.end, one.piece.raw))
    return edits
