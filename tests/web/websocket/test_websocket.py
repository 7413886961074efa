"""WebSocket forwarding: messages, close and refusal of one side reach the other side."""

import asyncio
import contextlib
import zlib
from collections.abc import Callable

import pytest

from tests.fast_lane import each_value
from tests.web.line import Broken, line_to, request
from tests.web.scripted import Script, cut, send, wait
from tests.web.scripted import close as hang_up
from tests.web.served import served
from tests.web.sockets import (
    ACCEPT,
    BINARY,
    CLOSE,
    CONTINUED,
    KEY,
    PING,
    PONG,
    TEXT,
    UPGRADE,
    Peer,
    agree,
    close,
    frame,
    opened,
    said,
    tunnelled,
)
from tests.web.stalls import reads_again, stops_reading
from tests.web.wire import END, as_json, chunk, head, whole
from tests.web.world import World, eventually, world

# Single messages and fragments, short and long, with control frames between and next to them.
FRAMES = [
    pytest.param(lambda key: frame(TEXT, b"hello", key=key), id="text"),
    pytest.param(lambda key: frame(TEXT, b"", key=key), id="empty"),
    pytest.param(lambda key: frame(TEXT, b"x" * 70_000, key=key), id="large"),
    pytest.param(lambda key: frame(TEXT, b"x" * 5_000_000, key=key), id="too-large-to-be-read"),
    pytest.param(lambda key: frame(BINARY, bytes(range(256)) * 9, key=key), id="binary"),
    pytest.param(lambda key: frame(BINARY, b"", key=key), id="empty-binary"),
    pytest.param(
        lambda key: frame(TEXT, b"a", final=False, key=key) + frame(CONTINUED, b"b", key=key),
        id="fragments",
    ),
    pytest.param(
        lambda key: (
            frame(TEXT, b"a", final=False, key=key)
            + frame(PING, b"?", key=key)
            + frame(CONTINUED, b"b", key=key)
        ),
        id="ping-between-fragments",
    ),
    pytest.param(lambda key: frame(PING, b"?", key=key) + frame(PONG, key=key), id="ping-pong"),
    pytest.param(lambda key: said(b'{"type":"response.create"', key=key), id="broken-json"),
    pytest.param(lambda key: said({"type": "response.steer"}, key=key), id="unknown-type"),
    pytest.param(lambda key: frame(TEXT, b"\xff\xfe response.create", key=key), id="no-utf-8"),
]
LIMIT = 1 << 20
# The bytes that a compressed message omits (RFC 7692, 7.2.1).
TRAILER = b"\x00\x00\xff\xff"
# Headers of the handshake that the proxy sets.
ADDED = {"host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-extensions"}
CHUNKED = "Transfer-Encoding: chunked"
TARGETS = ["/v1/responses", "/v1/responses?api-version=7", "/v1/realtime?model=x"]


def deflated(text: bytes, key: bytes = b"") -> bytes:
    """Return a compressed text message."""
    packer = zlib.compressobj(wbits=-15)
    packed = (packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)).removesuffix(TRAILER)
    spelled = frame(TEXT, packed, key=key)
    return bytes([spelled[0] | 0x40]) + spelled[1:]


async def text_of(peer: Peer) -> tuple[bool, bytes]:
    """Read a text message; return whether it is compressed, and its text."""
    first, payload = await peer.frame()
    assert first & 0x0F == TEXT
    if not first & 0x40:
        return False, payload
    return True, zlib.decompressobj(wbits=-15).decompress(payload + TRAILER)


async def over(w: World) -> None:
    """Wait for the end of the relay."""
    await eventually(lambda: w.app.handler.admission.count == 0)


@pytest.mark.parametrize("spelled", FRAMES)
@pytest.mark.parametrize("target", TARGETS)
async def test_messages_pass_unchanged(spelled: Callable[[bytes], bytes], target: str) -> None:
    """Every message, and the close frame after it, arrives unchanged and in order, both ways."""
    up, down = spelled(KEY), spelled(b"")
    async with (
        world(inspect_max_bytes=LIMIT) as w,
        tunnelled(w, target=target) as (client, upstream),
    ):
        await upstream.send(down)
        await client.gets(down)
        await client.send(up + close(1000, b"bye", key=KEY))
        await upstream.gets(up, close(1000, b"bye", key=KEY))
        await upstream.send(close(1000))
        await client.gets(close(1000, b"bye"))
        assert await client.ended()
        assert await upstream.ended()
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


@pytest.mark.parametrize("size", [10, 900_000])
async def test_frames_directly_after_the_heads_are_not_lost(size: int) -> None:
    """Frames in one packet with the upgrade, or with its acceptance, are not lost."""
    up, down = frame(BINARY, b"x" * size, key=KEY) * 3, frame(BINARY, b"y" * size) * 3
    async with world() as w, tunnelled(w, greeting=down, early=up) as (client, upstream):
        await client.gets(down)
        await upstream.gets(up)


