"""
Seeds: the valid inputs that fuzzing starts with.

A few are built here. The recordings outside the
repository are added if they are available, and read when they are needed.
"""

import gzip
import json
import zlib
from collections.abc import Iterator

import brotli
import zstandard
from reasoning_replay.strict_api import Script
from reasoning_replay.strict_api import responses_words as errors
from reasoning_replay.strict_api.responses import Responses

from tests.core.dialects.anthropic import streams as anthropic
from tests.core.dialects.chat import streams as chat
from tests.core.streams import stream_of
from tests.core.world import MODEL, Item, answer, call, message, reasoning, search, user
from tests.fuzz.inputs import write
from tests.recordings import tape
from tests.recordings.responses import Responses as Recorded
from tests.recordings.wire import events, root

CODINGS = ("gzip", "deflate", "br", "zstd", "identity", "x-gzip", "gzip, br")
# Larger recorded documents are left out: they cover nothing new.
RECORDED_MAX_BYTES = 24 * 1024

_RS = reasoning("1", summary=[{"type": "summary_text", "text": "Look it up."}])
_RS_2 = reasoning("2")
_OPEN = reasoning("3", content=[{"type": "reasoning_text", "text": "Hm."}], encrypted_content=None)
_SAID = message("4", "It is sunny, 21 \N{DEGREE SIGN}C.", phase="final_answer")
_CALL, _CALL_2 = call("5"), call("6")
_CUSTOM = call("7", tool="shell", call_id="call_0", type="custom_tool_call", input="ls -l")
_SEARCH = search("8")

_OUTPUTS: tuple[list[Item], ...] = (
    [_RS, _CALL],
    [_RS, _CALL, _CALL_2],
    [_RS, _RS_2, _CALL],
    [_RS, _SEARCH, _RS_2, _SAID],
    [_RS, _SAID],
    [_OPEN, _CUSTOM],
    [_CUSTOM, _RS, _CALL],
    [_SAID],
    [_RS],
)
_WORDS = (
    "The encrypted content gAAA...0aa= could not be verified. Reason: item_id did not match",
    f"The encrypted content for item {_RS['id']} could not be verified.",
    "Encrypted content is not supported with this model.",
    "Reasoning input items can only be provided to a reasoning or computer use model.",
    "Missing `reasoning_content`",
    "Invalid 'input[1].id': 'x'. Expected an ID that begins with 'fc'.",
    f"No tool output found for function call {_CALL['call_id']}.",
    "No tool call found for function call output with call_id call_1.",
    "Unknown parameter: 'input[1].status'.",
    "Something about an input[2] item.",
)
_CHAT_CALLS = [
    chat.call("weather", '{"q":1}', 0, "call_8hJd02kQpZ71"),
    chat.call("weather", '{"q":2}', 1, ""),
]
_SIGNED = {"extra_content": {"google": {"thought_signature": "Eg=="}}}


def answers() -> Iterator[bytes]:
    """Yield whole JSON responses."""
    for output in _OUTPUTS:
        yield write([answer(output, "resp_1")])
    for exchange in _recorded("oracle", "plain"):
        if not exchange.content_type.startswith("text/event-stream"):
            yield write([exchange.answer])


def streams() -> Iterator[bytes]:
    """Yield streamed responses."""
    for output in _OUTPUTS:
        yield write([stream_of(output)])
    for exchange in _recorded("stream"):
        if exchange.content_type.startswith("text/event-stream"):
            yield write([exchange.answer])


def messages() -> Iterator[bytes]:
    """Yield the messages of an upstream on a WebSocket."""
    for output in _OUTPUTS:
        yield write(json.dumps(event).encode() for event in events(stream_of(output)))


def chat_streams() -> Iterator[bytes]:
    """Yield streamed responses of Chat Completions."""
    details = [chat.details("text", text="a")]
    yield write([chat.stream({"reasoning_content": "Hm \\u00e9"}, {"content": "Hi"})])
    yield write([chat.stream({"reasoning_details": details}, {"tool_calls": _CHAT_CALLS})])
    yield write([chat.stream({"tool_calls": [_CHAT_CALLS[0] | _SIGNED]})])
    yield from _recorded_streams("chat")


