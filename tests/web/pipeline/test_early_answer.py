"""Early answers: an upstream that answers while a body is still being sent to it."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine

import pytest
import uvloop
from reasoning_replay.adapters.upstream import connection
from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress

from tests.fast_lane import IS_EVERY
from tests.patience import LONG_S, SOON_S
from tests.web.authority import Authority
from tests.web.line import line_to, request
from tests.web.wire import END, chunk, head, whole
from tests.web.world import eventually, world

KEY = "Authorization: Bearer sk-a"
NO = whole(b"too large", "Connection: close", status="413 Too Large")
PIECE = b"x" * (128 << 10)  # written at once
PIECES = 32  # more than a connection buffers
SIZE = len(PIECE) * PIECES
ROUNDS = 20 if IS_EVERY else 3
LENGTH, CHUNKED = f"Content-Length: {SIZE}", "Transfer-Encoding: chunked"

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Serve = Callable[[Reader, Writer], Coroutine[None, None, None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    """Serve on a free port, and yield the origin."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


class Refusing(threading.Thread):
    """
    Upstream in a thread, for one connection: it answers the head and closes.

    The bytes of the body that it has not read make that a reset.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self.url = f"http{'s' * bool(tls)}://127.0.0.1:{self._listening.getsockname()[1]}"
        self.may_answer, self.has_closed = threading.Event(), threading.Event()

    def run(self) -> None:
        """Serve one connection."""
        connection, _ = self._listening.accept()
        # Else the kernel may hold the answer back, and the reset discards it.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._listening, connection:
            near = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            read = b""
            while b"\r\n\r\n" not in read:
                read += near.recv(1)
            self.may_answer.wait(SOON_S)
            near.sendall(NO)
            near.close()
        self.has_closed.set()


async def refused(run: Refusing, ca_file: str = "") -> bytes:
    """Upload to it, and write the next piece after the reset has arrived; return what is read."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield PIECE
        await asyncio.sleep(0.01)  # it is in the kernel of the upstream
        run.may_answer.set()
        run.has_closed.wait(SOON_S)  # the event loop reads nothing meanwhile
        for _ in range(PIECES):
            yield PIECE

    near = UpstreamClient(Timeouts(SOON_S, SOON_S, LONG_S), egress(run.url, ca_file))
    try:
        answer = await near.send("POST", run.url + "/v1/files", [], pieces())
        return await answer.read()
    finally:
        await near.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority of the upstream's certificate."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("is_tls", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_answer_before_a_reset_is_read(
    run: Callable[[Coroutine[None, None, bytes]], bytes], authority: Authority, *, is_tls: bool
) -> None:
    """Before each piece the event loop reads its input, because a write would fail."""
    upstream = Refusing(authority.server("127.0.0.1") if is_tls else None)
    upstream.start()
    assert run(refused(upstream, str(authority.file) if is_tls else "")) == b"too large"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_answer_is_read_after_a_write_has_failed(
    run: Callable[[Coroutine[None, None, bytes]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset that arrives between the look for input and the write, as with no look at all."""
    monkeypatch.setattr(connection, "unread_poll", lambda _: None)
    upstream = Refusing(None)
    upstream.start()
    assert run(refused(upstream)) == b"too large"


async def refuse(reader: Reader, writer: Writer) -> None:
    """Answer a head at once and close."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(NO)
    await writer.drain()
    writer.close()


async def test_the_client_gets_the_refusal() -> None:
    """Through the whole proxy, in both framings."""
    async with listening(refuse) as url, world(upstream_url=url + "/v1") as w:
        for framing in (LENGTH, CHUNKED):
            for _ in range(ROUNDS):
                async with line_to(w.app.url) as line:
                    body = PIECE * PIECES
                    sent = body if framing == LENGTH else chunk(body) + END
                    data = request("POST", "/v1/files", KEY, framing) + sent
                    sending = asyncio.ensure_future(line.send(data))
                    assert (await line.head()).status == 413
                    assert await line.rest() == b"too large"
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)


class Slow:
    """Upstream that answers at once, and reads on; it counts the bytes after the head."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.read: list[int] = []

    async def serve(self, reader: Reader, writer: Writer) -> None:
        """Answer each request with a length, then read its body."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                fields = (await reader.readuntil(b"\r\n\r\n")).lower()
                at = len(self.read)
                self.read.append(0)
                writer.write(self.answer)
                size = int(fields.partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
                while self.read[at] < size and (data := await reader.read(size - self.read[at])):
                    self.read[at] += len(data)
        writer.close()


@pytest.mark.parametrize("is_last", [False, True], ids=["stays", "closes"])
async def test_an_upload_goes_on_after_an_early_answer(*, is_last: bool) -> None:
    """The upstream reads all of it (RFC 9110, 7.5); after that its connection is used again."""
    fields = ["Connection: close"] if is_last else ["X: y"]
    far = Slow(whole(b"ok", *fields, status="202 Accepted"))
    async with listening(far.serve) as url, world(upstream_url=url + "/v1") as w:
        async with line_to(w.app.url) as line:
            await line.send(request("POST", "/v1/files", KEY, LENGTH))
            assert (await line.head()).status == 202
            assert await line.rest() == b"ok"
            await eventually(lambda: w.counted("in_flight") == 1)
            await line.send(PIECE * PIECES)
            await eventually(lambda: far.read == [SIZE])
            await eventually(lambda: w.counted("in_flight") == 0)
            assert (await line.ask(request("GET", "/v1/models", KEY))).status == 202
        connections = len(w.app.upstreams[""]._connections)
        assert connections == (0 if is_last else 1)
        assert w.counted("exchanges_total", outcome="ok") == 2


async def test_a_client_that_ends_its_upload_early_ends_the_exchange() -> None:
    """What it sent until then has reached the upstream; nothing of the exchange is left."""
    far = Slow(whole(b"ok", status="202 Accepted"))
    async with listening(far.serve) as url, world(upstream_url=url + "/v1") as w:
        async with line_to(w.app.url) as line:
            await line.send(request("POST", "/v1/files", KEY, LENGTH) + PIECE)
            assert (await line.head()).status == 202
            await eventually(lambda: far.read == [len(PIECE)])
        await eventually(lambda: w.counted("in_flight") == 0)
        await eventually(lambda: not w.app.upstreams[""]._connections)


async def test_an_upstream_that_closes_after_its_answer_ends_the_upload() -> None:
    """The client has its answer, and the proxy does not wait for the rest of the body."""

    async def answer(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head("Content-Length: 2", status="202 x") + b"ok")
        await writer.drain()
        writer.close()

    async with (
        listening(answer) as url,
        world(upstream_url=url + "/v1") as w,
        line_to(w.app.url) as line,
    ):
        await line.send(request("POST", "/v1/files", KEY, LENGTH) + PIECE)
        assert (await line.head()).status == 202
        await eventually(lambda: w.counted("in_flight") == 0)