async def test_an_upstream_that_leaves_at_once_loses_nothing() -> None:
    """The client gets all messages of an upstream that accepts, sends and disconnects at once."""
    down = said({"type": "x"}) + close(1008, b"no")
    async with world() as w:
        w.upstream.plays(Script([agree(w, after=down), cut()]))
        async with opened(w.app.url, request("GET", "/v1/responses", *UPGRADE)) as client:
            await client.reader.readuntil(b"\r\n\r\n")
            await client.gets(down)
            client.leave()
        await over(w)


@pytest.mark.parametrize("is_deflating", [True, False])
async def test_compression_is_agreed_on_both_sides_or_on_neither(is_deflating: bool) -> None:
    """Compression is agreed on both sides or on neither, as without the proxy."""
    theirs = ["Sec-WebSocket-Extensions: permessage-deflate"] if is_deflating else []
    text = as_json({"type": "x", "text": "reasoning " * 200})
    async with world() as w, tunnelled(w, agreed=theirs) as (client, upstream):
        assert (b"permessage-deflate" in client.head) == is_deflating
        (offer,) = w.upstream.received[0].values("sec-websocket-extensions")
        assert offer.startswith("permessage-deflate")
        await client.send(deflated(text, KEY) if is_deflating else said(text, key=KEY))
        assert await text_of(upstream) == (is_deflating, text)
        await upstream.send(deflated(text) if is_deflating else said(text))
        assert await text_of(client) == (is_deflating, text)


async def test_no_compression_is_offered_for_a_client_that_offers_none() -> None:
    """If the client offers no compression, the proxy offers none to upstream and accepts none."""
    plain = [line for line in UPGRADE if "Extensions" not in line]
    async with world() as w, tunnelled(w, *plain) as (client, _):
        assert b"extensions" not in client.head.lower()
        assert w.upstream.received[0].values("sec-websocket-extensions") == []


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1009, 1011, 4000])
@pytest.mark.parametrize("is_upstream", [True, False])
async def test_the_code_of_a_close_passes(code: int, is_upstream: bool) -> None:
    """With its reason, from either side, even if the connection ends directly after the frame."""
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        data = close(code, b"because", key=b"" if is_upstream else KEY)
        await one.send(data)
        one.leave()
        await other.gets(data)
        await other.send(close(code, key=KEY if is_upstream else b""))
        assert await other.ended()
        other.leave()
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


async def test_a_close_without_a_code_is_a_normal_one() -> None:
    """A close frame without a code is forwarded with code 1000."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await client.send(frame(CLOSE, key=KEY))
        await upstream.gets(close(1000))
        await upstream.send(frame(CLOSE))
        await client.gets(close(1000))
        await over(w)


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_message_over_the_limit_ends_both_connections(
    is_upstream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its announced length is enough; a message at the limit passes."""
    monkeypatch.setattr("reasoning_replay.web.websocket.handler.MESSAGE_MAX_BYTES", LIMIT)
    async with (
        world(inspect_max_bytes=1000) as w,
        tunnelled(w) as (client, upstream),
    ):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        key = b"" if is_upstream else KEY
        await one.send(frame(TEXT, b"x" * LIMIT, key=key))
        await other.gets(frame(TEXT, b"x" * LIMIT))
        await one.send(frame(TEXT, b"x" * (LIMIT + 1), key=key)[:100])
        assert (await one.message()) == (CLOSE, b"\x03\xf1")
        await one.send(close(1009, key=key))
        assert (await other.message()) == (CLOSE, b"\x03\xf1")
        one.leave()
        other.leave()
        await over(w)


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_an_invalid_frame_ends_both_connections(is_upstream: bool) -> None:
    """An invalid frame ends both connections with code 1002."""
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        await one.send(b"\x83\x00 no frames at all")
        assert (await one.message()) == (CLOSE, b"\x03\xea")
        one.leave()
        assert (await other.message()) == (CLOSE, b"\x03\xea")
        other.leave()
        await over(w)
        outcome = "cut_off" if is_upstream else "client_gone"
        assert w.counted("exchanges_total", route="websocket", outcome=outcome) == 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("401 Unauthorized", ["WWW-Authenticate: Bearer"]),
        ("403 Forbidden", []),
        ("404 Not Found", []),
        ("426 Upgrade Required", ["X-Fall-Back: yes"]),
        ("429 Too Many Requests", ["Retry-After: 7"]),
        ("503 Service Unavailable", ["Retry-After: 1", "x-should-retry: true"]),
        ("200 OK", []),
        ("307 Temporary Redirect", ["Location: /elsewhere"]),
        ("418 Odd Words", ["X-B: 1", "x-b: 2", CHUNKED]),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
