"""
Adapter for the Responses API: reasoning is an item of its own before the item that it led to.

The judge's own reading of the wire, written from the facts and the recordings. A message is here an
item with the run of reasoning directly before it. Allowed differences, except for that: an item's
`id`, injected as upstream emitted it or left out; a message's `phase`, injected as upstream emitted
it; one more value in `include`, if the request is stateless.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from tests.recordings import rawjson
from tests.recordings.adapter import Adapter, Addition, Altered, Atom, Key, Role, Said, leaves_of
from tests.recordings.rawjson import Edit, Span
from tests.recordings.tape import Recording
from tests.recordings.wire import decoded, encoded, events

# Sign of the vendor in a recording -> the upstream's profile. If the host was redacted, or not
# recorded, it was OpenAI's by default; a ChatGPT login has its own backend.
_VENDORS = {
    "openai-oauth": "codex",
    "chatgpt.com": "codex",
    "azure.com": "azure",
    "vercel-ai-azure": "azure",
    "githubcopilot.com": "copilot",
    "openrouter.ai": "openrouter",
    "api.x.ai": "xai",
    "vercel-ai-xai": "xai",
    "bedrock": "bedrock",
    "api.deepseek.com": "deepseek",
    "api.openai.com": "openai",
    "(not recorded)": "openai",
}
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
# Families that refuse the value with 400 (recorded).
_WITHOUT_REASONING = re.compile(r"\bgpt-(3|4o|4\.1|4\b|4-)|-chat\b")
_INCLUDE = "reasoning.encrypted_content"
_BLOB = '"encrypted_content": "'
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
# Members of an emitted item that input refuses, or that may be left out with the other id.
_MAY_LACK = frozenset({"status", "created_by", "id"})
# Members that clients leave out of items or rewrite: they do not identify an item.
_NOTHING_TOLD = frozenset({"id", "status", "annotations", "logprobs", "phase", "type"})

Json = dict[str, Any]


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


@dataclass(frozen=True)
class Responses(Adapter):
    """The adapter of the Responses API, at an upstream with this rule."""

    rule: Rule = TOGETHER

    name = "responses"
    folder = ""
    key = "input"
    completes = False
    is_owed = True
    made_up = b'{"model": "gpt-5", "input": "Go on.", "stream": true}'

    def path_of(self, meta: Mapping[str, Any]) -> str:
        """Return the path, from `/v1` on: some hosts have others."""
        return "/v1/responses" + ("/compact" if meta["endpoint"] == "compact" else "")

    def profile_of(self, name: str, hosts: Sequence[str]) -> str:
        """Return the profile of the upstream, by its host or by the recording's name."""
        place = " ".join([name, *hosts])
        return next((profile for sign, profile in _VENDORS.items() if sign in place), "generic")

    def under(self, profile: str) -> "Responses":
        """Return the adapter with the rule of a profile."""
        return Responses(RULES.get(profile, TOGETHER))

    def spans(self, request: str) -> Sequence[Span]:
        """Locate the items, each with its reasoning; () if upstream holds the history."""
        at = rawjson.member(request, self.key)
        if at is None or request[at.start] != "[" or is_stateful(json.loads(request)):
            return ()
        found: list[Span] = []
        is_open = False
        for span in rawjson.elements(request, at.start):
            found.append(Span(found.pop().start, span.end) if is_open else span)
            is_open = _is_reasoning(json.loads(request[span.start : span.end]))
        return found

    def origins(self, request: str, meta: Mapping[str, Any]) -> Mapping[int, Key]:
        """Return which item replays which, as the recording notes it by position."""
        spans = self.spans(request)
        ends = {span.end: n for n, span in enumerate(spans)}
        at = rawjson.member(request, self.key)
        items = rawjson.elements(request, at.start) if at is not None and spans else []
        return {
            ends[items[one["pos"]].end]: (one["from_exchange"], one["output_index"])
            for one in meta["analysis"].get("replayed_items", [])
            if one["pos"] < len(items) and items[one["pos"]].end in ends
        }

    def answers(self, body: bytes, *, is_stream: bool) -> Mapping[int, Said]:
        """Return the items that were emitted, each with the reasoning that led to it."""
        run: list[Json] = []
        said: dict[int, Said] = {}
        is_open = False
        for index, item in (_streamed if is_stream else _whole)(body).items():
            if _is_reasoning(item):
                run = [*run, item] if is_open else [item]
            else:
                said[index] = replace(
                    _said([item]),
                    role=Role.MODEL,
                    atoms=tuple(map(_atom, run)),
                    leaves=frozenset(leaves_of([*run, {"phase": item.get("phase")}])),
                )
            is_open = _is_reasoning(item)
        return said

    def said(self, raw: str) -> Said:
        """Parse an item and its reasoning."""
        return _said(_items(raw))

    def without(self, raw: str, atoms: Collection[Atom]) -> str:
        """Remove the reasoning before an item, if it holds these atoms."""
        spans = rawjson.elements(f"[{raw}]", 0)
        is_bare = not {*map(_atom, filter(_is_reasoning, _items(raw)))} & {*atoms}
        return raw if is_bare else raw[spans[-1].start - 1 : spans[-1].end - 1]

    def without_ids(self, raw: str) -> str:
        """Remove the id of an item, if the API does not demand it."""
        at = rawjson.elements(f"[{raw}]", 0)[-1].start - 1
        has_one = _has_optional_id(json.loads(raw[at:]))
        return raw[:at] + rawjson.without_member(raw[at:], "id") if has_one else raw

    def replayed(self, said: Said, emitted: Sequence[Atom]) -> list[Atom]:
        """Return all reasoning before an item: the API accepted it there."""
        return list(said.atoms)

    def is_usable(self, atom: Atom) -> bool:
        """Return whether it has a blob: an id alone is useless if nothing is stored."""
        return _BLOB in atom.value

    def additions(
        self, sent: str, got: str, emitted: Said | None, request: str
    ) -> Sequence[Addition]:
        """Return the reasoning that was added before an item, as one part."""
        mine, theirs = _items(sent), _items(got)
        run, ours, lead = theirs[: len(theirs) - len(mine)], mine[-1], theirs[-1]
        old, new = rawjson.elements(f"[{sent}]", 0), rawjson.elements(f"[{got}]", 0)
        at, to = old[-1].start - 1, new[-1].start - 1
        is_kept = sent[:at] == got[new[max(0, len(run))].start - 1 : to]
        if not (
            is_kept and all(map(_is_reasoning, run)) and _is_same(got[to:], sent[at:], emitted)
        ):
            raise Altered(f"not the client's bytes: {got[:80]}")
        self._judge_ids(run, lead, ours, emitted, is_stored=_is_stored(request))
        known = emitted.atoms if emitted is not None else ()
        # Without its id, an item is the one with the same content.
        atoms = tuple(
            next((one for one in known if not atom.place and one.value == atom.value), atom)
            for atom in map(_atom, run)
        )
        return [Addition(got, atoms, frozenset(leaves_of(run)))] if run else []

    def _judge_ids(
        self,
        run: Sequence[Json],
        lead: Json,
        ours: Json,
        emitted: Said | None,
        *,
        is_stored: bool,
    ) -> None:
        """
        Check that the ids of added reasoning and of the item it led to follow the rule.

        Reasoning with plain text and no blob is not bound to its item and may always keep its id.
        """
        if self.rule.ids == "kept" and lead.get("id") != ours.get("id"):
            raise Altered("an id was injected or removed")
        for item in run if emitted is not None else ():
            has_id = bool(item.get("id"))
            lead_has_id = emitted is not None and (str(lead.get("id")),) == emitted.ids
            demands_id = lead.get("type", "message") not in ID_IS_OPTIONAL
            is_right = {
                "together": has_id == lead_has_id,
                "kept": has_id,
                "dropped": has_id == lead_has_id == demands_id,
                "required": has_id and (lead_has_id or not is_stored),
            }[self.rule.ids]
            if item.get("encrypted_content") and not is_right:
                raise Altered(f"ids do not follow the rule {self.rule.ids!r}")

    def frame(self, sent: str, got: str) -> tuple[list[Edit], list[str]]:
        """Undo one more value in `include`, if it is needed and not refused."""
        before, after = rawjson.member(sent, "include"), rawjson.member(got, "include")
        raw = sent[before.start : before.end] if before is not None else "null"
        if after is None or got[after.start : after.end] == raw:
            return [], []
        given, now = json.loads(raw) or [], json.loads(got[after.start : after.end])
        if sorted(now) != sorted([*given, _INCLUDE]):
            return [], [f"include is {now}, but the client sent {given}"]
        request = json.loads(sent)
        is_named = _is_stored(sent) and self.rule.keeps_items and not has_easy_form(request)
        is_refused = _WITHOUT_REASONING.search(str(request.get("model")))
        faults = ["include was extended although it is not needed, or is refused"]
        faults = faults if is_named or is_refused or is_stateful(request) else []
        if before is not None:
            return [Edit(after.start, after.end, raw)], faults
        if got[after.end :].lstrip()[:1] == ",":
            return [Edit(after.key_start, got.index(",", after.end) + 1, "")], faults
        return [Edit(got.rindex(",", 0, after.key_start), after.end, "")], faults


