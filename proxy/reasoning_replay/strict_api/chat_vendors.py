"""
Vendors of Chat Completions: where their answers carry reasoning, and what they refuse.

The model tells the vendor. DeepSeek is the one of any other model: the strictest about text.
"""

import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from reasoning_replay.strict_api.dialect import Item, Refused, Rule, canonical
from reasoning_replay.strict_api.gemini import CORRUPTED, UNCHECKED
from reasoning_replay.strict_api.gemini import MISSING as UNSIGNED
from reasoning_replay.strict_api.scenarios import Piece

REASONING: Final = "reasoning_content"
PLAIN: Final = "reasoning"
DETAILS: Final = "reasoning_details"
BLOCKS: Final = "thinking_blocks"
EXTRA: Final = "extra_content"
THINKING: Final = "thinking"
SIGNATURE_BYTES: Final = 180

# Roles that Google's own form has no contents for.
_FRAME: Final = ("system", "developer")
_GOOGLE: Final = "Google AI Studio"
NOT_BASE64: Final = Rule(
    "Invalid value at 'contents[{}].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding"
    ' failed for "{}"',
    "github.com/QuantumNous/new-api/issues/2257",
    "2026-11",
)
DETAILS_MISSING: Final = Rule(
    "Gemini models require OpenRouter reasoning details to be preserved in each request. Please"
    " refer to our docs: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens"
    "#preserving-reasoning-blocks. Upstream error: {}\n",
    "github.com/open-webui/open-webui/issues/19328",
    "2026-11",
    param=_GOOGLE,
)
DETAILS_CORRUPTED: Final = Rule(
    "{}\n", "github.com/open-webui/open-webui/issues/27467", "2026-11", param=_GOOGLE
)
DETAILS_DAMAGED: Final = Rule(
    "{}", "github.com/synthetic-sciences/openscience/issues/167", "2026-11", param="Anthropic"
)
# An error inside a 200.
FOREIGN_ID: Final = Rule(
    "Provider returned error",
    "github.com/UKGovernmentBEIS/inspect_ai/issues/3986",
    "2026-11",
    status=200,
)
UNKNOWN_AT_GROQ: Final = Rule(
    "'messages.{0}' : for 'role:assistant' the following must be satisfied"
    "[('messages.{0}' : property '{1}' is unsupported)]",
    "github.com/vellum-ai/vellum/issues/42635",
    "2026-11",
)
UNKNOWN_AT_CEREBRAS: Final = Rule(
    "messages.{0}.assistant.{1}: property 'messages.{0}.assistant.{1}' is unsupported",
    "github.com/QwenLM/qwen-code/issues/11045",
    "2026-11",
    code="wrong_api_format",
    param="validation_error",
)


class Vendor(NamedTuple):
    """
    One vendor's form of Chat Completions.

    Attributes:
        models: Pattern of the names of its models.
        member: Where an answer carries reasoning: a text of the message, OpenRouter's details,
            LiteLLM's blocks, or Google's signatures on calls and messages.
        call_id: Returns the id of a call, from the name of its function and its index.
        unknown: How members are refused that other vendors have; None accepts them.
        always_signs: Whether calls are signed even if the model did not think (Gemini 3).
        comments: Comments that its streams start with (recorded).
    """

    models: re.Pattern[str]
    member: str = REASONING
    call_id: Callable[[str, int], str] = lambda _, at: f"call_{at:02}_{secrets.token_hex(11)}"
    unknown: Rule | None = None
    always_signs: bool = False
    comments: tuple[str, ...] = ()


