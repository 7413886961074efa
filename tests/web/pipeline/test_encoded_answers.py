"""Encoded responses: the proxy asks for identity, and decodes a copy of encoded ones."""

import gzip
from collections.abc import Callable
from secrets import token_hex

import pytest
import zstandard

from tests.bombs import CODINGS
from tests.web.line import line_to, request
from tests.web.scripted import Script, Step, cut, send, wait
from tests.web.wire import (
    ASK,
    CALL,
    END,
    MESSAGE,
    RESULT,
    RS,
    as_json,
    chunk,
    events,
    head,
    response,
    stream_head,
    whole,
)
from tests.web.world import MODEL, World, eventually, post, world

Encode = Callable[[bytes], bytes]

KEY = "Authorization: Bearer sk-a"
ACCEPTS = "Accept-Encoding: gzip, deflate, br, zstd"
OK = whole(b'{"ok":true}')
BODY = as_json({"model": MODEL, "input": [ASK]})
# Each coding is proven in the tests of `wire.content_coding`.
ENCODED = pytest.mark.parametrize(
    ("coding", "encode"),
    [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)],
    ids=["gzip", "zstd"],
)


async def accepted(w: World, data: bytes) -> list[str]:
    """Send a request; return the `Accept-Encoding` that upstream received."""
    w.upstream.answers(OK)
    assert (await w.ask(data)).status == 200
    return w.upstream.received[-1].values("accept-encoding")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request("POST", "/v1/responses", KEY, ACCEPTS, body=BODY), id="asked"),
        pytest.param(request("GET", "/v1/responses/resp_1", KEY, ACCEPTS), id="fetched"),
    ],
)
async def test_an_answer_that_is_read_is_asked_for_in_identity(data: bytes) -> None:
    """If the response is read, identity replaces the codings that the client accepts."""
    async with world() as w:
        assert await accepted(w, data) == ["identity"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request("POST", "/v1/responses", ACCEPTS, body=BODY), id="no-credential"),
        pytest.param(request("POST", "/v1/responses", KEY, ACCEPTS, body=b"{"), id="unreadable"),
        pytest.param(
            request("GET", "/v1/responses/resp_1", ACCEPTS), id="fetched-without-credential"
        ),
        pytest.param(request("POST", "/v1/embeddings", KEY, ACCEPTS, body=b"{}"), id="post"),
        pytest.param(request("GET", "/v1/files/f/content", KEY, ACCEPTS), id="get"),
    ],
)
async def test_an_answer_that_is_not_read_is_the_clients_business(data: bytes) -> None:
    """If the response is not read, Accept-Encoding stays as it is."""
    async with world() as w:
        assert await accepted(w, data) == ["gzip, deflate, br, zstd"]


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_a_proxy_that_changes_no_request_leaves_it(mode: str) -> None:
    """The modes `shadow` and `off` do not change Accept-Encoding."""
    async with world(mode=mode) as w:
        data = request("POST", "/v1/responses", KEY, ACCEPTS, body=BODY)
        assert await accepted(w, data) == ["gzip, deflate, br, zstd"]


@ENCODED
@pytest.mark.parametrize("is_stream", [False, True], ids=["json", "streamed"])
async def test_an_encoded_response_is_captured(
    coding: str, encode: Encode, is_stream: bool
) -> None:
    """The client gets the encoded bytes, and a decoded copy is captured."""
    plain = b"".join(events(RS, CALL)) if is_stream else as_json(response(RS, CALL))
    body, named = encode(plain), f"Content-Encoding: {coding}"
    answer = whole(body, "Content-Type: application/json", named)
    if is_stream:
        answer = stream_head(named) + chunk(body[:9]) + chunk(body[9:]) + END
    async with world() as w:
        w.upstream.answers(answer, OK)
        got = await w.turn(ASK)
        assert (got.body, got.head.values("content-encoding")) == (body, [coding])
        await w.turn(ASK, CALL, RESULT)
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT]