async def test_a_refused_upgrade_is_upstreams_refusal(
    status: str, headers: list[str], target: str
) -> None:
    """Unchanged, also a redirect; the client's connection serves the next request."""
    body = b'{"error":{"message":"no","type":"x","param":null,"code":"y"}}'
    is_chunked = CHUNKED in headers
    framing = [] if is_chunked else [f"Content-Length: {len(body)}"]
    given = ["Content-Type: application/json", "x-request-id: req_7", *headers, *framing]
    framed = chunk(body) + END if is_chunked else body
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(head(*given, status=status) + framed, whole(b"{}"))
        got = await line.ask(request("GET", target, *UPGRADE))
        assert f"{got.status} {got.head.reason}" == status
        assert got.body == body
        assert got.head.headers == [tuple(header.split(": ", 1)) for header in given]
        assert (await line.ask(request("GET", "/v1/models"))).status == 200
        assert [one.target for one in w.upstream.received] == [target, "/v1/models"]


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/realtime", "/v1/a/../%7e?x=%2f&y=a+b"])
async def test_the_handshake_is_the_clients(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Only the key is the proxy's own; no header of aiohttp's and no earlier cookie is added."""
    protocols = "realtime, openai-insecure-api-key.sk-secret"
    mine = [*UPGRADE, f"Sec-WebSocket-Protocol: {protocols}", "OpenAI-Beta: responses=v1"]
    more = ["x-reasoning-replay-conversation: c", "X-Twice: 1", "X-Twice: 2"]
    theirs = ["Sec-WebSocket-Protocol: realtime", "Set-Cookie: a=1", "Set-Cookie: b=2", "Date: now"]
    async with world() as w:
        for _ in range(2):  # the second one carries no cookie of the first
            async with tunnelled(w, *mine, *more, target=target, agreed=theirs) as (client, _):
                lines = client.head.decode().split("\r\n")
    for got in w.upstream.received:
        sent = {name for name, _ in got.headers if name.startswith("Sec-WebSocket-Key")}
        assert got.target == target
        assert sent == {"Sec-WebSocket-Key"}
        assert got.values("sec-websocket-key") != ["dGhlIHNhbXBsZSBub25jZQ=="]
        assert got.values("host") == [w.upstream.url.removeprefix("http://")]
        passed = [field for field in got.headers if field[0].lower() not in ADDED]
        assert passed == [
            ("Authorization", "Bearer sk-a"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Protocol", protocols),
            ("OpenAI-Beta", "responses=v1"),
            ("X-Twice", "1"),
            ("X-Twice", "2"),
        ]
    for line in (*theirs, "x-request-id: req_1", f"Sec-WebSocket-Accept: {ACCEPT}"):
        assert lines.count(line) == 1
    assert "sk-secret" not in "".join(capfd.readouterr())


async def test_no_subprotocol_is_chosen_if_upstream_chooses_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The proxy chooses no subprotocol itself, and logs none: an offered one may be a key."""
    mine = "Sec-WebSocket-Protocol: openai-insecure-api-key.sk-secret"
    async with world() as w, tunnelled(w, *UPGRADE, mine) as (client, _):
        assert b"protocol:" not in client.head.lower()
    assert "sk-secret" not in caplog.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"Version: 13", b"Version: 99", id="version"),
        pytest.param(b"Key: dGhl", b"Key: d", id="short-key"),
        pytest.param(b"Sec-WebSocket-Key", b"X", id="no-key"),
        pytest.param(b"Key: dGhl", b"Key: \xff\xfe", id="not-utf-8"),
    ],
)
async def test_an_invalid_handshake_is_refused(old: bytes, new: bytes) -> None:
    """Upstream is not asked, because its acceptance could not be forwarded."""
    async with world() as w:
        got = await w.ask(request("GET", "/v1/responses", *UPGRADE).replace(old, new))
        assert (got.status, got.mark) == (400, "error=bad_request")
        assert w.upstream.connections == 0


async def test_a_refusal_that_breaks_off_is_cut_off() -> None:
    """A refusal that upstream breaks off is cut off for the client and never looks complete."""
    begun = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\n{"
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(begun), hang_up()]))
        await line.send(request("GET", "/v1/responses", *UPGRADE))
        assert (await line.head()).status == 403
        with pytest.raises(Broken):
            await line.rest()
        assert w.counted("exchanges_total", route="websocket", outcome="cut_off") == 1


async def test_the_wait_for_a_handshake_is_limited() -> None:
    """`first_byte_timeout_s` limits the wait for the handshake."""
    async with world(first_byte_timeout_s=0.1) as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([wait()]))
        got = await line.ask(request("GET", "/v1/responses", *UPGRADE))
        assert (got.status, got.mark) == (504, "error=upstream_timeout")
        assert "first_byte_timeout_s" in got.body.decode()


