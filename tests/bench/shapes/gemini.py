"""Gemini: requests, contents and chunks in the form of real ones."""

from typing import Any

from tests.bench.shapes.dialect import (
    HOLE,
    Dialect,
    Item,
    blob,
    compact,
    digits,
    lines_of,
    numbered,
    stamped,
)

_MODEL = "gemini-3-pro-preview"
_SIGNATURE_CHARS = 1_200
_WORDS = " word %d and another"
_TOOLS = [
    {
        "functionDeclarations": [
            {
                "name": "read_file",
                "description": "Read a file of the workspace.",
                "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}},
            }
        ]
    }
]


def _user(*parts: Item) -> Item:
    return {"role": "user", "parts": list(parts)}


def _model(*parts: Item) -> Item:
    return {"role": "model", "parts": list(parts)}


def _signed(part: Item, signature: str) -> Item:
    return part | {"thoughtSignature": signature}


def _call(call_id: str, path: str) -> Item:
    return {"functionCall": {"name": "read_file", "args": {"path": path}, "id": call_id}}


def _result(call_id: str, text: str) -> Item:
    response = {"name": "read_file", "response": {"result": text}, "id": call_id}
    return {"functionResponse": response}


def _answer(this: str, parts: list[Item], reason: str = "STOP") -> Item:
    candidate: Item = {"content": {"parts": parts, "role": "model"}}
    candidate |= {"finishReason": reason} if reason else {}
    usage = {"promptTokenCount": 300, "candidatesTokenCount": 96, "thoughtsTokenCount": 64}
    usage |= {"cachedContentTokenCount": 128}
    return {
        "candidates": [candidate | {"index": 0}],
        "usageMetadata": usage,
        "modelVersion": _MODEL,
        "responseId": this,
    }


def _body(contents: list[Item], **more: Any) -> bytes:
    thinking = {"thinkingConfig": {"thinkingLevel": "high"}}
    return compact({"contents": contents, "tools": _TOOLS, "generationConfig": thinking} | more)


# A small exchange

_small_body = numbered(
    _body(
        [
            _user({"text": f"Ticket {HOLE}: which file sets the timeout?"}),
            _model({"text": "I shall look at the settings."}),
            _user({"text": "Please do."}),
            _model(
                _signed({"text": f"Step {HOLE}: I read the first file."}, blob("text", size=200)),
                _signed(_call(f"0d1e{HOLE}", "settings.py"), blob("small", size=280)),
            ),
            _user(_result(f"0d1e{HOLE}", f"TIMEOUT_S = {HOLE}")),
        ]
    )
)
_small_answer = numbered(
    compact(
        _answer(
            f"1a2b{HOLE}",
            [
                {"text": f"Step {HOLE}: I read the next file."},
                _signed(_call(f"1d2e{HOLE}", "timeouts.py"), blob("answer", size=1_180)),
            ],
        )
    )
)


# A conversation of many turns: a preamble and a signed call; then the call's result


def _first(seed: int) -> Item:
    return _user({"text": f"Conversation {seed}: read the files one by one, and sum them up."})


def _emitted(seed: int, number: int) -> list[Item]:
    # The first turn has no preamble.
    call = _call(digits(seed, number, count=16), f"src/part_{number}.py")
    text = f"Step {number}: I read the next file of the workspace."
    preamble = [{"text": text}] if number else []
    return [_model(*preamble, _signed(call, blob(seed, number, size=_SIGNATURE_CHARS)))]


def _turn_answer(seed: int, number: int) -> bytes:
    [content] = _emitted(seed, number)
    return compact(_answer(digits(seed, number, count=24), content["parts"]))


def _output(emitted: list[Item], text: str) -> Item:
    return _user(_result(emitted[-1]["parts"][-1]["functionCall"]["id"], text))


def _dropped(content: Item) -> Item:
    bare = [
        {name: value for name, value in part.items() if name != "thoughtSignature"}
        for part in content["parts"]
    ]
    return {"role": content["role"], "parts": bare}


def _seen(content: Item) -> list[str | None]:
    kinds = [next(iter(part)) for part in content["parts"]]
    signatures = [part["thoughtSignature"] for part in content["parts"] if len(part) > 1]
    return [" ".join([content["role"], *kinds]), "".join(signatures) or None]


# A stream


def _event(number: int, *parts: Item, reason: str = "") -> bytes:
    chunk = _answer(digits("stream", number, count=24), list(parts), reason)
    return b"data: %b\n\n" % compact(chunk)


def _stream_body(number: int) -> bytes:
    return _body([_user({"text": f"Tell story {number}."})])


def _opening(number: int) -> list[bytes]:
    thought = lines_of(300, "stream", number)
    return [_event(number, {"text": thought, "thought": True}), _event(number, {"text": "Once"})]


def _delta(number: int) -> bytes:
    return stamped(_event(number, {"text": _WORDS}))


def _closing(number: int, deltas: int) -> list[bytes]:
    bare = _signed({"text": ""}, blob("stream", number, size=_SIGNATURE_CHARS))
    return [_event(number, bare, reason="STOP")]


GEMINI = Dialect(
    name="gemini",
    path=f"/v1/models/{_MODEL}:streamGenerateContent?alt=sse",
    items="parts",
    items_a_turn=3,
    key="contents",
    body=_body,
    small_body=_small_body,
    small_answer=_small_answer,
    first=_first,
    emitted=_emitted,
    answer=_turn_answer,
    output=_output,
    dropped=_dropped,
    seen=_seen,
    stream_body=_stream_body,
    opening=_opening,
    delta=_delta,
    closing=_closing,
    ending=b'data: {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature"',
)
