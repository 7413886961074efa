"""A WebSocket passes through frame by frame: its bytes, its end, and its refusal are upstream's."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from tests.web.line import line_to, request
from tests.web.served import served
from tests.web.sockets import (
    AGREED,
    BINARY,
    CONTINUED,
    HELD_S,
    KEY,
    PING,
    PONG,
    TEXT,
    UPGRADE,
    Peer,
    close,
    frame,
    opened,
    said,
    tunnelled,
)
from tests.web.wire import whole
from tests.web.world import World, eventually, world

# Masked and not, whole and in fragments, short and long, with control frames between and beside.
FRAMES = [
    pytest.param(lambda key: frame(TEXT, b"hello", key=key), id="text"),
    pytest.param(lambda key: frame(TEXT, b"", key=key), id="empty"),
    pytest.param(lambda key: frame(TEXT, b"x" * 70_000, key=key), id="large"),
    pytest.param(lambda key: frame(TEXT, b"x" * 5_000_000, key=key), id="too-large-to-be-read"),
    pytest.param(lambda key: frame(BINARY, bytes(range(256)) * 9, key=key), id="binary"),
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
    pytest.param(lambda key: b"\xc1\x05zzzzz" + frame(TEXT, b"behind", key=key), id="compressed"),
    pytest.param(lambda key: b"\x83\x00 no frames at all", id="malformed"),
]
LIMIT = 1 << 20
TARGETS = ["/v1/responses", "/v1/responses?api-version=7", "/v1/realtime?model=x"]


async def over(w: World) -> None:
    """The tunnel leaves nothing behind."""
    await eventually(lambda: w.app.forward.under_way.count == 0)


@pytest.mark.parametrize("spelled", FRAMES)
@pytest.mark.parametrize("target", TARGETS)
async def test_frames_pass_as_they_came(spelled: Callable[[bytes], bytes], target: str) -> None:
    """The very bytes, both ways, and a close frame behind them."""
    up, down = spelled(KEY), spelled(b"")
    async with (
        world(inspect_max_bytes=LIMIT, capture_max_bytes=LIMIT) as w,
        tunnelled(w, target=target) as (client, upstream),
    ):
        await client.send(up + close(1000, b"bye", key=KEY))
        await upstream.gets(up, close(1000, b"bye", key=KEY))
        await upstream.send(down + close(1000))
        await client.gets(down, close(1000))
        upstream.leave()
        assert await client.ended()
        client.leave()
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


async def test_bytes_pass_in_any_cut() -> None:
    """Each frame byte by byte, however the network cuts it."""
    up = said({"type": "x"}, key=KEY) + frame(PING, b"?", key=KEY) + frame(BINARY, b"abc", key=KEY)
    down = said({"type": "response.output_text.delta", "delta": "7"}) + frame(PONG, b"?")
    async with world() as w, tunnelled(w) as (client, upstream):
        for byte in up:
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        await upstream.gets(up)
        for byte in down:
            await upstream.send(bytes([byte]))
            await asyncio.sleep(0)
        await client.gets(down)


async def test_what_comes_right_behind_the_heads_is_not_lost() -> None:
    """In one packet with the upgrade, or with upstream's agreement."""
    up, down = said({"type": "x"}, key=KEY) * 3, said({"type": "y"}) * 3
    async with (
        world() as w,
        tunnelled(w, agreed=AGREED + down, behind=up) as (client, upstream),
    ):
        await client.gets(down)
        await upstream.gets(up)


async def test_much_behind_the_heads_is_not_lost() -> None:
    """More than is read ahead."""
    up, down = frame(BINARY, b"x" * 900_000, key=KEY), frame(BINARY, b"y" * 900_000)
    async with (
        world() as w,
        tunnelled(w, agreed=AGREED + down, behind=up) as (client, upstream),
    ):
        await client.gets(down)
        await upstream.gets(up)


