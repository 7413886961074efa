"""
Adapter for Chat Completions: reasoning is a member of an assistant message or of its tool calls.

The judge's own reading of the wire, written from the facts and the recordings.
"""

import json
import re
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
from tests.recordings.rawjson import Edit, Member
from tests.recordings.wire import events

_TEXTS = frozenset({"reasoning_content", "reasoning", "reasoning_text"})
_OPAQUE = frozenset({"reasoning_opaque", "thought_signature"})
_DETAILS = "reasoning_details"
_EXTRA = "extra_content"
_NAMES = _TEXTS | _OPAQUE | {_DETAILS, _EXTRA}
_CALLS = "tool_calls"
_ROLES = {"assistant": Role.MODEL, "system": Role.FRAME, "developer": Role.FRAME}
_EMPTY = frozenset({"null", '""', "[]", "{}"})
_JOINED = frozenset({"content", "reasoning_content", "reasoning", "reasoning_text", "refusal"})
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)


class Chat(Adapter):
    """The adapter of Chat Completions."""

    name = folder = "chat"
    path = "/v1/chat/completions"

    def answer(self, body: bytes, *, is_stream: bool) -> Said | None:
        """Return the first choice of a response; a stream counts if it has a finish reason."""
        if is_stream:
            message, fragments = _assembled(body)
            return None if message is None else _said(message, "", fragments)
        try:
            text = body.decode()
            at = rawjson.member(text, "choices")
            if at is None or not (choices := rawjson.elements(text, at.start)):
                return None
            choice = text[choices[0].start : choices[0].end]
            inner = rawjson.member(choice, "message")
        except (ValueError, LookupError, AttributeError):
            return None
        if inner is None:
            return None
        raw = choice[inner.start : inner.end]
        return _said(json.loads(raw), raw)

    def said(self, raw: str) -> Said:
        """Parse one element of `messages`."""
        return _said(json.loads(raw), raw)

    def without(self, raw: str, atoms: Collection[Atom]) -> str:
        """Remove members of the message and of its tool calls."""
        calls = rawjson.member(raw, _CALLS)
        if calls is not None and raw[calls.start] == "[":
            edits = [
                Edit(span.start, span.end, _bare(raw[span.start : span.end], f"call {n}", atoms))
                for n, span in enumerate(rawjson.elements(raw, calls.start))
            ]
            raw = rawjson.apply(raw, edits)
        return _bare(raw, "", atoms)

    def additions(self, sent: str, got: str, *_: object) -> Sequence[Addition]:
        """Return the members that were added to the message and to its tool calls."""
        found: list[Addition] = []
        mine, theirs = rawjson.member(sent, _CALLS), rawjson.member(got, _CALLS)
        if mine is not None and theirs is not None and sent[mine.start] == got[theirs.start] == "[":
            before = rawjson.elements(sent, mine.start)
            after = rawjson.elements(got, theirs.start)
            if len(before) != len(after):
                raise Altered("a tool call was added or removed")
            edits = []
            for n, (old, new) in enumerate(zip(before, after, strict=True)):
                call = sent[old.start : old.end]
                found += _added(call, got[new.start : new.end], f"call {n}")
                edits.append(Edit(new.start, new.end, call))
            got = rawjson.apply(got, edits)
        return found + _added(sent, got, "")


def _said(
    message: Mapping[str, Any], raw: str, fragments: Sequence[Mapping[str, Any]] = ()
) -> Said:
    """Parse a message; `fragments` are the deltas that it was joined from."""
    text, held = _content(message.get("content"))
    calls = message.get(_CALLS) or []
    functions = [call.get("function") or {} for call in calls]
    visible = [folded(text), *(_call(function) for function in functions)]
    atoms: list[Atom] = []
    for place, holder in [("", message), *((f"call {n}", call) for n, call in enumerate(calls))]:
        atoms += _atoms(holder, place)
        held += [
            Atom(place, name, "", is_text=True)
            for name, value in holder.items()
            if name in _NAMES and value is not None and not list(_atoms({name: value}, place))
        ]
    return Said(
        _ROLES.get(str(message.get("role", "assistant")), Role.CLIENT),
        tuple(visible),
        tuple(str(call.get("id") or "") for call in calls),
        tuple(atoms),
        tuple(held),
        raw,
        frozenset(leaves_of([message, *fragments])),
    )


