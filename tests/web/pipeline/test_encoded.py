"""Encoded requests: the proxy reads a decoded copy; upstream gets the original or plain JSON."""

import gzip
from collections.abc import Callable

import pytest
import zstandard
from reasoning_replay.web.pipeline import request_body

from tests.web.line import request
from tests.web.scripted import Received
from tests.web.wire import (
    ASK,
    CALL,
    END,
    RESULT,
    RS,
    as_json,
    chunk,
    error,
    response,
    whole,
)
from tests.web.world import MODEL, Logged, World, logged, world

Encode = Callable[[bytes], bytes]

KEY = "Authorization: Bearer sk-a"
JSON = "Content-Type: application/json"
OK = whole(b'{"ok":true}')
MIB = 1 << 20


def streamed(plain: bytes) -> bytes:
    """Encode with zstd as Codex does, without the content size in the frame."""
    encoder = zstandard.ZstdCompressor().compressobj()
    return encoder.compress(plain) + encoder.flush()


# Each coding is proven in the tests of `wire.content_coding`.
ENCODERS: dict[str, tuple[str, Encode]] = {
    "gzip": ("X-GZip", gzip.compress),
    "zstd-streamed": ("zstd", streamed),
}
ENCODED = pytest.mark.parametrize(("coding", "encode"), ENCODERS.values(), ids=list(ENCODERS))
# A history that lacks reasoning, and one that lacks nothing.
LACKING = {"model": MODEL, "input": [ASK, CALL, RESULT]}
WHOLE = {"model": MODEL, "input": [ASK, RS, CALL, RESULT]}
# Long enough, even encoded, to be decoded in a thread.
NOISE = "".join(f"{n * n * 2654435761:x}" for n in range(15_000))


async def taught(w: World) -> None:
    """Let the proxy capture something to inject."""
    w.upstream.otherwise = OK
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    await w.turn(ASK)
    w.upstream.received.clear()


async def sent(w: World, body: bytes, coding: str, *more: str) -> tuple[Received, str | None]:
    """Send an encoded body; return what upstream received and the proxy's header."""
    got = await w.post(body, KEY, JSON, f"Content-Encoding: {coding}", *more)
    assert (got.status, got.body) == (200, b'{"ok":true}')
    (received,) = w.upstream.received
    return received, got.mark


@ENCODED
@pytest.mark.parametrize("more", [{}, {"user": NOISE}], ids=["small", "large"])
async def test_reasoning_is_injected_into_an_encoded_request(
    coding: str, encode: Encode, more: dict[str, object]
) -> None:
    """An edited request is sent plain, with the right length and no Content-Encoding."""
    async with world() as w:
        await taught(w)
        received, mark = await sent(w, encode(as_json(LACKING | more)), coding)
        assert received.body == as_json(WHOLE | more)
        assert [name for name, _ in received.headers] == [
            "Host",
            "Authorization",
            "Content-Type",
            "Content-Length",
        ]
        assert received.values("content-length") == [str(len(received.body))]
        assert mark == "injected=1"


@ENCODED
@pytest.mark.parametrize("more", [{}, {"user": NOISE}], ids=["small", "large"])
async def test_an_encoded_request_that_lacks_nothing_goes_out_as_it_came(
    coding: str, encode: Encode, more: dict[str, object]
) -> None:
    """A request without edits keeps its encoded bytes and its Content-Encoding."""
    body = encode(as_json(WHOLE | more))
    async with world() as w:
        await taught(w)
        received, mark = await sent(w, body, coding)
        assert received.body == body
        assert received.headers[1:] == [
            ("Authorization", "Bearer sk-a"),
            ("Content-Type", "application/json"),
            ("Content-Encoding", coding),
            ("Content-Length", str(len(body))),
        ]
        assert mark == "injected=0, present=1"


async def test_an_encoded_request_is_remembered() -> None:
    """The response to an encoded request is captured with the request's history."""
    async with world() as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), OK)
        asked = as_json({"model": MODEL, "input": [ASK]})
        await w.post(gzip.compress(asked), KEY, "Content-Encoding: gzip")
        await w.turn(ASK, CALL, RESULT)
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT]


async def test_a_body_in_chunks_may_be_encoded() -> None:
    """A chunked body may be encoded."""
    body = streamed(as_json(LACKING))
    head = request(
        "POST", "/v1/responses", KEY, "Content-Encoding: zstd", "Transfer-Encoding: chunked"
    )
    async with world() as w:
        await taught(w)
        await w.ask(head + chunk(body[:7]) + chunk(body[7:]) + END)
        assert w.upstream.received[0].body == as_json(WHOLE)


@pytest.mark.parametrize("coding", ["identity", "", "Identity"])
async def test_a_body_that_is_said_to_be_plain_is_plain(coding: str) -> None:
    """The header `identity` stays with the client's own bytes, and not with edited ones."""
    async with world() as w:
        await taught(w)
        received, _ = await sent(w, as_json(WHOLE), coding)
        assert received.values("content-encoding") == [coding]
        w.upstream.received.clear()
        received, mark = await sent(w, as_json(LACKING), coding)
        assert (received.body, mark) == (as_json(WHOLE), "injected=1")