async def test_an_upstream_that_leaves_at_once_has_said_all() -> None:
    """Its agreement, its words and its end may come as one."""
    down = said({"type": "x"}) + close(1008, b"no")
    async with world() as w:
        w.upstream.answers(AGREED + down)
        async with opened(w.app.url, request("GET", "/v1/responses", *UPGRADE)) as client:
            await client.gets(AGREED, down)
            client.leave()
        await over(w)


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1009, 1011, 4000])
@pytest.mark.parametrize("is_upstream", [True, False])
async def test_the_code_of_a_close_passes(code: int, is_upstream: bool) -> None:
    """With its reason, whoever closes, and also where the connection ends right behind it."""
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        data = close(code, b"because", key=b"" if is_upstream else KEY)
        await one.send(data)
        one.leave()
        await other.gets(data)
        assert await other.ended()
        other.leave()
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


@pytest.mark.parametrize("ends", [Peer.leave, Peer.reset])
@pytest.mark.parametrize("is_upstream", [True, False])
@pytest.mark.parametrize("is_halfway", [True, False])
async def test_a_side_that_goes_ends_the_other(
    ends: Callable[[Peer], None], is_upstream: bool, is_halfway: bool
) -> None:
    """Without a close frame of our own; half a message goes out as it is."""
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        half = frame(TEXT, b"x" * 90, key=b"" if is_upstream else KEY)[:50] if is_halfway else b""
        await one.send(half)
        await asyncio.sleep(HELD_S)
        ends(one)
        await other.gets(half)
        assert await other.ended()
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
    ],
)
@pytest.mark.parametrize("target", TARGETS)
async def test_a_refused_upgrade_is_upstreams_refusal(
    status: str, headers: list[str], target: str
) -> None:
    """Its status, headers and body; the connection serves the next request."""
    body = b'{"error":{"message":"no","type":"x","param":null,"code":"y"}}'
    given = ["Content-Type: application/json", "x-request-id: req_7", *headers]
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(whole(body, *given, status=status), whole(b"{}"))
        got = await line.ask(request("GET", target, *UPGRADE))
        assert f"{got.status} {got.head.reason}" == status
        assert got.body == body
        assert got.head.headers == [
            tuple(header.split(": ", 1)) for header in [*given, f"Content-Length: {len(body)}"]
        ]
        assert (await line.ask(request("GET", "/v1/models"))).status == 200


async def test_the_handshake_is_the_clients() -> None:
    """Its key, version and subprotocols; but no extension where messages are read."""
    protocols = "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-a"
    agreed = AGREED[:-2] + b"Sec-WebSocket-Protocol: realtime\r\n\r\n"
    mine = [*UPGRADE, protocols, "OpenAI-Beta: responses_websockets=2026-02-06"]
    data = request("GET", "/v1/responses", *mine, "x-reasoning-replay-conversation: c")
    async with world() as w:
        for target in (b"/v1/responses", b"/v1/realtime"):
            w.upstream.answers(agreed)
            spelled = data.replace(b"/v1/responses", target, 1)
            async with opened(w.app.url, spelled) as client:
                await client.gets(agreed)
        read, unread = w.upstream.received
    assert read.headers[1:] == [
        ("Authorization", "Bearer sk-a"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", protocols.partition(": ")[2]),
        ("OpenAI-Beta", "responses_websockets=2026-02-06"),
        ("Connection", "Upgrade"),
        ("Upgrade", "WebSocket"),
    ]
    assert read.values("host") == [w.upstream.url.removeprefix("http://")]
    assert unread.values("sec-websocket-extensions") == [UPGRADE[-1].partition(": ")[2]]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(["Upgrade: h2c", "Connection: Upgrade"], id="another-protocol"),
        pytest.param(["Upgrade: websocket"], id="not-in-connection"),
        pytest.param(["Upgrade: websocket", "Connection: upgrade", "Content-Length: 0"], id="post"),
    ],
)
async def test_what_is_no_websocket_is_plain_http(headers: list[str]) -> None:
    """HTTP lets a server ignore an upgrade; it ends at this hop."""
    method = "POST" if "Content-Length: 0" in headers else "GET"
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(whole(b"{}"), whole(b"{}"))
        for _ in range(2):
            got = await line.ask(request(method, "/v1/files", *headers))
            assert (got.status, got.body) == (200, b"{}")
        assert w.upstream.received[0].values("upgrade") == []