def _call(function: Mapping[str, Any]) -> str:
    given = function.get("arguments")
    try:
        arguments = json.dumps(json.loads(given or "{}"), sort_keys=True)
    except (TypeError, ValueError):
        arguments = str(given)
    return f"{function.get('name')} {arguments}"


def _content(content: Any) -> tuple[str, list[Atom]]:
    """Return the text of a `content`, and the reasoning inside it."""
    texts: list[str] = []
    held: list[Atom] = []
    for part in content if isinstance(content, list) else [{"text": content}]:
        if part.get("type") == "thinking":
            inner = "".join(str(one.get("text") or "") for one in part.get("thinking") or [])
            held.append(Atom("", "content.thinking", inner, is_text=True))
        else:
            texts.append(str(part["text"] or "") if "text" in part else json.dumps(part))
    text = "".join(texts)
    thoughts = _THINK.findall(text)
    held += [Atom("", "content.<think>", thought, is_text=True) for thought in thoughts]
    return _THINK.sub("", text), held


def _atoms(holder: Mapping[str, Any], place: str) -> Iterator[Atom]:
    """Yield the reasoning in the members of a message or of a call."""
    for name, value in holder.items():
        if isinstance(value, str) and value:
            if name in _TEXTS or name in _OPAQUE:
                yield Atom(place, name, value, name in _TEXTS)
        elif name == _DETAILS and isinstance(value, list):
            yield from _details(value, place)
        elif name == _EXTRA and isinstance(value, dict):
            yield from _signatures(value, place, name)


def _details(entries: Sequence[Mapping[str, Any]], place: str) -> Iterator[Atom]:
    """Yield the reasoning of `reasoning_details` in order; one index and type are one text."""
    joined: dict[tuple[Any, ...], str] = {}
    for entry in entries:
        group = (entry.get("index"), entry.get("type"))
        for name in ("text", "summary"):
            if entry.get(name):
                key = (*group, name)
                joined[key] = joined.get(key, "") + str(entry[name])
        for name in ("signature", "data"):
            if entry.get(name):
                joined[(*group, name, entry[name])] = str(entry[name])
    for (_, _, name, *opaque), value in joined.items():
        yield Atom(place, f"{_DETAILS}.{name}", value, is_text=not opaque)


def _signatures(value: Mapping[str, Any], place: str, path: str) -> Iterator[Atom]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _signatures(inner, place, f"{path}.{name}")
        elif isinstance(inner, str) and inner and name in _OPAQUE:
            yield Atom(place, f"{path}.{name}", inner, is_text=False)


def _bare(raw: str, place: str, atoms: Collection[Atom]) -> str:
    """Remove the members of a message or a call that hold only these atoms."""
    bare = raw
    for one in rawjson.members(raw):
        held = list(_atoms({one.key: json.loads(raw[one.start : one.end])}, place))
        if held and all(atom in atoms for atom in held):
            bare = rawjson.without_member(bare, one.key)
    return bare


def _added(sent: str, got: str, place: str) -> list[Addition]:
    """Return the members that an object has and the client's has not, or has empty or in part."""
    if sent == got:
        return []
    mine = {one.key: sent[one.start : one.end] for one in rawjson.members(sent)}
    theirs = rawjson.members(got)
    new = [one for one in theirs if one.key not in mine]
    filled = [
        one
        for one in theirs
        if one.key in mine and _says_less(one.key, mine[one.key], got[one.start : one.end])
    ]
    edits = [Edit(one.start, one.end, mine[one.key]) for one in filled]
    # A text of the client under a name that upstream did not emit makes room for the emitted one.
    keys = {one.key for one in theirs}
    gone = [one for one in rawjson.members(sent) if one.key in _TEXTS and one.key not in keys]
    placed = [one for one in new if one.key in _TEXTS][: len(gone)]
    for one, other in zip(placed, gone, strict=False):
        edits.append(Edit(one.key_start, one.end, sent[other.key_start : other.end]))
    kept = rawjson.apply(got, edits)
    if not _is_removal(kept, sent, [one.key for one in new if one not in placed]):
        raise Altered(f"not the client's bytes: {got[:80]}")
    return [_addition(got, one, place) for one in (*new, *filled)]


