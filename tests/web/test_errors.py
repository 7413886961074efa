"""Errors that are ours are told apart from upstream's, and say the way out."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from tests.web.line import Answer, Line, line_to, request
from tests.web.scripted import Script, Step, close, cut, scripted, send, wait
from tests.web.served import served
from tests.web.wire import ASK, CALL, RS, chunk, events, head, stream_head, whole
from tests.web.world import MODEL, eventually, post, world

KEY = "Authorization: Bearer sk-a"
REQUEST = post({"model": MODEL, "input": [ASK]})
STREAM = events(RS, CALL)


def assert_ours(got: Answer, status: int, code: str) -> str:
    """Check the shape that SDKs read, and return the message."""
    body = json.loads(got.body)
    assert list(body) == ["error"]
    message: str = body["error"].pop("message")
    assert body["error"] == {"type": "proxy_error", "param": None, "code": code}
    assert (got.status, got.mark) == (status, f"error={code}")
    assert got.head.values("content-type")[0].startswith("application/json")
    return message


@contextlib.contextmanager
def deaf() -> Iterator[str]:
    """Give the URL of a port that never completes a connection: its queue is full."""
    with socket.socket() as listening, contextlib.ExitStack() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            line = waiting.enter_context(socket.socket())
            line.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                line.connect(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("data", [REQUEST, request("GET", "/v1/models", KEY)])
async def test_an_unreachable_upstream_is_a_502(data: bytes) -> None:
    """It names the upstream and what to check."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with world(upstream_url=url + "/v1") as w:
        message = assert_ours(await w.ask(data), 502, "upstream_unreachable")
        assert url in message
        assert "REPLAY_UPSTREAM_URL" in message


async def test_an_upstream_that_speaks_no_tls_is_a_502() -> None:
    """A wrong scheme is a wrong address."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with world(upstream_url=f"https://127.0.0.1:{port}/v1") as w:
            assert_ours(await w.ask(REQUEST), 502, "upstream_unreachable")


async def test_a_connection_that_is_not_accepted_is_a_504() -> None:
    """After connect_timeout_s, which the message names."""
    with deaf() as url:
        async with world(upstream_url=url + "/v1", connect_timeout_s=0.1) as w:
            message = assert_ours(await w.ask(REQUEST), 504, "upstream_timeout")
            assert "connect_timeout_s" in message


async def test_a_silent_upstream_is_a_504() -> None:
    """After first_byte_timeout_s, which the message names; the request was sent once."""
    async with world(first_byte_timeout_s=0.1) as w:
        w.upstream.plays(Script([wait()]))
        message = assert_ours(await w.ask(REQUEST), 504, "upstream_timeout")
        assert "first_byte_timeout_s" in message
        assert len(w.upstream.received) == 1


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([close()], id="closed"),
        pytest.param([cut()], id="reset"),
        pytest.param([send(b"HTTP/1.1 200 O"), close()], id="half-a-status-line"),
        pytest.param([send(b"HTTP/1.1 200 OK\r\nContent-Le"), close()], id="half-a-head"),
        pytest.param([send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), close()], id="another-protocol"),
        pytest.param([send(b"HTTP/1.1 abc OK\r\n\r\n"), close()], id="no-status"),
        pytest.param([send(head("X-Long: " + "x" * 70_000)), close()], id="too-long-a-head"),
    ],
)
async def test_an_upstream_that_ends_before_its_head_is_a_502(steps: list[Step]) -> None:
    """Nothing of an answer was received, and nothing is tried again."""
    async with world() as w:
        w.upstream.plays(Script(steps))
        assert_ours(await w.ask(REQUEST), 502, "upstream_failed")
        assert len(w.upstream.received) == 1


async def test_after_an_error_the_connection_goes_on() -> None:
    """A client's pool need not be refilled."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([close()]))
        w.upstream.answers(whole(b"{}"))
        assert_ours(await line.ask(REQUEST), 502, "upstream_failed")
        assert (await line.ask(REQUEST)).status == 200


BROKEN = [
    pytest.param(stream_head(), [send(b"ff\r\nhalf"), close()], id="in-a-chunk"),
    pytest.param(stream_head(), [close()], id="between-chunks"),
    pytest.param(stream_head(), [cut()], id="reset"),
    pytest.param(stream_head(), [send(b"zz\r\n"), wait()], id="not-a-chunk"),
    pytest.param(head("Content-Length: 999"), [close()], id="short-of-its-length"),
    pytest.param(head("Content-Length: 999"), [cut()], id="reset-short-of-its-length"),
]


