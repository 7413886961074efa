"""
Responses of the strict API, as strict about reasoning as OpenAI's.

What is stored may be referred to. A model that does not reason emits none. It keeps what it stores
in memory, and drops the oldest.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from reasoning_replay.strict_api import responses_words as words
from reasoning_replay.strict_api.cache_diagnosis import Fingerprint, Fingerprints
from reasoning_replay.strict_api.dialect import (
    Dialect,
    Item,
    Reading,
    Refused,
    asked_at,
    canonical,
    sse,
    text_of,
)
from reasoning_replay.strict_api.example_values import example
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.responses_rules import (
    BLOB,
    EMITTED_TYPES,
    INCLUDE,
    PREFIXES,
    Emitted,
    InputRules,
    kind_of,
    reasons,
)
from reasoning_replay.strict_api.scenarios import CITIES, Script, pieces_of, tokens_of

# Most entries that are kept of each kind.
ITEMS_MAX: Final = 10_000
HISTORIES_MAX: Final = 500
TOKENS_PER_THOUGHT: Final = 192
OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_OPTIONS: Final = "prompt_cache_options"
_COMPARED: Final = "comparison_response_id"
# Models that say why their cache missed: GPT-5.6 and later.
_DIAGNOSES: Final = re.compile(r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)")


class Responses(Dialect):
    """
    A Responses API that has issued nothing yet.

    Attributes:
        emitted: Its items by id, and reasoning by its blob as well.
        stored: What can be looked up, by id.
        histories: What a response, or a conversation, stands for: its input and its output.
        fingerprints: What was read before each answer.
    """

    name = "responses"
    path = "/responses"
    history = "input"
    rules: ClassVar[type[InputRules]] = InputRules

    def __init__(self, script: Script, *, is_strict: bool = False) -> None:
        super().__init__(script, is_strict=is_strict)
        self.emitted: dict[str, Emitted] = {}
        self.stored: dict[str, Item] = {}
        self.histories: dict[str, list[Item]] = {}
        self.fingerprints = Fingerprints("input_changed")

    def held(self, body: Item) -> list[Item]:
        """
        Return the items that the API itself adds before an input.

        Raises:
            Refused: The previous response is unknown.
        """
        previous = body.get("previous_response_id")
        if previous and previous not in self.histories:
            raise words.UNKNOWN_PREVIOUS(previous)
        return self.histories[previous] if previous else []

    @override
    def read(self, body: Item) -> Reading:
        held = self.held(body)
        own = [
            self.stored.get(item.get("id", ""), item) if kind_of(item) == "item_reference" else item
            for item in body["input"]
        ]
        paths = [*("" for _ in held), *(f"input[{at}]" for at in range(len(own)))]
        items = [*held, *own]
        parts = [self.part_of(item, path) for item, path in zip(items, paths, strict=True)]
        frame = canonical([body.get("instructions"), body.get("tools")])
        return Reading(frame, items, parts)

    def part_of(self, item: Item, path: str) -> Part:
        """Return an item as a part; reasoning is what its blob stands for, or its stored id."""
        names = tuple(filter(None, (item.get("id"), item.get("call_id"))))
        match kind_of(item):
            case "reasoning":
                blob, item_id = item.get(BLOB) or "", item.get("id") or ""
                known = self.emitted.get(blob or item_id)
                if known and (blob or item_id in self.stored):
                    blob = known.item.get(BLOB) or item_id
                return Part("reasoning", path, blob or canonical(item.get("content")), names)
            case "message" if item.get("role") == "assistant":
                return Part("said", path, canonical(["assistant", text_of(item)]), names)
            case kind if kind in EMITTED_TYPES:
                said = item.get("arguments") or item.get("input") or item.get("action")
                return Part("said", path, canonical([item.get("name"), canonical(said)]), names)
        return Part("given", path, canonical(item))

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        yield from self.rules(body, self.held(body), self.emitted, self.stored).refusals()
        if _compared_with(body) and not _DIAGNOSES.match(str(body.get("model"))):
            yield words.UNKNOWN_PARAMETER(f"{_OPTIONS}.{_COMPARED}")

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        output = self.output_for(body, reading.items)
        self.keep_pairs(output)
        stores, hides = self.stores(body), self.hides(body)
        shown = [
            {name: item[name] for name in item if not hides or name != BLOB} for item in output
        ]
        response = response_of(body, shown, judgement)
        response |= self._diagnosed(body, reading, response["id"])
        if stores:
            for item in shown:
                keep(self.stored, item["id"], item)
            keep(self.histories, response["id"], [*reading.items, *shown], HISTORIES_MAX)
        said = [self.part_of(item, f"output[{at}]") for at, item in enumerate(output)]
        return response, said

    def stores(self, body: Item) -> bool:
        """Return whether the answer is stored."""
        return body.get("store") is not False

    def hides(self, body: Item) -> bool:
        """Return whether the answer is shown without blobs."""
        return self.stores(body) and INCLUDE not in (body.get("include") or ())

    def _diagnosed(self, body: Item, reading: Reading, answer_id: str) -> Item:
        """Return the member that says why the cache missed, if the request asks for it."""
        now, named = _fingerprint(body, reading), _compared_with(body)
        told: Item = {}
        if named and named not in self.fingerprints:
            told = {"type": "comparison_response_not_found"}
        elif named:
            miss = self.fingerprints.miss(named, now)
            told = {"type": "cache_hit"}
            if miss is not None:
                told = {
                    "type": "cache_miss",
                    "reason": miss.reason,
                    "cache_missed_tokens": miss.missed,
                    "comparison_reusable_tokens": miss.reusable,
                }
        self.fingerprints.keep(answer_id, now)
        return {"prompt_cache_diagnostics": told} if told else {}

    def keep_pairs(self, output: Sequence[Item]) -> None:
        """
        Keep which reasoning led to which items.

        A run of reasoning leads to all up to the next run, and is followed by the first of them.
        """
        run: list[str] = []
        before = ""
        for at, item in enumerate(output):
            kind, required, follower = item["type"], tuple(run), ""
            if kind == "reasoning":
                run = [*(run if before == kind else ()), item["id"]]
                others = (one["id"] for one in output[at:] if one["type"] != kind)
                required, follower = (), next(others, "")
            before = kind
            for name in filter(None, (item["id"], item.get(BLOB))):
                keep(self.emitted, name, Emitted(item, required, follower))

    def output_for(self, body: Item, items: Sequence[Item]) -> list[Item]:
        """Return the complete output items for a request with this whole history."""
        since = items[asked_at(items, lambda item: item.get("role") == "user") + 1 :]
        answered = sum(item.get("type") in OUTPUTS for item in since)
        choice = body.get("tool_choice", "auto")
        tools, customs = (
            [tool for tool in body.get("tools") or () if tool.get("type") == kind]
            for kind in ("function", "custom")
        )
        if isinstance(choice, dict):
            tools = [tool for tool in tools if tool.get("name") == choice.get("name")] or tools
        may_call = bool(tools) and choice != "none"
        must_call = may_call and choice not in ("auto", "none")
        output: list[Item] = []
        for sign, said in self.script.pieces(answered, may_call=may_call, must_call=must_call):
            match sign:
                case "R" if not reasons(str(body.get("model"))):
                    pass
                case "R":
                    output.append({"type": "reasoning", **self.reasoning(body, said)})
                case "C":
                    output.append(_call(tools[answered % len(tools)], said))
                case "K":
                    call = {"name": customs[answered % len(customs)].get("name"), "input": said}
                    output.append(_answerable("custom_tool_call", call))
                case "W":
                    action = {"type": "search", "query": said}
                    search = {"status": "completed", "action": action}
                    output.append({"type": "web_search_call", **search})
                case _:
                    text = _text_for(body, said) if sign == "A" else said
                    part = {"type": "output_text", "text": text, "annotations": []}
                    content = [part] if sign != "N" else []
                    message = {"status": "completed", "role": "assistant", "content": content}
                    output.append({"type": "message", **message})
        return [{"id": f"{PREFIXES[one['type']]}_{secrets.token_hex(24)}", **one} for one in output]

    def reasoning(self, body: Item, words: str) -> Item:
        """Return the members of a reasoning item; its words are seen only in a summary."""
        is_summarised = (body.get("reasoning") or {}).get("summary")
        summary = [{"type": "summary_text", "text": words}] if is_summarised else []
        return {"summary": summary, BLOB: "gAAAA" + secrets.token_urlsafe(640)}

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        for number, event in enumerate(self.steps(answer)):
            yield sse({**event, "sequence_number": number})

    def steps(self, answer: Item) -> Iterator[Item]:
        """Yield the events of an answer, not yet numbered."""
        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(answer["output"]):
            opened = item | {name: EMPTY[name] for name in EMPTY.keys() & item.keys()}
            if "status" in item:
                opened["status"] = "in_progress"
            place = {"output_index": index}
            yield {"type": "response.output_item.added", **place, "item": opened}
            yield from _deltas(item, {**place, "item_id": item["id"]})
            yield {"type": "response.output_item.done", **place, "item": item}
        yield {"type": "response.completed", "response": answer}

    @override
    def error(self, refused: Refused) -> Item:
        kind = "invalid_request_error"
        error = {"message": refused.message, "type": kind, "param": refused.param}
        return {"error": error | {"code": refused.code}}


def _compared_with(body: Item) -> str:
    """Return the id of the response that the prompt shall be compared with; "" without one."""
    return str((body.get(_OPTIONS) or {}).get(_COMPARED) or "")


def _fingerprint(body: Item, reading: Reading) -> Fingerprint:
    text, is_compacted = body.get("text") or {}, any(map(_is_compaction, reading.items))
    settings = {
        "model_changed": body.get("model"),
        "prompt_cache_key_changed": body.get("prompt_cache_key"),
        "tools_changed": body.get("tools"),
        "text_format_changed": text.get("format"),
        "reasoning_effort_changed": (body.get("reasoning") or {}).get("effort"),
        "verbosity_changed": text.get("verbosity"),
        "context_compacted": is_compacted,
    }
    return Fingerprint(
        {reason: canonical(value) for reason, value in settings.items()},
        [canonical(body.get("instructions")), *(part.value for part in reading.parts)],
        {"service_tier_changed": canonical(body.get("service_tier"))},
    )


def _is_compaction(item: Item) -> bool:
    return kind_of(item) == "compaction"


def keep(kept: dict[Any, Any], key: object, value: object, most: int = ITEMS_MAX) -> None:
    """Add an entry; drop the oldest one above `most`."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def _call(tool: Item, city: str) -> Item:
    arguments = json.dumps(example(tool.get("parameters") or {}, city))
    return _answerable("function_call", {"name": tool.get("name", ""), "arguments": arguments})