def _says_less(name: str, mine: str, theirs: str) -> bool:
    """Return whether a client's value is empty, or has only pieces of the reasoning in another."""
    if mine == theirs or name not in _NAMES:
        return False
    whole = list(_atoms({name: json.loads(theirs)}, ""))
    pieces = list(_atoms({name: json.loads(mine)}, ""))
    return mine in _EMPTY or (
        bool(pieces)
        and len(json.dumps(json.loads(mine))) < len(json.dumps(json.loads(theirs)))
        and all(
            any(one.field == it.field and one.value in it.value for it in whole) for one in pieces
        )
    )


def _is_removal(got: str, sent: str, keys: Sequence[str]) -> bool:
    """Return whether cutting these members, each with one comma, gives the client's bytes."""
    if not keys:
        return got == sent
    found = rawjson.members(got)
    at = next(n for n, one in enumerate(found) if one.key == keys[0])
    this = found[at]
    ways = set()
    if at:  # the comma before it, with the space after the comma
        comma = got.rindex(",", found[at - 1].end, this.key_start)
        ways.add(got[:comma] + got[this.end :])
    if at + 1 < len(found):  # the comma after it, with or without the space after the comma
        comma = got.index(",", this.end)
        ways.add(got[: this.key_start] + got[comma + 1 :])
        ways.add(got[: this.key_start] + got[found[at + 1].key_start :])
    if len(found) == 1:
        ways.add(got[: this.key_start] + got[this.end :])
    return any(_is_removal(way, sent, keys[1:]) for way in ways)


def _addition(got: str, one: Member, place: str) -> Addition:
    value = json.loads(got[one.start : one.end])
    return Addition(
        got[one.start : one.end],
        tuple(_atoms({one.key: value}, place)),
        frozenset(leaves_of({one.key: value})),
    )


# Streams: the message that the deltas of the first choice add up to


def _assembled(body: bytes) -> tuple[dict[str, Any] | None, list[Mapping[str, Any]]]:
    """
    Join the deltas of a stream.

    Returns:
        The message, or None if the stream failed or has no finish reason; and all deltas.
    """
    message: dict[str, Any] = {}
    deltas: list[Mapping[str, Any]] = []
    has_ended = False
    for event in events(body):
        if event.get("error"):
            return None, deltas
        for choice in event.get("choices") or []:
            if choice.get("index"):
                continue
            delta = choice.get("delta") or {}
            deltas.append(delta)
            _join(message, delta)
            has_ended = has_ended or bool(choice.get("finish_reason"))
    return (message if has_ended else None), deltas


def _join(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        if value is None:
            continue
        if name == "tool_calls":
            for call in value:
                _join_call(message.setdefault(name, []), call)
        elif isinstance(value, list):  # `reasoning_details`, or `content` of Mistral
            had = message.get(name) or []
            message[name] = (had if isinstance(had, list) else [{"text": had}]) + value
        elif name in _JOINED and isinstance(value, str):
            had = message.get(name) or ""
            message[name] = [*had, {"text": value}] if isinstance(had, list) else had + value
        else:
            message[name] = value


def _join_call(calls: list[dict[str, Any]], delta: Mapping[str, Any]) -> None:
    """Add a fragment to its call: an index that comes again with another id is another call."""
    index, call_id = delta.get("index"), delta.get("id")
    same = [one for one in calls if one["index"] == index and index is not None]
    this = same[-1] if same else None
    function = delta.get("function") or {}
    if this is None or (call_id and this["id"] and call_id != this["id"]):
        this = {"index": index, "id": "", "function": {"name": "", "arguments": ""}}
        calls.append(this)
    for name, value in delta.items():
        if value is not None and name not in ("function", "index"):
            this[name] = value or this.get(name, value)
    this["function"]["name"] += str(function.get("name") or "")
    this["function"]["arguments"] += str(function.get("arguments") or "")
