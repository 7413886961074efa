"""Requests and responses of the Gemini API in these tests: contents, streams, refusals."""

from collections.abc import Mapping
from typing import Any

from tests.web.line import Answer, request
from tests.web.wire import END, as_json, chunk, head, stream_head, whole
from tests.web.world import World

Json = dict[str, Any]

MODEL = "gemini-3-flash-preview"
PATH = f"/v1beta/models/{MODEL}:generateContent"
CLOUD = f"/v1/projects/p/locations/global/publishers/google/models/{MODEL}:generateContent"
KEY = "x-goog-api-key: AIzaSyA-one-key"
ASK: Json = {"role": "user", "parts": [{"text": "What is the weather in Oslo?"}]}
CALL: Json = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}
SIGNED: Json = CALL | {"thoughtSignature": "EpwCCpkCAQw51sc+/w=="}
TEXT: Json = {"text": "It is seven degrees in Oslo, and rather cloudy."}
BARE: Json = {"text": "", "thoughtSignature": "EqgBCqUBAQw51sc="}
RESULT: Json = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "get_weather", "response": {"result": "7 degrees"}}}],
}
# History of a client that drops signatures, and the same with it.
LOST: list[Json] = [ASK, {"role": "model", "parts": [CALL]}, RESULT]
WHOLE: list[Json] = [ASK, {"role": "model", "parts": [SIGNED]}, RESULT]

_USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}


def _chunk(*parts: Json, reason: str = "") -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    candidate |= {"finishReason": reason} if reason else {}
    top = {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": MODEL}
    return top | {"responseId": "Wr1"}


def _chunks(parts: tuple[Json, ...]) -> list[Json]:
    """Return one chunk for each part."""
    last = len(parts) - 1
    return [_chunk(part, reason="STOP" if n == last else "") for n, part in enumerate(parts)]


def answer(*parts: Json) -> bytes:
    """Return a response with these parts."""
    return whole(as_json(_chunk(*parts, reason="STOP")))


def streamed(*parts: Json) -> bytes:
    """Return a response as server-sent events."""
    pieces = [b"data: " + as_json(one) + b"\r\n\r\n" for one in _chunks(parts)]
    return stream_head() + b"".join(map(chunk, pieces)) + END


def listed(*parts: Json) -> bytes:
    """Return a stream as one JSON array, which arrives element by element."""
    chunks = _chunks(parts)
    pieces = [b"[" + as_json(chunks[0]), *(b",\r\n" + as_json(one) for one in chunks[1:]), b"]"]
    start = head("Content-Type: application/json; charset=UTF-8", "Transfer-Encoding: chunked")
    return start + b"".join(map(chunk, pieces)) + END


def refusal(message: str) -> bytes:
    """Return a refusal with this text."""
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return whole(as_json({"error": error}), status="400 Bad Request")


async def send(
    w: World, *history: Mapping[str, object], path: str = PATH, key: str = KEY, **more: object
) -> Answer:
    """Send this history; `key` "": without a header that carries one."""
    headers = ("Content-Type: application/json", *([key] if key else []))
    return await w.ask(request("POST", path, *headers, body=as_json({"contents": history} | more)))


def contents(w: World, index: int = -1) -> list[Json]:
    """Return the contents that upstream received."""
    return list(w.sent(index)["contents"])