@ENCODED
@pytest.mark.parametrize("is_stream", [False, True], ids=["json", "streamed"])
async def test_a_decompression_bomb_is_not_captured(
    coding: str, encode: Encode, is_stream: bool
) -> None:
    """A decompression bomb reaches the client unchanged, and its capture is abandoned."""
    kind = "text/event-stream" if is_stream else "application/json"
    body = encode(b"\n" * (8 << 20))
    async with world(inspect_max_bytes=1 << 20) as w:
        w.upstream.answers(whole(body, f"Content-Type: {kind}", f"Content-Encoding: {coding}"))
        got = await w.turn(ASK)
        assert (got.status, got.body) == (200, body)
        assert w.counted("captures_total", result="too_large") == 1


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        pytest.param(gzip.compress(as_json(response(RS, CALL))), ["br"], id="another"),
        pytest.param(b"{}", ["aws-chunked"], id="unknown"),
        pytest.param(gzip.compress(gzip.compress(b"{}")), ["gzip", "gzip"], id="stacked-in-lines"),
    ],
)
async def test_an_answer_that_cannot_be_decoded_is_not_captured(
    body: bytes, codings: list[str]
) -> None:
    """A response that cannot be decoded reaches the client unchanged, and is not captured."""
    async with world() as w:
        w.upstream.answers(whole(body, *(f"Content-Encoding: {coding}" for coding in codings)))
        got = await w.turn(ASK)
        assert (got.body, got.head.values("content-encoding")) == (body, codings)
        assert w.counted("captures_total", result="unreadable") == 1


@ENCODED
@pytest.mark.parametrize("is_stream", [False, True], ids=["json", "streamed"])
@pytest.mark.parametrize(("room", "state"), [(500_000, "busy"), (2_000_000, "saved")])
async def test_an_encoded_response_takes_twice_its_decoded_size(
    coding: str, encode: Encode, is_stream: bool, room: int, state: str
) -> None:
    """It is held as it arrived, and as what is made of it; without room, it passes unread."""
    items = RS | {"encrypted_content": "x" * 300_000}, CALL
    plain = b"".join(events(*items)) if is_stream else as_json(response(*items))
    kind = "text/event-stream" if is_stream else "application/json"
    answer = whole(encode(plain), f"Content-Type: {kind}", f"Content-Encoding: {coding}")
    async with world(inspect_total_max_bytes=room, include="never") as w:
        w.upstream.answers(answer)
        assert (await w.ask(post({"model": MODEL, "input": [ASK]}))).body
        await eventually(lambda: w.counted("captures_total", result=state) == 1)
        assert w.counted("memory_budget_used_bytes") == 0


# Random, so that its first half decodes to about half of it.
THOUGHT = RS | {"encrypted_content": token_hex(1 << 19)}
ENDS: dict[str, Callable[[bytes], list[Step]]] = {
    "complete": lambda rest: [send(chunk(rest) + END)],
    "reset": lambda _: [cut()],
    "damaged": lambda rest: [send(chunk(b"damaged" + rest[::-1]) + END)],
    "truncated": lambda _: [send(END)],
    "left": lambda _: [wait()],
}


@pytest.mark.usefixtures("leaves_at_once")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("coding", CODINGS)
async def test_an_encoded_answer_is_counted_until_its_end(coding: str, form: str, end: str) -> None:
    """What is decoded counts in the memory budget, and no longer than until the response ends."""
    answer, pieces = as_json(response(THOUGHT, MESSAGE)), events(THOUGHT, MESSAGE)
    encoded = CODINGS[coding](answer if form == "application/json" else b"".join(pieces))
    half, rest = encoded[: len(encoded) // 2], encoded[len(encoded) // 2 :]
    fields = f"Content-Type: {form}", f"Content-Encoding: {coding}", "Transfer-Encoding: chunked"
    script = Script([send(head(*fields) + chunk(half)), wait(), *ENDS[end](rest)])
    async with world() as w:
        w.upstream.plays(script)
        async with line_to(w.app.url) as line:
            await line.send(post(BODY, KEY))
            await eventually(lambda: w.counted("memory_budget_used_bytes") > 1 << 18)
            if end != "left":
                script.go()
                await line.head()
                read, is_whole = await line.until_it_ends()
                assert is_whole == (end != "reset")
                assert read.startswith(half)
                assert end != "complete" or read == encoded
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)