def is_stateful(body: Mapping[str, object]) -> bool:
    """Return whether upstream holds the history."""
    return any(body.get(key) is not None for key in ("previous_response_id", "conversation"))


def has_easy_form(request: Mapping[str, Any]) -> bool:
    """Return whether a message of the model cannot have an id, so that a blob is needed."""
    items = request.get("input")
    return any(
        item.get("role") == "assistant"
        and "id" not in item
        and (item.get("type") != "message" or isinstance(item.get("content"), str))
        for item in (items if isinstance(items, list) else ())
    )


def sealed(recording: Recording) -> Recording:
    """
    Return a recording as if its client had asked for encrypted reasoning.

    The blobs are made up, unlike all other bytes here: one for each reasoning item without.
    """
    exchanges = []
    for exchange in recording.exchanges:
        plain = decoded(exchange.answer, exchange.encoding)
        is_stream = b"data:" in plain
        lines = plain.split(b"\n") if is_stream else []
        answer = b"\n".join(map(_seal_line, lines)) if is_stream else _seal(plain)
        said = Responses().answers(answer, is_stream=is_stream)
        wire = encoded(answer, exchange.encoding)
        exchanges.append(replace(exchange, answer=wire, said=said))
    answers = {(one.n, index): said for one in exchanges for index, said in one.said.items()}
    return replace(recording, exchanges=tuple(exchanges), answers=answers)