def _answerable(kind: str, call: Item) -> Item:
    call_id = f"call_{secrets.token_hex(12)}"
    return {"type": kind, "status": "completed", **call, "call_id": call_id}


def _text_for(body: Item, answer: str) -> str:
    """Return the answer, in the form that the request asks for."""
    form = (body.get("text") or {}).get("format") or {}
    match form.get("type"):
        case "json_schema":
            return json.dumps(example(form.get("schema") or {}, CITIES[0]))
        case "json_object":
            return json.dumps({"answer": answer})
    return answer


def response_of(body: Item, output: list[Item], judgement: Judgement) -> Item:
    """Return a completed response; its tokens are estimated from bytes."""
    read = judgement.tokens
    thoughts = TOKENS_PER_THOUGHT * sum(item["type"] == "reasoning" for item in output)
    wrote = thoughts + tokens_of([item for item in output if item["type"] != "reasoning"])
    return {
        "id": f"resp_{secrets.token_hex(24)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": body.get("model", ""),
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": judgement.cached},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": thoughts},
            "total_tokens": read + wrote,
        },
    }


# The members that deltas bring.
EMPTY: Final[Item] = {"content": [], "summary": [], "arguments": "", "input": ""}


def _deltas(item: Item, place: Item) -> Iterator[Item]:
    """Yield the events between the first and the last one of an item."""
    match item["type"]:
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                stem, more = "response.reasoning_summary", {**place, "summary_index": index}
                yield {"type": f"{stem}_part.added", **more, "part": part | {"text": ""}}
                yield from _told(f"{stem}_text", more, "text", part["text"])
                yield {"type": f"{stem}_part.done", **more, "part": part}
            for index, part in enumerate(item.get("content") or ()):
                more = {**place, "content_index": index}
                yield from _told("response.reasoning_text", more, "text", part["text"])
        case "message":
            for index, part in enumerate(item["content"]):
                more = {**place, "content_index": index}
                stem = "response.content_part"
                yield {"type": f"{stem}.added", **more, "part": part | {"text": ""}}
                more["logprobs"] = []
                yield from _told("response.output_text", more, "text", part["text"])
                yield {"type": f"{stem}.done", **more, "part": part}
        case "function_call":
            more, stem = {**place, "name": item["name"]}, "response.function_call_arguments"
            yield from _told(stem, more, "arguments", item["arguments"])
        case "custom_tool_call":
            yield from _told("response.custom_tool_call_input", place, "input", item["input"])
        case kind:  # a hosted call
            for stage in ("in_progress", "searching", "completed"):
                yield {"type": f"response.{kind}.{stage}", **place}


def _told(stem: str, place: Item, member: str, text: str) -> Iterator[Item]:
    for word in pieces_of(text):
        yield {"type": f"{stem}.delta", **place, "delta": word}
    yield {"type": f"{stem}.done", **place, member: text}
