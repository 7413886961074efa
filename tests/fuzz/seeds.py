"""
Seeds: the valid inputs that fuzzing starts with.

A few are built here, in the shapes of the stand-in's responses. The recordings outside the
repository are added if they are available, and read when they are needed.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import brotli
import msgspec
import zstandard
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.turns import records_of
from reasoning_replay.core.wire.content_coding import decode

from tests.fuzz.inputs import write, write_records
from tests.recordings.responses import tape
from tests.standin import refusals
from tests.standin.events import Telling, frame, tell
from tests.standin.shapes import (
    Answer,
    CustomToolCall,
    FunctionCall,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    ReasoningOptions,
    ReasoningText,
    SearchAction,
    SummaryText,
    WebSearchCall,
)

__all__ = [
    "CODINGS",
    "answers",
    "conversations",
    "documents",
    "encoded",
    "headers",
    "messages",
    "refused",
    "rows",
    "sockets",
    "streams",
]

CODINGS = ("gzip", "deflate", "br", "zstd", "identity", "x-gzip", "gzip, br")
MODEL = "gpt-5.4"
# Larger recorded documents are left out: they cover nothing new.
RECORDED_MAX_BYTES = 24 * 1024

_RS = Reasoning(
    id="rs_0a1b2c3d4e5f60718293a4b5",
    encrypted_content="gAAAAABpW1fQ0c2V0OnJlYXNvbmluZw==",
    summary=(SummaryText(text="Look it up."),),
)
_RS_2 = Reasoning(id="rs_1b2c3d4e5f60718293a4b5c6", encrypted_content="gAAAAABpW1fQ3R3byB0d28=")
_OPEN = Reasoning(id="rs_2c3d4e5f60718293a4b5c6d7", content=(ReasoningText(text="Hm."),))
_SAID = Message(
    id="msg_3d4e5f60718293a4b5c6d7e8",
    content=(OutputText(text="It is sunny, 21 \N{DEGREE SIGN}C."),),
    phase="final_answer",
)
_CALL = FunctionCall(
    id="fc_4e5f60718293a4b5c6d7e8f9",
    arguments='{"city": "Paris"}',
    call_id="call_Ab3dEf6hIj9kLm2n",
    name="get_weather",
)
_CALL_2 = FunctionCall(
    id="fc_5f60718293a4b5c6d7e8f90a",
    arguments='{"city": "Rome"}',
    call_id="call_Bc4eFg7iJk0lMn3o",
    name="get_weather",
)
_CUSTOM = CustomToolCall(
    id="ctc_60718293a4b5c6d7e8f90a1b", call_id="call_0", input="ls -l", name="shell"
)
_SEARCH = WebSearchCall(id="ws_718293a4b5c6d7e8f90a1b2c", action=SearchAction(query="weather"))

_OUTPUTS: tuple[tuple[OutputItem, ...], ...] = (
    (_RS, _CALL),
    (_RS, _CALL, _CALL_2),
    (_RS, _RS_2, _CALL),
    (_RS, _SEARCH, _RS_2, _SAID),
    (_RS, _SAID),
    (_OPEN, _CUSTOM),
    (_CUSTOM, _RS, _CALL),
    (_SAID,),
    (_RS,),
)


def answers() -> Iterator[bytes]:
    """Yield whole JSON responses."""
    for n, output in enumerate(_OUTPUTS):
        yield msgspec.json.encode(_answer(n, output))
    for exchange in _recorded("oracle", "plain"):
        if not exchange.content_type.startswith("text/event-stream"):
            yield exchange.answer


def streams() -> Iterator[bytes]:
    """Yield streamed responses."""
    for n, output in enumerate(_OUTPUTS):
        yield _streamed(_answer(n, output))
    for exchange in _recorded("stream"):
        if exchange.content_type.startswith("text/event-stream"):
            yield exchange.answer


def documents() -> Iterator[bytes]:
    """Yield requests, and other documents with all types of values."""
    yield b'{"a":1.0e+2,"\\u0062":[null,true,"\\ud83d\\ude00",{}],"":{"c":[ ]} , "d":-0}'
    yield json.dumps({"model": MODEL, "input": "Hi", "store": False, "include": None}).encode()
    for conversation in _conversations():
        yield conversation[-1]
    for exchange in _recorded("oracle", "dropped", "stateful"):
        yield exchange.request


def conversations() -> Iterator[bytes]:
    """Yield whole conversations: request, response, request, response, ..., request."""
    for conversation in _conversations():
        yield write(conversation)
    for kind in ("oracle", "dropped"):
        for recording in tape.load(kind):
            played: list[bytes] = []
            for exchange in recording.exchanges:
                played += [exchange.request, decode(exchange.answer, exchange.encoding, 1 << 24)]
            if sum(map(len, played)) <= 2 * RECORDED_MAX_BYTES:
                yield write(played[:-1])


def refused() -> Iterator[bytes]:
    """Yield conversations, each followed by a refusal of its last request."""
    said = _refusals()
    for conversation in _conversations():
        for refusal in said:
            yield write([*conversation, refusal])
    for exchange in _recorded("error"):
        yield write([*next(_conversations()), exchange.answer])


def messages() -> Iterator[bytes]:
    """Yield the messages of an upstream on a WebSocket."""
    for n, output in enumerate(_OUTPUTS):
        events = tell(_answer(n, output), Telling(show=lambda item, _: item))
        yield write(msgspec.json.encode(event) for event in events)


def sockets() -> Iterator[bytes]:
    """Yield the messages of a WebSocket, both ways: a request, the events of its response."""
    streams: tuple[dict[str, object], ...] = ({}, {"stream_id": "a"})
    for stream in streams:
        error = {"type": "error", "status": 400, **stream, **json.loads(_refusals()[0])}
        for conversation in _conversations():
            said: list[object] = []
            for n, each in enumerate(conversation):
                document = json.loads(each)
                if n % 2:
                    said += [{**event, **stream} for event in _told(document)]
                else:
                    said.append({"type": "response.create", **stream, **document})
            asked = said[-1]
            for more in ([error], [error, said[1], *said[-3:-1], asked, error, error]):
                yield write(json.dumps(one).encode() for one in [*said, *more])


def _told(answer: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {**answer, "status": "in_progress", "output": []}
    items = [
        {"type": "response.output_item.done", "output_index": n, "item": item}
        for n, item in enumerate(answer["output"])
    ]
    ended = {"type": "response.completed", "response": answer}
    return [{"type": "response.created", "response": begun}, *items, ended]


def encoded() -> Iterator[bytes]:
    """Yield bodies in several codings; CODINGS names the coding to decode each with."""
    plain = next(streams())
    yield gzip.compress(plain, mtime=0)
    yield gzip.compress(plain, mtime=0) * 2
    yield zlib.compress(plain)
    bare = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    yield bare.compress(plain) + bare.flush()
    yield brotli.compress(plain)
    yield zstandard.compress(plain)
    yield gzip.compress(bytes(1 << 20), mtime=0)
    yield plain


def rows() -> Iterator[bytes]:
    """Yield turns as a store keeps them, each after a request that looks it up."""
    for conversation in _conversations():
        request = read_request(conversation[-3], {})
        capture = ResponsesCapture(Origin(request.context(), request.model), 1 << 20)
        capture.read(conversation[-2])
        turn = capture.snapshot(1).turn
        if turn is not None:
            yield write([conversation[-1], write_records(records_of(turn))])
    yield write([b"{}", write_records({bytes(24) + b"h": b"\x01" + msgspec.msgpack.encode([b""])})])


def headers() -> Iterator[bytes]:
    """Yield the headers of requests, line by line, after the setting of the tenant's parts."""
    # {"alg":"none"} . {"iss":"i","tid":"t","oid":7} . x
    token = b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJpIiwidGlkIjoidCIsIm9pZCI6N30.eA"
    for parts in (b"credential", b"claims:tid+oid", b"header:x-tenant", b"credential,header:x-a"):
        yield write([parts, b"authorization: Bearer " + token + b"\nx-tenant: a\nsession_id: s"])
        yield write([parts, b"api-key: k\nx-a: b\nconnection: x-tenant, close\nx-tenant: a"])
        yield write([parts, b"Authorization: Bearer k\nauthorization: Bearer l\nx-a: b\nx-a: c"])
    for accepted in (
        b"gzip, br;q=0.5",
        b"identity;q=0, *",
        b"*;q=0.0",
        b"gzip\nAccept-Encoding: br",
    ):
        yield write([b"credential", b"accept-encoding: " + accepted + b"\nte: x\napi-key: k"])
    yield write([b"credential", b"x-api-key: k\nopenai-organization: o\nopenai-project: p"])


