"""Answers of the Gemini API in any form and any pieces: each goes on byte for byte."""

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
