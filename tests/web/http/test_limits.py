"""Limits: an error names the limit and the way out, and nothing changes below the limit."""

import asyncio
import contextlib
import gzip
import json
import resource
import sys

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import memory_budget
from reasoning_replay.web.http.client_connection import HEAD_MAX_BYTES
from reasoning_replay.web.wiring import connection_limits

from tests.patience import SOON_S
from tests.web.line import Answer, Broken, Line, line_to, request
from tests.web.scripted import Script, cut, scripted, send, wait
from tests.web.served import served
from tests.web.sockets import tunnelled
from tests.web.test_errors import assert_ours
from tests.web.wire import ASK, END, as_json, chunk, stream_head, whole
from tests.web.world import MODEL, eventually, post, world

KEY = "Authorization: Bearer sk-a"
OTHER_KEY = "Authorization: Bearer sk-b"
GET = request("GET", "/v1/models", KEY)
OK = whole(b"{}")


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the events that were logged since the last call."""
    return [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]


def retry_after(got: Answer) -> int:
    """Return the value of `Retry-After`, in seconds."""
    (value,) = got.head.values("retry-after")
    return int(value)


# --- connections ---


async def test_one_connection_too_many_is_answered_503_and_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A connection over the limit gets a 503, is counted each time, and is logged once."""
    async with world(max_connections=2) as w, line_to(w.app.url) as a, line_to(w.app.url) as b:
        w.upstream.otherwise = OK
        for line in (a, b):
            assert (await line.ask(GET)).status == 200
        logged(capsys)
        for _ in range(3):
            async with line_to(w.app.url) as more:
                got = await more.ask(GET)
                message = assert_ours(got, 503, "too_many_connections")
                assert "2 connections" in message
                assert "max_connections" in message
                assert retry_after(got) > 0
                assert await more.is_closed()
        assert (await a.ask(GET)).status == 200
        assert w.counted("exchanges_total", route="other", outcome="too_many_connections") == 3
        assert logged(capsys) == ["connections_full", "exchange"]

        await b.leave()
        await eventually(lambda: "connections_free" in logged(capsys))
        async with line_to(w.app.url) as more:
            assert (await more.ask(GET)).status == 200


async def test_a_refused_connection_that_sends_nothing_is_closed() -> None:
    """A refused connection that neither sends nor closes is closed after a moment."""
    async with world(max_connections=1) as w, line_to(w.app.url) as first:
        w.upstream.otherwise = OK
        assert (await first.ask(GET)).status == 200
        async with contextlib.AsyncExitStack() as stack:
            more = [await stack.enter_async_context(line_to(w.app.url)) for _ in range(80)]
            for line in more:
                assert (await line.head()).status == 503
                await line.rest()
                assert await line.is_closed()
        assert (await first.ask(GET)).status == 200