def _conversations() -> Iterator[list[bytes]]:
    """Yield requests of clients with every habit, and their responses; at most three turns."""
    for first in range(len(_OUTPUTS) - 1):
        for habit in ("keeps ids", "drops ids", "keeps all", "hollow", "references"):
            history: list[object] = [{"role": "user", "content": "Weather in Paris?"}]
            played: list[bytes] = []
            for n, output in enumerate(_OUTPUTS[first : first + 2 + first % 2]):
                played.append(_request(history, stores=habit != "drops ids"))
                played.append(msgspec.json.encode(_answer(n, output)))
                history += _replayed(n, output, habit)
            yield [*played, _request(history, stores=habit != "drops ids")]


def _request(history: list[object], *, stores: bool) -> bytes:
    more = {} if stores else {"store": False, "include": ["reasoning.encrypted_content"]}
    return json.dumps({"model": MODEL, "input": history, **more}, indent=1).encode()


def _replayed(n: int, output: tuple[OutputItem, ...], habit: str) -> list[object]:
    items = [msgspec.to_builtins(_of_turn(n, item)) for item in output]
    calls = [item["call_id"] for item in items if "call_id" in item]
    match habit:
        case "hollow":
            items = [
                {**item, "encrypted_content": None, "content": []}
                if item["type"] == "reasoning"
                else item
                for item in items
            ]
        case "references":
            items = [{"type": "item_reference", "id": item["id"]} for item in items]
        case "keeps ids" | "drops ids":
            items = [item for item in items if item["type"] != "reasoning"]
    if habit == "drops ids":
        items = [
            {key: item[key] for key in item if key != "id" or item["type"] == "web_search_call"}
            for item in items
        ]
    done = [{"type": "function_call_output", "call_id": call, "output": "sunny"} for call in calls]
    return [*items, *done, {"role": "user", "content": f"And then, {len(items)}?"}]