VENDORS: Final[Mapping[str, Vendor]] = {
    "kimi": Vendor(re.compile("kimi"), call_id=lambda name, at: f"functions.{name}:{at}"),
    "gemini": Vendor(
        re.compile("^gemini-"),
        member=EXTRA,
        call_id=lambda *_: f"function-call-{secrets.randbits(60)}",
        always_signs=True,
    ),
    "groq": Vendor(
        re.compile("^openai/gpt-oss"),
        member=PLAIN,
        call_id=lambda *_: f"fc_{secrets.token_hex(16)}",
        unknown=UNKNOWN_AT_GROQ,
    ),
    "cerebras": Vendor(
        re.compile("^zai-glm"),
        member=PLAIN,
        call_id=lambda *_: f"{secrets.token_hex(5)[:9]}",
        unknown=UNKNOWN_AT_CEREBRAS,
    ),
    "openrouter": Vendor(
        re.compile("^(?:google|anthropic|openai)/"),
        member=DETAILS,
        call_id=lambda name, _: f"tool_{name}_{secrets.token_hex(10)}",
        always_signs=True,
        comments=("OPENROUTER PROCESSING",) * 2,
    ),
    # LiteLLM in front of Claude: without its blocks, it switches thinking off.
    "litellm": Vendor(re.compile("^claude-"), member=BLOCKS),
    "deepseek": Vendor(re.compile(""), comments=("keep-alive",)),
}
# What vendors with a text of their own refuse.
_UNKNOWN: Final = (REASONING, DETAILS, EXTRA, "thought_signature")


def vendor_of(model: object) -> str:
    """Return the name of the vendor of a model."""
    return next(name for name, one in VENDORS.items() if one.models.search(str(model)))


def thought_in(given: Item, member: str) -> str:
    """Return the reasoning of a message or a call in one spelling; "" without any."""
    value = given.get(member)
    if not value or _is_unchecked(value):
        return ""
    if isinstance(value, list):  # LiteLLM leaves the index out of what it sends on
        value = [{k: v for k, v in one.items() if k != "index"} for one in joined(value)]
    return canonical(value)


def joined(entries: Sequence[Item]) -> list[Item]:
    """
    Return a list with the fragments of one index and type as one entry.

    Texts are appended; any other member is the last one that is not null.
    """
    made: dict[tuple[object, object], Item] = {}
    for fragment in entries:
        entry = made.setdefault((fragment.get("index"), fragment.get("type")), {})
        for name, value in fragment.items():
            appends = name in {"text", "summary", "data", "thinking"} and name in entry
            if value is not None:
                entry[name] = entry[name] + value if appends else value
    return list(made.values())


# Answers...


def with_reasoning(name: str, model: str, made: Item, pieces: Sequence[Piece]) -> Item:
    """Return the message of an answer with its reasoning, as its vendor writes it."""
    vendor, calls = VENDORS[name], made.get("tool_calls") or []
    thought = "\n\n".join(words for sign, words in pieces if sign == "R")
    is_signed = bool(thought) or (vendor.always_signs and bool(calls))
    signature = base64.b64encode(secrets.token_bytes(SIGNATURE_BYTES) + b"\xfb\xff").decode()
    match vendor.member:
        case "reasoning_content":
            return made | {REASONING: thought}  # "" means: without a thought
        case "reasoning":
            return made | ({PLAIN: thought} if thought else {})
        case "reasoning_details":
            details = _details(model, thought, signature if is_signed else "", calls)
            return made | {PLAIN: thought or None} | ({DETAILS: details} if details else {})
        case "thinking_blocks" if thought:
            blocks = [{"type": THINKING, THINKING: thought, "signature": signature}]
            fields = {"citations": None, BLOCKS: blocks}
            return made | {REASONING: thought, BLOCKS: blocks, "provider_specific_fields": fields}
        case "extra_content" if is_signed:
            (calls[0] if calls else made)[EXTRA] = {"google": {"thought_signature": signature}}
    return made