@pytest.mark.parametrize("head", ["Connection: upgrade\r\n", ""])
@pytest.mark.parametrize("behind", [b"", said({"type": "x"})])
async def test_a_switch_to_nothing_is_a_fault_of_upstreams(head: str, behind: bytes) -> None:
    """Its connection is not used again: it may take the next request for frames."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode() + behind)
        got = await line.ask(request("GET", "/v1/responses", *UPGRADE))
        assert (got.status, got.mark) == (502, "error=upstream_failed")
        w.upstream.answers(whole(b"{}"))
        assert (await line.ask(request("GET", "/v1/models"))).status == 200
        assert w.upstream.connections == 2


@pytest.mark.parametrize("agreed", [AGREED, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_switch_that_nobody_asked_for_is_a_fault_of_upstreams(
    agreed: bytes, method: str
) -> None:
    """Nothing would come behind it that the client could read."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(agreed)
        body = b"{}" if method == "POST" else b""
        got = await line.ask(request(method, "/v1/responses", UPGRADE[0], body=body))
        assert (got.status, got.mark) == (502, "error=upstream_failed")
        w.upstream.answers(whole(b"{}"))
        assert (await line.ask(request("GET", "/v1/models"))).status == 200
        assert w.upstream.connections == 2


async def test_an_upstream_that_is_not_there_is_told_of() -> None:
    """With an error of ours, as on any route."""
    async with world(upstream_url="http://127.0.0.1:9/v1") as w:
        got = await w.ask(request("GET", "/v1/responses", *UPGRADE))
        assert (got.status, got.mark) == (502, "error=upstream_unreachable")


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_slow_reader_holds_the_writer_up(mode: str, is_upstream: bool) -> None:
    """What is not read stays with whoever writes it, not in our memory."""
    piece = frame(BINARY, b"x" * 65_000, key=KEY if is_upstream else b"")
    async with world() as w, served(upstream_url=w.upstream.url + "/v1", mode=mode) as proxy:
        await proxy.started()
        async with tunnelled(w, url=proxy.url) as (client, upstream):
            slow, writer = (upstream, client) if is_upstream else (client, upstream)
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            before, sent = proxy.peak_bytes, 0
            with contextlib.suppress(TimeoutError):
                while True:
                    await asyncio.wait_for(writer.send(piece), 0.5)
                    sent += 1
                    assert sent < 2000, "nobody held it up"
            assert proxy.peak_bytes - before < 8 << 20
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await slow.gets(*[piece] * sent)


async def test_it_is_the_same_on_uvloop() -> None:
    """As it is served: both ends, halves and closes."""
    up, down = frame(TEXT, b"x" * 900_000, key=KEY), frame(TEXT, b"y" * 900_000)
    async with world() as w, served(upstream_url=w.upstream.url + "/v1") as proxy:
        await proxy.started()
        async with tunnelled(w, url=proxy.url, behind=up, agreed=AGREED + down) as (c, u):
            await asyncio.gather(c.gets(down), u.gets(up))
            await c.send(up + close(1000, key=KEY))
            await u.gets(up, close(1000, key=KEY))
            await u.send(down + close(1000))
            u.leave()
            await c.gets(down, close(1000))
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


async def test_a_silent_tunnel_lives_on() -> None:
    """`read_timeout_s` is how long an answer may be silent; between turns nothing is said."""
    async with world(read_timeout_s=0.1) as w, tunnelled(w) as (client, upstream):
        await upstream.send(frame(PING))
        await client.gets(frame(PING))
        await asyncio.sleep(0.3)
        await client.send(frame(PONG, key=KEY))
        await upstream.gets(frame(PONG, key=KEY))
        await asyncio.sleep(0.3)
        await upstream.send(frame(PING))
        await client.gets(frame(PING))


async def test_a_bug_of_ours_ends_the_tunnel_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both sides are closed, and it is said; never what was in it."""

    async def fails(*_: object) -> None:
        raise ValueError("secret")

    monkeypatch.setattr("reasoning_replay.web.websocket.tunnel.LINGER_S", 0.05)
    async with world() as w, tunnelled(w) as (client, upstream):
        monkeypatch.setattr("reasoning_replay.web.websocket.tunnel._Tunnel._pass", fails)
        await client.send(frame(PING, key=KEY))
        assert await client.ended()
        assert await upstream.ended()
        await over(w)
    log = capsys.readouterr().out
    assert log.count('"bug"') == 1
    assert "secret" not in log