def _answer(n: int, output: tuple[OutputItem, ...]) -> Answer:
    """Return a response; its ids are unique to the turn, as upstream makes them."""
    return Answer(
        id=f"resp_{n}829a4b5c6d7e8f90a1b2c3d",
        created_at=1,
        status="completed",
        model=MODEL,
        output=tuple(_of_turn(n, item) for item in output),
        reasoning=ReasoningOptions(),
    )


def _of_turn(n: int, item: OutputItem) -> OutputItem:
    changes: dict[str, object] = {"id": item.id[:-1] + str(n)}
    if isinstance(item, Reasoning) and item.encrypted_content:
        changes["encrypted_content"] = f"{item.encrypted_content[:-4]}{n}aa="
    if isinstance(item, FunctionCall):
        changes["call_id"] = item.call_id[:-1] + str(n)
    return msgspec.structs.replace(item, **changes)


def _streamed(answer: Answer) -> bytes:
    return b"".join(frame(event) for event in tell(answer, Telling(show=lambda item, _: item)))


def _refusals() -> list[bytes]:
    given = (
        refusals.missing_reasoning(_CALL.id, "function_call", _RS.id),
        refusals.missing_follower(_RS.id),
        refusals.duplicate(_CALL.id),
        refusals.not_found(_RS.id),
    )
    said = [msgspec.json.encode(refusal.envelope) for refusal in given]
    words = (
        "The encrypted content gAAA...0aa= could not be verified. Reason: item_id did not match",
        f"The encrypted content for item {_RS.id} could not be verified.",
        "Encrypted content is not supported with this model.",
        "Reasoning input items can only be provided to a reasoning or computer use model.",
        "Missing `reasoning_content`",
        "Invalid 'input[1].id': 'x'. Expected an ID that begins with 'fc'.",
        f"No tool output found for function call {_CALL.call_id}.",
        "No tool call found for function call output with call_id call_1.",
        "Unknown parameter: 'input[1].status'.",
        "Something about an input[2] item.",
    )
    return said + [
        json.dumps({"detail": [{"error": {"message": text}}]}).encode() for text in words
    ]


def _recorded(*kinds: str) -> Iterator[tape.Exchange]:
    for kind in kinds:
        for recording in tape.load(kind):
            for exchange in recording.exchanges:
                is_small = len(exchange.answer) + len(exchange.request) <= RECORDED_MAX_BYTES
                if is_small and not exchange.encoding:
                    yield exchange