def messages_streams() -> Iterator[bytes]:
    """Yield streamed responses of Anthropic Messages."""
    said, call = anthropic.text("Hi \N{DEGREE SIGN}"), anthropic.call("weather", city="Paris")
    yield write([anthropic.stream(anthropic.THOUGHT, anthropic.REDACTED, said, call)])
    yield write([anthropic.stream(anthropic.THOUGHT, call, reason="max_tokens")])
    yield from _recorded_streams("messages")


def documents() -> Iterator[bytes]:
    """Yield requests, and other documents with all types of values."""
    first = b'{"a":1.0e+2,"\\u0062":[null,true,"\\ud83d\\ude00",{}],"":{"c":[ ]} , "d":-0}'
    yield write([first])
    yield write([_request("Hi")])
    for output in _OUTPUTS:
        yield write([_request([user("Weather in Paris?"), *output])])
    for exchange in _recorded("oracle", "dropped", "stateful"):
        yield write([exchange.request])


def refusals() -> Iterator[bytes]:
    """Yield the bodies of errors."""
    for refusal in (
        errors.MISSING(_CALL["id"], "function_call", _RS["id"]),
        errors.UNFOLLOWED(_RS["id"]),
        errors.DUPLICATE(_CALL["id"]),
        errors.NOT_FOUND(_RS["id"]),
    ):
        yield write([json.dumps(Responses(Script()).error(refusal)).encode()])
    for text in _WORDS:
        yield write([json.dumps({"detail": [{"error": {"message": text}}]}).encode()])
    for exchange in _recorded("error"):
        yield write([exchange.answer])


def headers() -> Iterator[bytes]:
    """Yield the headers of requests, line by line."""
    # {"alg":"none"} . {"iss":"i","tid":"t","oid":7} . x
    token = b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJpIiwidGlkIjoidCIsIm9pZCI6N30.eA"
    yield write([b"authorization: Bearer " + token + b"\nx-tenant: a\nsession_id: s"])
    yield write([b"api-key: k\nx-a: b\nconnection: x-tenant, close\nx-tenant: a"])
    yield write([b"Authorization: Bearer k\nauthorization: Bearer l\nx-a: b\nx-a: c"])
    yield write([b"x-api-key: k\nopenai-organization: o\nopenai-project: p"])


def encoded() -> Iterator[bytes]:
    """Yield bodies in several codings, each with the name of every coding (CODINGS)."""
    plain = stream_of(_OUTPUTS[0])
    bare = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bodies = (
        gzip.compress(plain, mtime=0),
        gzip.compress(plain, mtime=0) * 2,
        zlib.compress(plain),
        bare.compress(plain) + bare.flush(),
        brotli.compress(plain),
        zstandard.compress(plain),
        gzip.compress(bytes(1 << 20), mtime=0),
        plain,
    )
    for number in range(len(CODINGS)):
        for body in bodies:
            yield write([], bytes([number])) + body


def _request(given: object) -> bytes:
    top = {"model": MODEL, "input": given, "store": False, "include": None}
    return json.dumps(top, indent=1).encode()


def _recorded(*kinds: str) -> Iterator[tape.Exchange]:
    for kind in kinds:
        for recording in tape.load(Recorded(), kind):
            for exchange in recording.exchanges:
                is_small = len(exchange.answer) + len(exchange.request) <= RECORDED_MAX_BYTES
                if is_small and not exchange.encoding:
                    yield exchange


def _recorded_streams(dialect: str) -> Iterator[bytes]:
    found = root()
    if found is None:
        return
    for path in sorted((found / dialect / "oracle").glob("*/*.response.sse")):
        if path.stat().st_size <= RECORDED_MAX_BYTES:
            yield write([path.read_bytes()])