@pytest.mark.parametrize(("start", "end"), BROKEN)
@pytest.mark.parametrize("route", ["responses", "other"])
async def test_an_answer_that_is_cut_off_is_not_whole_for_the_client(
    start: bytes, end: list[Step], route: str
) -> None:
    """It sees everything that upstream sent, and then a break: never an end."""
    first = chunk(STREAM[0]) if start == stream_head() else STREAM[0]
    script = Script([send(start + first), wait(), *end])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(REQUEST if route == "responses" else request("GET", "/v1/files", KEY))
        assert (await line.head()).status == 200
        assert await line.exactly(len(STREAM[0])) == STREAM[0]

        script.go()
        read, is_whole = await line.until_it_ends()
        assert (read.removesuffix(b"half"), is_whole) == (b"", False)
        await eventually(lambda: w.counted("exchanges_total", route=route, outcome="cut_off") == 1)


async def test_an_upstream_that_falls_silent_is_cut_off() -> None:
    """After read_timeout_s; what came before has long been passed on."""
    async with world(read_timeout_s=0.1) as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(stream_head() + chunk(STREAM[0])), wait()]))
        await line.send(REQUEST)
        await line.head()
        assert await line.until_it_ends() == (STREAM[0], False)


async def slow_reader(line: Line) -> tuple[int, bool]:
    """Let what upstream sends pile up before reading it."""
    await line.send(REQUEST)
    await line.head()
    await asyncio.sleep(0.05)
    read, is_whole = await line.until_it_ends()
    return len(read), is_whole


async def test_a_slow_client_too_sees_the_break() -> None:
    """Also where much is still to be written when upstream breaks off."""
    size = 8 << 20
    steps = [send(head("Transfer-Encoding: chunked") + chunk(b"x" * size)), close()]
    async with scripted() as upstream:
        upstream.plays(Script(steps), Script(steps))
        async with (
            served(upstream_url=upstream.url + "/v1") as proxy,  # as it is served: on uvloop
            world(upstream_url=upstream.url + "/v1") as w,
        ):
            await proxy.started()
            for url in (proxy.url, w.app.url):
                async with line_to(url) as line:
                    assert await slow_reader(line) == (size, False)


@pytest.mark.parametrize(
    "line", ["GET http://api.openai.com/v1/models", "OPTIONS *", "CONNECT api.openai.com:443"]
)
async def test_a_target_that_is_no_path_is_refused(line: str) -> None:
    """A client that took us for a forward proxy is told which setting was meant."""
    async with world() as w:
        got = await w.ask(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert "OPENAI_BASE_URL" in assert_ours(got, 400, "bad_target")
        assert w.upstream.received == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /v1/models HTTP/one\r\n\r\n", id="no-version"),
        pytest.param(b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n", id="no-header"),
        pytest.param(request("GET", "/v1/models", "X: " + "x" * 70_000), id="too-long-a-header"),
        pytest.param(
            request("POST", "/v1/files", "Content-Length: 2", "Transfer-Encoding: chunked"),
            id="two-lengths",
        ),
    ],
)
async def test_a_request_that_is_no_http_is_refused_in_our_shape(data: bytes) -> None:
    """Whatever refuses it, a client reads the same kind of error."""
    async with world() as w:
        got = await w.ask(data)
        assert 400 <= got.status < 500
        assert json.loads(got.body)["error"]["type"] == "proxy_error"


async def test_a_malformed_request_is_not_quoted_in_a_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is wrong with it may be wrong with its key."""
    async with world() as w:
        got = await w.ask(request("GET", "/v1/models", "Authorization: Bearer sk-secret-\x01"))
        assert got.status == 400
    assert "sk-secret" not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
async def test_a_body_that_is_no_chunks_is_not_our_failure(target: str) -> None:
    """The client's fault is told as one, or the connection is closed; it is never a 500."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([wait()], reads_body=False))
        await line.send(request("POST", target, KEY, "Transfer-Encoding: chunked") + b"zz\r\n{}")
        with contextlib.suppress(Exception):
            assert (await line.head()).status == 400
        assert w.counted("exchanges_total", route="responses", outcome="proxy_failed") == 0
        assert w.counted("exchanges_total", route="other", outcome="proxy_failed") == 0