@pytest.mark.parametrize(("files", "most"), [(100, 37), (1000, 404), (100_000, 4096), (None, 4096)])
async def test_there_are_no_more_connections_than_files(
    files: int | None,
    most: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each connection needs two files, and a lowered limit is logged once."""
    monkeypatch.setattr("reasoning_replay.web.wiring.raise_file_limit", lambda: files)
    assert connection_limits(Settings(), Log("info", "json")).max_connections == most
    assert logged(capsys) == (["max_connections_lowered"] if most < 4096 else [])


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set by Linux")
async def test_the_process_survives_running_out_of_files() -> None:
    """While no file is free, connections are closed at once, without a busy loop."""
    async with scripted() as upstream, served(upstream_url=upstream.url + "/v1") as proxy:
        upstream.otherwise = OK
        await proxy.started()
        resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (48, 48))
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(100):
                await stack.enter_async_context(line_to(proxy.url))
            await asyncio.sleep(0.2)
            before_s = proxy.cpu_s
            await asyncio.sleep(1)
            assert proxy.cpu_s - before_s < 0.5
        await asyncio.sleep(0.2)
        async with line_to(proxy.url) as line:
            assert (await line.ask(GET)).status == 200


# --- exchanges ---


@pytest.mark.usefixtures("leaves_at_once")
@pytest.mark.parametrize("ends", ["answered", "cut off", "left"])
@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
async def test_one_exchange_too_many_is_answered_503(ends: str, target: str) -> None:
    """An exchange over the limit gets a 503 until another one ends, on the same connection."""
    script = Script([wait(), cut() if ends == "cut off" else send(OK)])
    body = as_json({"model": MODEL, "input": [ASK]})
    async with (
        world(max_exchanges=1) as w,
        line_to(w.app.url) as line,
        line_to(w.app.url) as other,
    ):
        w.upstream.plays(script)
        w.upstream.otherwise = OK
        await line.send(request("POST", target, KEY, body=body))
        await script.arrived.wait()
        got = await other.ask(request("POST", target, OTHER_KEY, body=body))
        message = assert_ours(got, 503, "too_many_exchanges")
        assert "max_exchanges" in message
        assert retry_after(got) > 0
        assert len(w.upstream.received) == 1

        if ends == "left":
            await line.leave()
        else:
            script.go()
            await gets(line)
        await eventually(lambda: w.app.handler.admission.count == 0)
        assert (await other.ask(GET)).status == 200
        assert (w.counted("in_flight"), w.counted("max_exchanges")) == (0, 1)


async def gets(line: Line) -> None:
    """Read a response, complete or not."""
    with contextlib.suppress(Broken):
        await line.head()
        await line.rest()


async def test_a_websocket_is_one_exchange() -> None:
    """A WebSocket counts as one exchange from its handshake to its end."""
    async with world(max_exchanges=1, tenant_max_exchanges=1) as w:
        async with tunnelled(w):
            assert_ours(await w.ask(GET), 503, "too_many_exchanges")
        await eventually(lambda: w.app.handler.admission.count == 0)
        w.upstream.answers(OK)
        assert (await w.ask(GET)).status == 200


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_one_exchange_of_a_tenant_too_many_is_answered_429(mode: str) -> None:
    """A tenant over its limit gets a 429; other tenants and requests without a key are served."""
    script = Script([wait(), send(OK)])
    async with world(tenant_max_exchanges=1, mode=mode) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        w.upstream.otherwise = OK
        await line.send(post({"model": MODEL, "input": [ASK]}))
        await script.arrived.wait()
        got = await w.ask(GET)
        message = assert_ours(got, 429, "tenant_too_many_exchanges")
        assert "tenant_max_exchanges" in message
        assert retry_after(got) > 0
        assert (await w.ask(request("GET", "/v1/models", OTHER_KEY))).status == 200
        assert (await w.ask(request("GET", "/v1/models"))).status == 200

        script.go()
        await gets(line)
        await eventually(lambda: w.app.handler.admission.count == 0)
        assert (await w.ask(GET)).status == 200
        assert w.app.handler.admission._tenants == {}


async def test_requests_without_a_credential_share_no_limit() -> None:
    """Requests without a credential do not count as one tenant."""
    script = Script([wait(), send(OK)])
    async with world(tenant_max_exchanges=1) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        w.upstream.otherwise = OK
        await line.send(request("GET", "/v1/models"))
        await script.arrived.wait()
        assert (await w.ask(request("GET", "/v1/models"))).status == 200


# --- bodies ---


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
@pytest.mark.parametrize("expects", [(), ("Expect: 100-continue",)])
async def test_a_body_that_says_it_is_too_large_is_not_read(
    target: str, expects: tuple[str, ...]
) -> None:
    """A body with too large a length gets a 413 before it is forwarded or asked for."""
    async with world(body_max_bytes=1000) as w, line_to(w.app.url) as line:
        got = await line.ask(request("POST", target, KEY, "Content-Length: 1001", *expects))
        message = assert_ours(got, 413, "body_too_large")
        assert "1,001 bytes" in message
        assert "the limit is 1,000 bytes (body_max_bytes)" in message
        assert w.upstream.connections == 0
        outcome = {"route": "responses" if "resp" in target else "files"}
        assert w.counted("exchanges_total", **outcome, outcome="body_too_large") == 1


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
async def test_a_body_of_just_the_limit_passes(target: str) -> None:
    """A body of exactly the limit passes, with a length and in chunks."""
    body = as_json({"input": "x" * 985})
    async with world(body_max_bytes=1000, include="never") as w:
        w.upstream.otherwise = OK
        await w.ask(request("POST", target, KEY, body=body[:1000]))
        framed = chunk(body[:600]) + chunk(body[600:1000]) + END
        await w.ask(request("POST", target, KEY, "Transfer-Encoding: chunked") + framed)
        assert [len(got.body) for got in w.upstream.received] == [len(body), len(body)]


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
async def test_a_body_that_turns_out_too_large_ends_what_was_begun(target: str) -> None:
    """A chunked body over the limit gets a 413, and upstream is left within the body."""
    script = Script([wait()], reads_body=False)
    async with world(body_max_bytes=1000, inspect_max_bytes=500) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", target, KEY, "Transfer-Encoding: chunked"))
        await line.send(chunk(b"x" * 600))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        await line.send(chunk(b"x" * 600))
        message = assert_ours(Answer(await line.head(), await line.rest()), 413, "body_too_large")
        assert "body_max_bytes" in message
        await asyncio.wait_for(script.left.wait(), SOON_S)


async def test_a_body_that_turns_out_too_large_cuts_off_an_answer_that_has_begun() -> None:
    """If a response has begun, a body over the limit breaks it off without a proper end."""
    script = Script([send(stream_head() + chunk(b"data: 1\n\n")), wait()], reads_body=False)
    async with world(body_max_bytes=1000) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", "/v1/files", KEY, "Transfer-Encoding: chunked"))
        await line.send(chunk(b"x" * 600))
        assert (await line.head()).status == 200
        assert await line.some() == b"data: 1\n\n"
        await line.send(chunk(b"x" * 600))
        assert await line.until_it_ends() == (b"", False)
        await asyncio.wait_for(script.left.wait(), SOON_S)
        await eventually(
            lambda: w.counted("exchanges_total", route="files", outcome="cut_off") == 1
        )


async def test_zero_means_no_limit_on_bodies() -> None:
    """The limit 0 lets bodies of any size pass."""
    async with world(body_max_bytes=0) as w:
        w.upstream.answers(OK)
        assert (await w.ask(request("POST", "/v1/files", KEY, body=b"x" * 3_000_000))).status == 200
        assert len(w.upstream.received[0].body) == 3_000_000


# --- heads ---

MOST = HEAD_MAX_BYTES


def head_of(size: int, *, fields: int = 8, body: bytes | None = None) -> bytes:
    """Return a request whose head has exactly this size, with no long line."""
    bare = len(request("POST", "/v1/files", KEY, *(f"X-{n}: " for n in range(fields)), body=body))
    more = size + len(body or b"") - bare
    share, rest = divmod(more, fields)
    lines = [f"X-{n}: " + "v" * (share + (n < rest)) for n in range(fields)]
    return request("POST", "/v1/files", KEY, *lines, body=body)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(head_of(MOST + 1), id="in-all"),
        pytest.param(head_of(MOST + 1, body=b"x" * 9000), id="with-a-body-after-it"),
        pytest.param(request("GET", "/v1/" + "x" * MOST), id="by-its-line"),
        pytest.param(request("GET", "/v1/files", "X: " + "x" * MOST), id="by-one-header"),
        pytest.param(request("GET", "/v1/files", *["X: y"] * 200), id="by-their-number"),
        pytest.param(b"GET /v1/files HTTP/1.1\r\nHost: x\r\nX: " + b"x" * MOST, id="without-end"),
        pytest.param(head_of(MOST + 5)[:-4], id="in-short-lines-without-end"),
        pytest.param(b"G" * (MOST + 1), id="no-line-at-all"),
    ],
)
@pytest.mark.parametrize("drips", [False, True])
async def test_a_head_that_is_too_large_is_answered_431(data: bytes, drips: bool) -> None:
    """Request line and headers count together, and the 431 is sent as soon as possible."""
    async with world() as w, line_to(w.app.url) as line:
        with contextlib.suppress(ConnectionError):  # the proxy need not read the rest
            step = 4000 if drips else len(data)
            for at in range(0, len(data), step):
                await line.send(data[at : at + step])
                await asyncio.sleep(0.002 if drips else 0)
        got = Answer(await line.head(), await line.rest())
        if data.startswith(b"GGG"):
            assert got.status == 400  # no method is this long
            return
        message = assert_ours(got, 431, "head_too_large")
        assert "65,536 bytes" in message
        assert w.upstream.connections == 0
        assert w.counted("exchanges_total", route="other", outcome="head_too_large") == 1


@pytest.mark.parametrize("body", [None, b"x" * 9000])
@pytest.mark.parametrize("drips", [False, True])
async def test_a_head_of_just_the_limit_passes(body: bytes | None, drips: bool) -> None:
    """Heads of exactly the limit pass, also one after the other and with large bodies."""
    data = head_of(MOST, body=body)
    assert data.index(b"\r\n\r\n") + 4 == MOST
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.otherwise = OK
        for _ in range(3):
            for at in range(0, len(data), 4000 if drips else len(data)):
                await line.send(data[at : at + 4000] if drips else data)
            assert Answer(await line.head(), await line.rest()).status == 200
        assert [received.body for received in w.upstream.received] == [body or b""] * 3


async def test_requests_sent_at_once_are_measured_each_for_itself() -> None:
    """The head of each pipelined request is measured alone."""
    small = request("GET", "/v1/models", KEY, "X: " + "x" * 40_000)
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.otherwise = OK
        await line.send(small + small + head_of(MOST + 1) + small)
        for status in (200, 200, 431):
            assert Answer(await line.head(), await line.rest()).status == status
        assert await line.is_closed()
        assert len(w.upstream.received) == 2


async def test_a_head_without_end_does_no_harm_to_the_exchange_before_it() -> None:
    """The exchange before an endless head is answered, then the connection is closed."""
    script = Script([wait(), send(OK)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(GET)
        await script.arrived.wait()
        await line.send(b"GET /v1/files HTTP/1.1\r\nHost: x\r\n")
        for n in range(20):
            await line.send(b"X-%d: %b\r\n" % (n, b"y" * 8000))
            await asyncio.sleep(0.002)
        assert w.counted("exchanges_total", route="other", outcome="head_too_large") == 1
        script.go()
        assert (await line.head()).status == 200
        assert await line.rest() == b"{}"
        assert await line.is_closed()
        assert len(w.upstream.received) == 1


# --- buffered requests ---

QUESTION = as_json({"model": MODEL, "input": [ASK | {"content": "x" * 900}]})
FRAMED = request("POST", "/v1/responses", KEY, "Transfer-Encoding: chunked") + chunk(QUESTION) + END
PACKED = post(gzip.compress(QUESTION), KEY, "Content-Encoding: gzip")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(post(QUESTION), id="with-a-length"),
        pytest.param(FRAMED, id="in-chunks"),
        pytest.param(PACKED, id="encoded"),
    ],
)
async def test_a_body_without_room_is_streamed_unread(data: bytes) -> None:
    """While other requests fill the buffer, a body is streamed unread; then there is room again."""
    async with world(inspect_total_max_bytes=1500, include="never") as w:
        for _ in range(3):
            async with line_to(w.app.url) as line:
                w.upstream.plays(held := Script([wait(), send(OK)]))
                await line.send(post(QUESTION))
                await asyncio.wait_for(held.arrived.wait(), SOON_S)
                w.upstream.answers(OK, OK)
                got = await w.ask(data)
                assert got.mark == "injected=0, asked=busy"
                held.go()
                assert (await line.head()).status == 200
                await line.rest()
            got = await w.ask(data)
            assert got.mark == "injected=0"
            w.upstream.received.clear()
        assert w.counted("requests_total", result="busy") == 3


async def test_a_short_body_takes_room_as_it_arrives() -> None:
    """The announced length of a short body blocks no other request."""
    async with (
        world(inspect_total_max_bytes=1500, include="never") as w,
        line_to(w.app.url) as idle,
    ):
        w.upstream.otherwise = OK
        await idle.send(request("POST", "/v1/responses", KEY, "Content-Length: 1400") + b"{")
        await eventually(lambda: w.app.handler.admission.count == 1)
        for _ in range(3):
            assert (await w.ask(post(QUESTION))).mark == "injected=0"


@pytest.mark.parametrize("is_framed", [True, False])
async def test_a_body_that_runs_out_of_room_is_streamed_from_there(
    is_framed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that waits for room in vain is forwarded complete, and its room is free again."""
    monkeypatch.setattr(memory_budget, "WAIT_S", 0.05)
    question = as_json({"model": MODEL, "input": [ASK | {"content": "x" * 400_000}]})
    start = question[:300_000]
    async with (
        world(inspect_total_max_bytes=500_000, include="never") as w,
        line_to(w.app.url) as first,
        line_to(w.app.url) as second,
    ):
        w.upstream.otherwise = OK
        framing = "Transfer-Encoding: chunked" if is_framed else f"Content-Length: {len(question)}"
        spelled = chunk if is_framed else bytes
        for line in (first, second):
            await line.send(request("POST", "/v1/responses", KEY, framing) + spelled(start))
        await eventually(lambda: w.upstream.connections == 1)  # there is no room for the other one
        ends = spelled(question[300_000:]) + (END if is_framed else b"")
        await first.send(ends)
        await second.send(ends)
        marks = [Answer(await line.head(), await line.rest()).mark for line in (first, second)]
        assert sorted(marks, key=str) == ["injected=0", "injected=0, asked=busy"]
        assert [received.body for received in w.upstream.received] == [question] * 2
        assert (await w.ask(post(question))).mark == "injected=0"


async def test_a_large_encoded_body_is_unpacked_only_where_there_is_room() -> None:
    """An encoded body takes room for its decoded size, which is found out before it is decoded."""
    body = as_json({"model": MODEL, "input": [ASK | {"content": "x" * 2_000_000}]})
    packed = post(gzip.compress(body), KEY, "Content-Encoding: gzip")
    for room, mark in ((1_900_000, "injected=0, asked=busy"), (2_200_000, "injected=0")):
        async with world(inspect_total_max_bytes=room, include="never") as w:
            w.upstream.otherwise = OK
            for _ in range(2):
                assert (await w.ask(packed)).mark == mark