def _details(
    model: str, thought: str, signature: str, calls: Sequence[Item]
) -> list[dict[str, Any]]:
    """
    Return the details of an answer, which differ by the vendor of the model.

    Claude signs the text itself. Gemini's entry is encrypted, and names the first call. That of
    OpenAI has an id of its own. Text and encrypted entry may have one index (recorded).
    """
    vendor = model.partition("/")[0]
    text: Item = {"type": "reasoning.text", "text": thought, "index": 0}
    blob: Item = {"type": "reasoning.encrypted", "data": signature, "index": 0}
    if vendor == "anthropic":
        return [text | {"format": "anthropic-claude-v1", "signature": signature}] if thought else []
    if vendor == "openai":
        form = {"format": "openai-responses-v1"}
        summary = {"type": "reasoning.summary", "summary": thought, "index": 0, **form}
        own = {"id": f"rs_{signature[:24].lower()}", "index": 1, **form}
        return [summary, blob | own] if thought else []
    form = {"format": "google-gemini-v1"}
    made = [text | form] if thought else []
    return [*made, blob | form | {"id": calls[0]["id"]}] if calls and signature else made


def deltas(name: str, made: Item, cut: Callable[[str], Iterator[str]]) -> Iterator[Item]:
    """Yield the deltas of a message: reasoning, text and calls."""
    # Two repeat the role in each delta (recorded).
    role = {"role": "assistant"} if VENDORS[name].member in {DETAILS, EXTRA} else {}
    yield from _reasoning_deltas(VENDORS[name].member, made, cut)
    calls = made.get("tool_calls") or ()
    for call in calls if name == "gemini" else ():  # whole, each with its signature
        whole = {one: call[one] for one in call if one != "index"}
        yield {**role, "tool_calls": [whole]}
    words = [*cut(made["content"])]
    for at, word in enumerate(words, 1):
        ends = at == len(words) and EXTRA in made
        yield {"content": word, **role} | ({EXTRA: made[EXTRA]} if ends else {})
    for call in calls if name != "gemini" else ():
        function = call["function"]
        yield {**role, "tool_calls": [call | {"function": function | {"arguments": ""}}]}
        for word in cut(function["arguments"]):
            rest = {"index": call["index"], "function": {"arguments": word}}
            yield {**role, "tool_calls": [rest]}


def _reasoning_deltas(
    member: str, made: Item, cut: Callable[[str], Iterator[str]]
) -> Iterator[Item]:
    match member:
        case "reasoning_content" | "reasoning":
            begun: Item = {member: ""} if member in made else {}
            yield {"role": "assistant", "content": "", **begun}
            for word in cut(made.get(member) or ""):
                yield {member: word}
        case "reasoning_details":
            for entry in made.get(member) or ():
                yield from _detail_deltas(entry, cut)
        case "thinking_blocks":
            for block in made.get(member) or ():
                texts = [{THINKING: word} for word in cut(block[THINKING])]
                for part in [*texts, {THINKING: "", "signature": block["signature"]}]:
                    twice = {BLOCKS: [{"type": THINKING, **part, "index": 0}]}
                    text = {REASONING: part[THINKING], "content": ""}
                    yield {**text, **twice, "provider_specific_fields": twice}


def _detail_deltas(entry: Item, cut: Callable[[str], Iterator[str]]) -> Iterator[Item]:
    """Yield fragments of one entry: they share index and type; a signature comes alone."""
    common = {"content": "", "role": "assistant"}
    member = next((one for one in ("text", "summary") if one in entry), "")
    rest = {name: entry[name] for name in entry if name not in {member, "signature"}}
    for word in cut(entry.get(member) or ""):
        yield {**common, PLAIN: word, DETAILS: [{**rest, member: word}]}
    if "data" in entry or "signature" in entry:
        end = {name: entry[name] for name in entry if name != member}
        yield {**common, PLAIN: None, DETAILS: [end]}


# Refusals...