def _seal_line(line: bytes) -> bytes:
    return b"data: " + _seal(line[5:]) if line.startswith(b"data: {") else line


def _seal(document: bytes) -> bytes:
    """Add a blob to each reasoning item of a response or an event; all else stays unchanged."""
    value = json.loads(document)
    response = value.get("response", value)
    items = [value.get("item"), *(response.get("output") or [])]
    thoughts = [one for one in items if one and _is_reasoning(one)]
    for thought in thoughts:
        thought["encrypted_content"] = thought.get("encrypted_content") or f"gAAAA-{thought['id']}"
    return json.dumps(value).encode() if thoughts else document


def _items(raw: str) -> list[Json]:
    found: list[Json] = json.loads(f"[{raw}]")
    return found


def _is_reasoning(item: Json) -> bool:
    return item.get("type") == "reasoning"


def _is_stored(request: str) -> bool:
    return json.loads(request).get("store") is not False


def _has_optional_id(item: Json) -> bool:
    return item.get("type", "message") in ID_IS_OPTIONAL and "id" in item


def _atom(item: Json) -> Atom:
    """Return a whole reasoning item, with its id as its place."""
    told = {name: value for name, value in item.items() if name not in _MAY_LACK}
    return Atom(str(item.get("id") or ""), "item", json.dumps(told, sort_keys=True), is_text=False)


def _said(items: Sequence[Json]) -> Said:
    """Return an item, with the reasoning before it."""
    run = [*takewhile(_is_reasoning, items)]
    item: Json = next((one for one in items if not _is_reasoning(one)), {})
    kind, role = str(item.get("type", "message")), item.get("role")
    is_models = role == "assistant" or kind.endswith("_call") or kind[:4] in ("prog", "mcp_")
    return Said(
        Role.MODEL if is_models else Role.FRAME if role in ("system", "developer") else Role.CLIENT,
        (_told(item),) if "role" in item else ("", _told(item)),
        tuple(str(one) for name, one in item.items() if name == "id"),
        tuple(map(_atom, run)),
        (),
        "",
        frozenset(),
    )


def _told(item: Json) -> str:
    """Return the content of an item, for comparison."""
    content = item.get("content")
    if "role" in item and isinstance(content, list):
        content = "".join(str(part.get("text", part)) for part in content)
    if "role" in item and isinstance(content, str):
        return json.dumps([item["role"], content])
    told = {name: value for name, value in item.items() if name not in _NOTHING_TOLD}
    return json.dumps(told, sort_keys=True)


def _is_same(got: str, sent: str, emitted: Said | None) -> bool:
    """Return whether it is the client's item, except for an id and phase that upstream emitted."""
    if got == sent:
        return True
    item, mine = json.loads(got), json.loads(sent)
    if "phase" in item and "phase" not in mine:
        if emitted is None or ("phase", str(item["phase"])) not in emitted.leaves:
            return False
        found = next(one for one in rawjson.members(got) if one.key == "phase")
        got = got[: got.rindex(",", 0, found.key_start)] + got[found.end :]
        return _is_same(got, sent, emitted)
    ids = {one.get("id") for one in (item, mine)} - {None}
    is_known = emitted is not None and ids == {*emitted.ids}
    may_go = "id" in item or _has_optional_id(mine)
    same = _members(got) == _members(sent)
    return same and is_known and may_go and ("id" in item) != bool(mine.get("id"))


def _members(raw: str) -> list[tuple[str, str]]:
    found = [(one.key, raw[one.start : one.end]) for one in rawjson.members(raw)]
    return [one for one in found if one[0] != "id"]


def _whole(answer: bytes) -> Mapping[int, Json]:
    try:
        return dict(enumerate(json.loads(answer).get("output") or []))
    except (ValueError, AttributeError):
        return {}


def _streamed(answer: bytes) -> Mapping[int, Json]:
    """Return the items of a stream by index, as they are when they are done."""
    done: dict[int, Json] = {}
    for event in events(answer):
        kind, response = event.get("type"), event.get("response")
        if kind == "response.output_item.done" and isinstance(event.get("item"), dict):
            done[event["output_index"]] = event["item"]
        if kind in _ENDS and isinstance(response, dict):
            for at, last in enumerate(response.get("output") or []):
                done.setdefault(at, last)
    return dict(sorted(done.items()))
