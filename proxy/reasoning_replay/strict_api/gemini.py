"""
Gemini's API of the strict API, as strict about signatures as Google's.

A signature is next to what its reasoning led to: the first of parallel calls, or a text. Gemini 3
refuses a call of the current round without it, and any signature that it has not made. A stream
ends a text with an empty part that has the signature. Adjacent contents of the model are one.
"""

import base64
import re
import secrets
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from typing_extensions import override
from yarl import URL

from reasoning_replay.strict_api.dialect import (
    Dialect,
    Item,
    Reading,
    Refused,
    Rule,
    asked_at,
    canonical,
    joined,
    sse,
)
from reasoning_replay.strict_api.example_values import example
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.scenarios import pieces_of, tokens_of

SIGNATURE: Final = "thoughtSignature"
CALL: Final = "functionCall"
RESULT: Final = "functionResponse"
SIGNATURE_BYTES: Final = 64
METHODS: Final = ("generateContent", "streamGenerateContent")
# Earlier models check no signature, and their calls have no ids.
DEMANDS: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
SNAKE: Final = re.compile(r"_([a-z])")
STANDARD: Final = str.maketrans("-_", "+/")
# Documented values that ask the API not to check, as they are and as SDKs encode their bytes.
UNCHECKED: Final = frozenset(
    value
    for word in (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
    for value in (word.decode(), base64.b64encode(word).decode())
)

# The name of a function, and the number of its content, counted from 1.
MISSING: Final = Rule(
    "Function call is missing a thought_signature in functionCall parts. This is required for"
    " tools to work correctly, and missing thought_signature may lead to degraded model"
    " performance. Additional data, function call `default_api:{}` , position {}. Please refer to"
    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
    "github.com/lbjlaq/Antigravity-Manager/issues/938",
    "2026-01",
)
CORRUPTED: Final = Rule(
    "Corrupted thought signature.",
    "github.com/google-gemini/gemini-cli/issues/13467",
    "2025-11",
)
UNANSWERED: Final = Rule(
    "Please ensure that the number of function response parts is equal to the number of function"
    " call parts of the function call turn.",
    "github.com/google-gemini/gemini-cli/issues/16415",
    "2026-01",
)


class Gemini(Dialect):
    """A Gemini API that has emitted nothing yet."""

    name = "gemini"
    path = "/models"
    history = "contents"

    @override
    def members_of(self, url: URL) -> Item | None:
        # On Google Cloud, a project and a location stand between the version and the model.
        version, _, rest = url.path.rpartition("/models/")
        model, _, method = rest.partition(":")
        if method not in METHODS or not version.startswith("/v1"):
            return None
        how = url.query.get("alt", "array") if method == METHODS[1] else ""
        return {"model": model, "stream": how}

    @override
    def read(self, body: Item) -> Reading:
        contents = joined(body["contents"], "model", "parts", _members)
        parts = [
            part
            for at, content in enumerate(contents)
            for part in _parts(content, f"contents[{at}]")
        ]
        top = _camel(body)
        frame = canonical([top.get("systemInstruction"), top.get("tools")])
        return Reading(frame, contents, parts)

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        contents = reading.items
        start = _question(contents)
        demands = DEMANDS.search(str(body.get("model"))) is not None
        for index, content in enumerate(contents if demands else ()):
            parts = _members(content)
            signatures = map(_signature, parts)
            if any(one and self.ledger.by_name(one) is None for one in signatures):
                yield CORRUPTED()
            call = next((part for part in parts if CALL in part), None)
            if call is None or index < start:
                continue
            if not call.get(SIGNATURE):
                yield MISSING(call[CALL].get("name"), index + 1)
        for content, following in zip(contents, [*contents[1:], {}], strict=True):
            calls = sum(CALL in part for part in _members(content))
            if calls and calls != sum(RESULT in part for part in _members(following)):
                yield UNANSWERED()

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        since = reading.items[_question(reading.items) + 1 :]
        answered = sum(RESULT in part for content in since for part in _members(content))
        top = _camel(body)
        tools = [
            _camel(one)
            for tool in top.get("tools") or ()
            for one in _camel(tool).get("functionDeclarations") or ()
        ]
        config = _camel(_camel(top.get("toolConfig")).get("functionCallingConfig"))
        may_call = bool(tools) and config.get("mode") != "NONE"
        thinking = _camel(_camel(top.get("generationConfig")).get("thinkingConfig"))
        has_ids = DEMANDS.search(str(body.get("model"))) is not None
        parts: list[Item] = []
        signed: Item = {}
        thoughts = 0
        pieces = self.script.pieces(answered, may_call=may_call)
        for sign, words in pieces:
            if sign == "R":
                if thinking.get("thinkingBudget") == 0:
                    continue
                signed = {
                    SIGNATURE: base64.b64encode(secrets.token_bytes(SIGNATURE_BYTES)).decode()
                }
                thoughts += tokens_of(words)
                if thinking.get("includeThoughts"):
                    parts.append({"text": words, "thought": True})
                continue
            made: Item = {"text": words}
            if sign == "C":
                call_id = {"id": secrets.token_hex(4)} if has_ids else {}
                made = {CALL: {**call_id, **_call(tools[answered % len(tools)], words)}}
            # Next to a call, a text is not signed.
            if sign == "C" or not any(one.sign == "C" for one in pieces):
                made |= signed
                signed = {}
            parts.append(made)
        made_tokens = tokens_of(parts)
        answer = {
            "candidates": [
                {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": judgement.tokens,
                "cachedContentTokenCount": judgement.cached,
                "candidatesTokenCount": made_tokens,
                "thoughtsTokenCount": thoughts,
                "totalTokenCount": judgement.tokens + made_tokens + thoughts,
            },
            "modelVersion": body.get("model", ""),
            "responseId": secrets.token_urlsafe(16),
        }
        return answer, list(_parts(answer["candidates"][0]["content"], "content"))

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        (candidate,) = answer["candidates"]
        chunks = [one for part in candidate["content"]["parts"] for one in _chunks(part)]
        for at, chunk in enumerate(chunks, 1):
            content = {"content": {"parts": [chunk], "role": "model"}}
            said = {**candidate, **content} if at == len(chunks) else {**content, "index": 0}
            yield sse({**answer, "candidates": [said]})

    @override
    def error(self, refused: Refused) -> Item:
        status = "NOT_FOUND" if refused.status == HTTPStatus.NOT_FOUND else "INVALID_ARGUMENT"
        return {"error": {"code": refused.status, "message": refused.message, "status": status}}


def _parts(content: Item, path: str) -> Iterator[Part]:
    """Yield the parts of a content: each signature before what its reasoning led to."""
    if content.get("role") != "model":
        for at, part in enumerate(_members(content)):
            yield Part("given", f"{path}.parts[{at}]", canonical(["user", part]))
        return
    for at, part in _whole(_members(content)):
        place = f"{path}.parts[{at}]"
        if signature := _signature(part):
            yield Part("reasoning", place, signature)
        if CALL in part:
            call = part[CALL]
            names = (call["id"],) if call.get("id") else ()
            yield Part("said", place, canonical([call.get("name"), call.get("args")]), names)
        elif part.get("text") and not part.get("thought"):
            yield Part("said", place, canonical(["text", part["text"]]))


def _whole(parts: Sequence[Item]) -> list[tuple[int, Item]]:
    """
    Return parts with their indexes; a text that was streamed in pieces is one.

    A summary of thoughts need not come back, so it is left out.
    """
    made: list[tuple[int, Item]] = []
    for at, part in enumerate(parts):
        if part.get("thought") and not _signature(part):
            continue
        start, before = made[-1] if made else (0, {})
        if "text" in part and "text" in before and not _signature(before):
            made[-1] = start, {**before, **part, "text": before["text"] + part["text"]}
        else:
            made.append((at, part))
    return made


def _signature(part: Item) -> str:
    """
    Return the signature of a part; "" if it has none, or one that asks not to be checked.

    It is bytes, so either alphabet of Base64 is the same; Google's SDK for Python answers with the
    other one.
    """
    given = str(part.get(SIGNATURE) or "")
    return "" if given in UNCHECKED else given.translate(STANDARD).rstrip("=")


def _chunks(part: Item) -> Iterator[Item]:
    """Yield a part as a stream has it: a text word by word, and its signature at the end."""
    if "text" not in part:
        yield part
        return
    rest = {name: part[name] for name in part if name not in ("text", SIGNATURE)}
    for word in pieces_of(part["text"]):
        yield {"text": word, **rest}
    if SIGNATURE in part:
        yield {"text": "", SIGNATURE: part[SIGNATURE]}


def _question(contents: Sequence[Item]) -> int:
    """Return the index of the last question; results of tools are none."""
    return asked_at(
        contents,
        lambda one: one.get("role") != "model" and any(RESULT not in it for it in _members(one)),
    )


def _members(content: Item) -> list[Item]:
    parts = content.get("parts")
    found = parts if isinstance(parts, list) else []
    return [_camel(part) for part in found if isinstance(part, dict)]


def _camel(given: object) -> Item:
    """Return an object with its names in the API's spelling; it reads `function_call` as well."""
    if not isinstance(given, dict):
        return {}
    return {SNAKE.sub(lambda found: found[1].upper(), name): given[name] for name in given}


def _call(function: Item, city: str) -> Item:
    schema = function.get("parametersJsonSchema") or function.get("parameters") or {}
    return {"name": function.get("name", ""), "args": example(schema, city)}