def refusals(name: str, body: Item, start: int, wrong: set[int]) -> Iterator[Refused]:
    """
    Yield what a vendor with a form of its own refuses.

    Args:
        name: The vendor.
        body: The request.
        start: The index of the last question.
        wrong: The indexes of messages whose reasoning was not emitted for them.
    """
    messages: list[Item] = body["messages"]
    said = [(at, one) for at, one in enumerate(messages) if one.get("role") == "assistant"]
    current = [(at, one) for at, one in said if at > start]
    if (unknown := VENDORS[name].unknown) is not None:
        for at, one in said:
            for member in _UNKNOWN:
                if one.get(member):
                    yield unknown(at, member)
    elif name == "gemini":
        for at, one in current:
            if one.get("tool_calls"):
                yield from _of_signature(messages, at, is_wrong=at in wrong)
    elif name == "openrouter":
        for at, one in current:
            yield from _of_details(body, at, one, is_wrong=at in wrong)


def _of_signature(messages: Sequence[Item], at: int, *, is_wrong: bool) -> Iterator[Refused]:
    """The first call of each step has its signature, byte for byte."""
    extra = messages[at]["tool_calls"][0].get(EXTRA) or {}
    signature = (extra.get("google") or {}).get("thought_signature")
    if not signature:
        yield _unsigned(messages, at)
    elif signature not in UNCHECKED and not _is_base64(signature):
        yield NOT_BASE64(_position(messages, at) - 1, signature)
    elif is_wrong:
        yield CORRUPTED()


def _of_details(body: Item, at: int, message: Item, *, is_wrong: bool) -> Iterator[Refused]:
    """Gemini demands its details, Claude refuses damaged ones, and other models accept all."""
    vendor, calls = str(body.get("model")).partition("/")[0], message.get("tool_calls") or ()
    if vendor == "anthropic" and is_wrong:
        said = f"messages.{at}.content.0: Invalid `signature` in `thinking` block"
        error = {"type": "invalid_request_error", "message": said}
        yield DETAILS_DAMAGED(json.dumps({"type": "error", "error": error}))
    if vendor == "google":
        entries = message.get(DETAILS) or ()
        blobs = [one for one in entries if one.get("type") == "reasoning.encrypted"]
        if {one.get("id") for one in blobs} - {call.get("id") for call in calls}:
            yield FOREIGN_ID()
        if calls and not blobs:
            told = _google_error(_unsigned(body["messages"], at).message)
            yield DETAILS_MISSING(json.dumps(told, indent=2))
        elif is_wrong:
            yield DETAILS_CORRUPTED(json.dumps(_google_error(CORRUPTED.words), indent=2))


def error(name: str, refused: Refused) -> Item | list[Item]:
    """Return the body of a refusal, as the vendor has it."""
    words, kind = refused.message, "invalid_request_error"
    match name:
        case "gemini":
            return [_google_error(words)]
        case "openrouter" if refused.source.startswith(FOREIGN_ID.source):
            return {"error": {"code": 400, "message": words}}
        case "openrouter" if refused.param:
            more = {"raw": words, "provider_name": refused.param}
            told = {"message": "Provider returned error", "code": 400, "metadata": more}
            return {"error": told, "user_id": "user_of_the_strict_api"}
        case "cerebras" if refused.code:
            return {"message": words, "type": kind, "param": refused.param, "code": refused.code}
    return {"error": {"message": words, "type": kind, "param": None, "code": kind}}


def _unsigned(messages: Sequence[Item], at: int) -> Refused:
    function = messages[at]["tool_calls"][0].get("function") or {}
    return UNSIGNED(function.get("name"), _position(messages, at))


def _position(messages: Sequence[Item], at: int) -> int:
    """Return the position of a message in Gemini's own form."""
    return 1 + sum(one.get("role") not in _FRAME for one in messages[:at])


def _google_error(message: str) -> Item:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _is_unchecked(value: object) -> bool:
    google = value.get("google") if isinstance(value, dict) else None
    return isinstance(google, dict) and google.get("thought_signature") in UNCHECKED


def _is_base64(value: object) -> bool:
    try:
        base64.b64decode(str(value).encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True
