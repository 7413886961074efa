"""Odd requests and answers of the Gemini API: each goes on byte for byte."""

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.web.gemini.exchanges import ASK, CALL, KEY, MODEL, PATH, RESULT, SIGNED, send
from tests.web.line import request
from tests.web.wire import END, as_json, chunk, head, whole
from tests.web.world import world

STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent"
DEEP = b"[" * 5000 + b"]" * 5000


def _said(parts: bytes) -> bytes:
    return b'{"contents": [{"role": "model", "parts": %b}]}' % parts


BODIES = {
    "no JSON": b"not json",
    "empty": b"",
    "null": b"null",
    "cut": b'{"contents": [{"role": "user"',
    "repeated": b'{"contents": [], "contents": [{"parts": []}]}',
    "no contents": b'{"contents": null}',
    "contents are a text": b'{"contents": "Hello"}',
    "one content": b'{"contents": {"parts": [{"text": "hello"}]}}',
    "one part": _said(b'{"text": "hello"}'),
    "no parts": _said(b"[]"),
    "parts of no type": _said(b'[null, 1, "x", {}, []]'),
    "texts of no type": _said(b'[{"text": null}, {"text": 12}]'),
    "calls of no type": _said(
        b'[{"functionCall": "x"}, {"functionCall": {"id": 7, "args": "{}"}}]'
    ),
    "signatures of no type": _said(b'[{"text": "x", "thoughtSignature": []}]'),
    "huge number": _said(b'[{"functionCall": {"name": "x", "args": {"n": 1%b}}}]' % (b"0" * 5000)),
    "NaN": _said(b'[{"functionCall": {"name": "x", "args": {"n": NaN}}}]'),
    "deep": _said(b'[{"functionCall": {"name": "x", "args": {"n": %b}}}]' % DEEP),
    "half a character": _said(b'[{"text": "\\ud800"}]'),
    "no UTF-8": _said(b'[{"text": "\xff\xfe"}]'),
    "byte order mark": b"\xef\xbb\xbf" + _said(b'[{"text": "x"}]'),
    "wrapper of no type": b'{"generateContentRequest": {"contents": "x"}}',
    "many parts": _said(b"[%b]" % b",".join([b'{"text": "x"}'] * 25_000)),
}


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent", "countTokens"])
@pytest.mark.parametrize("name", BODIES)
async def test_an_odd_request_is_forwarded(name: str, method: str) -> None:
    """The API decides about it."""
    async with world() as w:
        w.upstream.answers(whole(b'{"candidates": [] }'))
        path = f"/v1beta/models/{MODEL}:{method}"
        got = await w.ask(request("POST", path, KEY, body=BODIES[name]))
        assert (got.status, got.body) == (200, b'{"candidates": [] }')
        assert w.upstream.received[0].body == BODIES[name]


ANSWERS = {
    "no JSON": b"not json",
    "empty": b"",
    "numbers": b"[7]",
    "cut": b'{"candidates": [{"content": {"parts": [{"text": "x"',
    "candidates of no type": b'{"candidates": {"content": null}}',
    "parts of no type": b'{"candidates": [{"content": {"parts": [null, 1, "x", {"text": 7}]}}]}',
    "signatures of no type": b'{"candidates": [{"content": {"parts": [{"thoughtSignature": 7}]}}]}',
    "half a character": b'{"candidates": [{"content": {"parts": [{"text": "\\ud800"}]}}]}',
    "deep": b'{"candidates": [{"content": {"parts": [{"text": %b}]}}]}' % DEEP,
    "members of no type": b'{"modelVersion": 7, "usageMetadata": {"promptTokenCount": NaN}}',
    "a list with an end too many": b'[{"candidates": []},]]',
}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "odd"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_odd_answer_is_forwarded(
    name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its type says; nothing of it is an error of the proxy."""
    async with world() as w:
        for data in (ANSWERS[name], b"\xef\xbb\xbf: x\r\n\r\ndata: " + ANSWERS[name] + b"\r\r"):
            w.upstream.answers(whole(data, f"Content-Type: {kind}"))
            body = as_json({"contents": [ASK]})
            got = await w.ask(request("POST", f"{STREAM}?alt=sse", KEY, body=body))
            assert (got.status, got.body) == (200, data)
    assert "Traceback" not in capsys.readouterr().out


PARTS: Sequence[dict[str, Any]] = [
    {"text": 'The wéather "in" [Oslo] '},
    {"text": "is {sunny} \\ 😀 today."},
    SIGNED,
]
CHUNKS = [
    {"candidates": [{"content": {"role": "model", "parts": [part]}} | end], "modelVersion": MODEL}
    for part, end in zip(PARTS, ({}, {}, {"finishReason": "STOP"}), strict=True)
]
FORMS: dict[str, Callable[[], bytes]] = {
    "CR": lambda: b"".join(b"data: %b\r\r" % as_json(one) for one in CHUNKS),
    "CR LF": lambda: b"".join(b"data: %b\r\n\r\n" % as_json(one) for one in CHUNKS),
    "comments": lambda: (
        b"\xef\xbb\xbf: x\n\n"
        + b"".join(b": x\n\nid: 7\ndata:%b\n\n" % as_json(one) for one in CHUNKS)
    ),
    "lines": lambda: b"".join(
        b"data: %b\n\n" % json.dumps(one, indent=1).encode().replace(b"\n", b"\ndata: ")
        for one in CHUNKS
    ),
    "list": lambda: as_json(CHUNKS),
    "list in lines": lambda: json.dumps(CHUNKS, indent=2).encode().replace(b",\n", b"\n,\r\n"),
}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_may_be_cut_anywhere(form: str, coding: str, size: int) -> None:
    """The client gets the same bytes, and its next request the signature."""
    data = gzip.compress(FORMS[form]()) if coding else FORMS[form]()
    kind = "application/json" if form.startswith("list") else "text/event-stream"
    headers = [f"Content-Type: {kind}", "Transfer-Encoding: chunked"]
    headers += [f"Content-Encoding: {coding}"] if coding else []
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    path = STREAM if form.startswith("list") else f"{STREAM}?alt=sse"
    async with world() as w:
        w.upstream.answers(head(*headers) + b"".join(map(chunk, pieces)) + END)
        body = as_json({"contents": [ASK]})
        assert (await w.ask(request("POST", path, KEY, body=body))).body == data
        told = {"role": "model", "parts": [{"text": PARTS[0]["text"] + PARTS[1]["text"]}, CALL]}
        w.upstream.answers(whole(b"{}"))
        got = await send(w, ASK, told, RESULT, path=PATH)
        assert got.mark == "injected=1"
        assert w.sent()["contents"][1]["parts"][1] == SIGNED