GZIPPED = gzip.compress(as_json(LACKING))
UNREADABLE = [
    pytest.param("gzip", GZIPPED[:-1], [], "encoded", id="cut-off"),
    pytest.param("aws-chunked", GZIPPED, [], "encoded", id="unknown"),
    pytest.param("gzip, gzip", gzip.compress(GZIPPED), [], "encoded", id="stacked"),
    pytest.param(
        "gzip", gzip.compress(GZIPPED), ["Content-Encoding: gzip"], "encoded", id="stacked-in-lines"
    ),
    pytest.param("gzip", gzip.compress(b"{"), [], "unreadable", id="no-json-inside"),
    pytest.param("gzip", gzip.compress(bytes(3 * MIB)), [], "too_large", id="bomb"),
    pytest.param("gzip", gzip.compress(b" " * MIB)[:-9], [], "too_large", id="bomb-cut-off"),
    pytest.param("zstd", streamed(bytes(300 * MIB)), [], "too_large", id="zstd-bomb"),
]


@pytest.mark.parametrize(("coding", "body", "more", "asked"), UNREADABLE)
async def test_a_body_that_cannot_be_read_goes_out_as_it_came(
    coding: str, body: bytes, more: list[str], asked: str
) -> None:
    """A damaged, unknown or oversized encoding is forwarded unchanged for upstream to refuse."""
    async with world(inspect_max_bytes=100_000) as w:
        await taught(w)
        received, mark = await sent(w, body, coding, *more)
        assert received.body == body
        assert received.values("content-encoding") == [coding, *(["gzip"] * len(more))]
        assert mark == f"injected=0, asked={asked}"
        assert w.counted("requests_total", result=asked) == 1


async def test_the_bound_is_on_what_comes_out() -> None:
    """inspect_max_bytes is an inclusive limit, on the loop and in a thread."""
    for size in (4000, 2 * MIB):
        body = as_json(WHOLE | {"user": "x" * size})
        for room, mark in ((0, "injected=0, present=1"), (-1, "injected=0, asked=too_large")):
            async with world(inspect_max_bytes=len(body) + room) as w:
                await taught(w)
                assert (await sent(w, gzip.compress(body), "gzip"))[1] == mark


async def test_the_bound_on_what_comes_in_holds_as_well() -> None:
    """inspect_max_bytes limits the encoded body as well."""
    async with world(inspect_max_bytes=len(GZIPPED) - 1) as w:
        w.upstream.otherwise = OK
        received, mark = await sent(w, GZIPPED, "gzip")
        assert (received.body, mark) == (GZIPPED, "injected=0, asked=too_large")


async def test_a_request_without_a_credential_is_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A body is not decoded if its request has no credential."""
    monkeypatch.delattr(request_body, "decode")
    async with world() as w:
        w.upstream.otherwise = OK
        got = await w.post(GZIPPED, "Content-Encoding: gzip")
        assert (w.upstream.received[0].body, got.mark) == (GZIPPED, "injected=0, asked=no_scope")


async def test_a_bug_in_decoding_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the decoder does not reach the client, on the loop or in a thread."""

    def fails(*_: object) -> bytes:
        raise RuntimeError

    monkeypatch.setattr(request_body, "decode", fails)
    for body in (GZIPPED, gzip.compress(NOISE.encode())):
        async with world() as w:
            w.upstream.otherwise = OK
            received, mark = await sent(w, body, "gzip")
            assert (received.body, mark) == (body, "injected=0, asked=failed")


@pytest.mark.parametrize(("mode", "mark"), [("shadow", "injected=1, shadow"), ("off", None)])
async def test_a_proxy_that_changes_nothing_changes_no_encoded_request(
    mode: str, mark: str | None
) -> None:
    """The modes `shadow` and `off` forward an encoded request unchanged."""
    async with world(mode=mode) as w:
        await taught(w)
        received, got = await sent(w, GZIPPED, "gzip")
        assert (received.body, received.values("content-encoding")) == (GZIPPED, ["gzip"])
        assert got == mark


async def test_other_routes_decode_nothing() -> None:
    """Other routes forward encoded bodies undecoded."""
    async with world() as w:
        w.upstream.otherwise = OK
        for target in ("/v1/embeddings", "/v1/responses/resp_1/cancel"):
            await w.ask(request("POST", target, KEY, "Content-Encoding: gzip", body=GZIPPED))
            assert w.upstream.received[-1].body == GZIPPED
            assert w.upstream.received[-1].values("content-encoding") == ["gzip"]


async def test_a_refused_edit_is_taken_back_in_plain() -> None:
    """The second attempt has the client's content as plain JSON, without Content-Encoding."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(error("That is odd."), OK)
        got = await w.post(GZIPPED, KEY, JSON, "Content-Encoding: gzip")
        assert (got.status, got.mark) == (200, "injected=0, lacking=1, refused=1, healed=input")
        first, again = w.upstream.received
        assert (first.body, again.body) == (as_json(WHOLE), as_json(LACKING))
        assert first.values("content-encoding") == again.values("content-encoding") == []


async def test_the_log_names_the_limit_and_the_size(capsys: Logged) -> None:
    """A body over inspect_max_bytes is told apart from other reasons, as it came and decoded."""
    body = as_json(WHOLE | {"user": "x" * 4000})
    packed = gzip.compress(body)
    for data, coding, size in (
        (body, "", f"{len(body):,} bytes,"),
        (packed, "gzip", f"{len(packed):,} bytes encoded and more decoded,"),
    ):
        async with world(inspect_max_bytes=2000) as w:
            w.upstream.otherwise = OK
            headers = [KEY, JSON, *([f"Content-Encoding: {coding}"] if coding else [])]
            got = await w.ask(request("POST", "/v1/responses", *headers, body=data))
            assert got.mark == "injected=0, asked=too_large"
        [line] = logged(capsys, "exchange")
        assert line["hint"].startswith(f"the request has {size} and inspect_max_bytes is 2,000 b")
