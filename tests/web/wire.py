"""Messages between upstream and clients in these tests: items, responses, streams, errors."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Item = dict[str, Any]

ASK: Item = {"role": "user", "content": "What is the weather in Oslo?"}
NEXT: Item = {"role": "user", "content": "And tomorrow?"}
RS: Item = {
    "id": "rs_0c1d2e3f4a5b60718293a4b5",
    "type": "reasoning",
    "summary": [],
    "encrypted_content": "gAAAAB-first-blob==",
}
RS_2: Item = RS | {"id": "rs_9f8e7d6c5b4a39281706f5e4", "encrypted_content": "gAAAAB-second-blob=="}
CALL: Item = {
    "id": "fc_0c1d2e3f4a5b60718293a4b6",
    "type": "function_call",
    "call_id": "call_Zk3mQ9xT7bLw2RsV",
    "name": "get_weather",
    "arguments": '{"city":"Oslo"}',
}
RESULT: Item = {"type": "function_call_output", "call_id": CALL["call_id"], "output": "7 degrees"}
MESSAGE: Item = {
    "id": "msg_0c1d2e3f4a5b60718293a4b7",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "7 degrees in Oslo.", "annotations": []}],
}

# History of a client that drops reasoning.
LOST = [ASK, CALL, RESULT]

END = b"0\r\n\r\n"
PAIRING = (
    f"Item '{CALL['id']}' of type 'function_call' was provided without its required 'reasoning' "
    f"item: '{RS['id']}'."
)


def as_json(value: object) -> bytes:
    """Return JSON without spaces, as the SDKs write it."""
    return json.dumps(value, separators=(",", ":")).encode()


def head(*headers: str, status: str = "200 OK") -> bytes:
    """Return the head of a response, with these headers and no other."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


def whole(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return a response with its length; JSON unless headers say otherwise."""
    given = headers or ("Content-Type: application/json",)
    return head(*given, f"Content-Length: {len(body)}", status=status) + body


def stream_head(*headers: str) -> bytes:
    """Return the head of an event stream."""
    kind = "Content-Type: text/event-stream; charset=utf-8"
    return head(kind, "Transfer-Encoding: chunked", *headers)


def chunk(data: bytes) -> bytes:
    """Frame one chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def response(
    *items: Mapping[str, object], rid: str = "resp_0c1d2e3f4a5b6071", **more: object
) -> Item:
    """Return a response object."""
    fixed = {"id": rid, "object": "response", "model": "gpt-5.4", "status": "completed"}
    return fixed | {"output": list(items)} | more


def events(*items: Mapping[str, object], rid: str = "resp_0c1d2e3f4a5b6071") -> list[bytes]:
    """Return the events of a streamed response: the start, two for each item, the end."""
    found: list[tuple[str, Item]] = [
        ("response.created", {"response": response(rid=rid, status="in_progress")})
    ]
    for index, item in enumerate(items):
        at = {"output_index": index}
        found.append(("response.output_item.added", at | {"item": {**item, "status": "x"}}))
        found.append(("response.output_item.done", at | {"item": dict(item)}))
    found.append(("response.completed", {"response": response(rid=rid)}))
    return [
        b"event: %s\ndata: %s\n\n"
        % (kind.encode(), as_json({"type": kind, "sequence_number": number} | data))
        for number, (kind, data) in enumerate(found)
    ]


def stream(pieces: Sequence[bytes]) -> bytes:
    """Return a complete event stream, one chunk for each piece."""
    return stream_head() + b"".join(map(chunk, pieces)) + END


def error(message: str, param: str | None = "input", status: str = "400 Bad Request") -> bytes:
    """Return a refusal of the API."""
    fault = {
        "message": message,
        "type": "invalid_request_error",
        "param": param,
        "code": None,
    }
    return whole(as_json({"error": fault}), status=status)