async def test_a_handshake_is_sent_once() -> None:
    """If upstream closes without a response, the handshake is not sent again."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([hang_up()]), Script([hang_up()]))
        got = await line.ask(request("GET", "/v1/responses", *UPGRADE))
        assert (got.status, got.mark) == (502, "error=upstream_failed")
        assert len(w.upstream.received) == 1
        assert "closed the connection" in got.body.decode()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(["Upgrade: h2c", "Connection: Upgrade"], id="another-protocol"),
        pytest.param(["Upgrade: websocket"], id="not-in-connection"),
        pytest.param(["Upgrade: websocket", "Connection: upgrade", "Content-Length: 0"], id="post"),
    ],
)
async def test_another_upgrade_is_plain_http(headers: list[str]) -> None:
    """HTTP lets a server ignore an upgrade, which ends at this hop."""
    method = "POST" if "Content-Length: 0" in headers else "GET"
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(whole(b"{}"), whole(b"{}"))
        for _ in range(2):
            got = await line.ask(request(method, "/v1/files", *headers))
            assert (got.status, got.body) == (200, b"{}")
        assert w.upstream.received[0].values("upgrade") == []


@pytest.mark.parametrize(
    "head",
    [
        "Connection: upgrade\r\n",
        "",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: wrong\r\n",
    ],
)
@pytest.mark.parametrize("behind", [b"", said({"type": "x"})])
async def test_an_invalid_101_is_an_upstream_error(head: str, behind: bytes) -> None:
    """Its connection is not reused: upstream may read the next request as frames."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode() + behind)
        got = await line.ask(request("GET", "/v1/responses", *UPGRADE))
        assert (got.status, got.mark) == (502, "error=upstream_failed")
        w.upstream.answers(whole(b"{}"))
        assert (await line.ask(request("GET", "/v1/models"))).status == 200
        assert w.upstream.connections == 2


@each_value(mode=["on", "off"], is_upstream=[True, False])
async def test_a_slow_reader_pauses_the_sender(mode: str, is_upstream: bool) -> None:
    """A peer that does not read pauses the sender; the proxy does not buffer the messages."""
    piece = frame(BINARY, b"x" * 65_000, key=KEY if is_upstream else b"")
    async with world() as w, served(upstream_url=w.upstream.url + "/v1", mode=mode) as proxy:
        await proxy.started()
        async with tunnelled(w, url=proxy.url) as (client, upstream):
            slow, writer = (upstream, client) if is_upstream else (client, upstream)
            stops_reading(slow.writer)
            before, sent = proxy.peak_bytes, 0
            with contextlib.suppress(TimeoutError):
                while True:
                    await asyncio.wait_for(writer.send(piece), 0.5)
                    sent += 1
                    assert sent < 2000, "the sender was not paused"
            assert proxy.peak_bytes - before < 8 << 20
            reads_again(slow.writer)
            await slow.gets(*[piece] * sent)


async def test_it_is_the_same_on_uvloop() -> None:
    """A served process on uvloop passes messages, closes and broken connections in the same way."""
    up, down = frame(TEXT, b"x" * 900_000, key=KEY), frame(TEXT, b"y" * 900_000)
    async with world() as w, served(upstream_url=w.upstream.url + "/v1") as proxy:
        await proxy.started()
        async with tunnelled(w, url=proxy.url, early=up, greeting=down) as (c, u):
            await asyncio.gather(c.gets(down), u.gets(up))
            await u.send(down)
            await c.gets(down)
            await c.send(up + close(1000, key=KEY))
            await u.gets(up, close(1000, key=KEY))
            await u.send(close(1000))
            await c.gets(close(1000))
            assert await c.ended()
        for ends in (Peer.leave, Peer.reset):
            async with tunnelled(w, url=proxy.url) as (c, u):
                ends(c)
                assert await u.ended()
            async with tunnelled(w, url=proxy.url) as (c, u):
                ends(u)
                assert await c.ended()
        proxy.signal(15)
        assert await proxy.exit_code() == 0


async def test_a_bug_in_the_relay_ends_only_the_relay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug in the relay closes both sides and is logged, without the content of a message."""

    async def fails(*_: object) -> None:
        raise ValueError("secret")

    async with world() as w, tunnelled(w) as (client, upstream):
        monkeypatch.setattr("reasoning_replay.web.websocket.relay.Relay._read", fails)
        await client.send(frame(PING, key=KEY))
        assert await client.ended()
        assert await upstream.ended()
        await over(w)
    log = capsys.readouterr().out
    assert log.count('"bug"') == 1
    assert "secret" not in log
