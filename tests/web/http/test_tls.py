"""TLS on the clients' port: it works with SDKs, and certificates are renewed without a restart."""

import asyncio
import contextlib
import json
import signal
import ssl
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from cryptography import x509

from tests.fast_lane import first
from tests.patience import SOON_S
from tests.web.authority import Authority
from tests.web.line import Answer, Line, request
from tests.web.scripted import Script, scripted, send, wait
from tests.web.served import served
from tests.web.stalls import LARGE_BYTES, stops_reading
from tests.web.test_errors import assert_ours
from tests.web.wire import CALL, RS, as_json, events, response, stream, whole
from tests.web.world import World, eventually, world

KEY = "Authorization: Bearer sk-a"
GET = request("GET", "/v1/models", KEY)


class Files:
    """Certificate and key, in the files that a proxy uses."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.renew("localhost", "127.0.0.1")

    def renew(self, *names: str) -> None:
        """Replace both files with a new pair."""
        self.authority.write(self.cert, self.key, *names)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that name both files."""
        return {"tls_cert_file": str(self.cert), "tls_key_file": str(self.key)}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A valid pair."""
    return Files(tmp_path)


@contextlib.asynccontextmanager
async def secure_line(url: str, context: ssl.SSLContext) -> AsyncIterator[Line]:
    """Open a connection over TLS."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port, ssl=context, limit=1 << 20
    )
    line = Line(reader, writer)
    try:
        yield line
    finally:
        with contextlib.suppress(ssl.SSLError):
            await line.leave()


def logged(capsys: pytest.CaptureFixture[str], *events: str) -> list[str]:
    """Return the logged events that are among these."""
    lines = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    return [event for event in lines if event in events]


async def shown(w: World, files: Files) -> set[str]:
    """Return the names in the certificate that a new client gets."""
    context = files.authority.client()
    context.check_hostname = False
    async with secure_line(w.app.url, context) as line:
        connection = line._writer.get_extra_info("ssl_object")
        der = connection.getpeercert(binary_form=True)
    names = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return set(names.value.get_values_for_type(x509.DNSName))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("is_served", [False, True])
async def test_reasoning_is_injected_over_tls(files: Files, host: str, is_served: bool) -> None:
    """Replay works over TLS with the SDK, by host name and by address, at the logged URL."""
    async with scripted() as upstream, contextlib.AsyncExitStack() as stack:
        base = upstream.url + "/v1"
        upstream.answers(stream(events(RS, CALL)), whole(as_json(response())))
        if is_served:
            proxy = await stack.enter_async_context(served(upstream_url=base, **files.settings))
            await proxy.started()
            url = proxy.url
        else:
            w = await stack.enter_async_context(world(upstream_url=base, **files.settings))
            url = w.app.url
        assert url.startswith("https://")
        http = openai.DefaultAsyncHttpxClient(verify=files.authority.client(), trust_env=False)
        sdk = await stack.enter_async_context(
            openai.AsyncOpenAI(
                base_url=url.replace("127.0.0.1", host) + "/v1", api_key="sk-a", http_client=http
            )
        )
        got = await sdk.responses.create(model="gpt-5.4", input="x", stream=True)
        assert [event.type async for event in got][-1] == "response.completed"
        await sdk.responses.create(model="gpt-5.4", input=[{"role": "user", "content": "x"}, CALL])  # type: ignore[list-item]
        assert json.loads(upstream.received[1].body)["input"][1]["id"] == RS["id"]


async def test_it_is_http_1_1_over_tls_1_2_or_newer(files: Files) -> None:
    """Older TLS versions are refused, and ALPN only selects HTTP/1.1."""
    async with world(**files.settings) as w:
        context = files.authority.client()
        context.set_alpn_protocols(["h2", "http/1.1"])
        async with secure_line(w.app.url, context) as line:
            connection = line._writer.get_extra_info("ssl_object")
            assert connection.selected_alpn_protocol() == "http/1.1"
            assert connection.version() == "TLSv1.3"
        old = files.authority.client()
        with warnings.catch_warnings(action="ignore"):  # TLS 1.1 is deprecated
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with secure_line(w.app.url, old):
                pass


async def test_a_renewed_certificate_is_shown_to_new_connections(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """New connections get a renewed certificate, and open connections go on."""
    context = files.authority.client()
    async with world(**files.settings) as w, secure_line(w.app.url, context) as line:
        w.upstream.otherwise = whole(b"{}")
        assert await shown(w, files) == {"localhost"}
        files.renew("renewed.test")
        assert await shown(w, files) == {"renewed.test"}
        assert (await line.ask(GET)).status == 200
        assert logged(capsys, "tls_reloaded", "tls_unchanged") == ["tls_reloaded"]


async def test_a_pair_that_is_swapped_by_a_link_is_noticed(tmp_path: Path) -> None:
    """A pair that is swapped by a symbolic link is reloaded, as Kubernetes does with secrets."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = Files(tmp_path / "one"), Files(tmp_path / "two")
    second.renew("swapped.test")
    link = tmp_path / "data"
    link.symlink_to("one")
    settings = {"tls_cert_file": str(link / "tls.crt"), "tls_key_file": str(link / "tls.key")}
    async with world(**settings) as w:
        assert await shown(w, first) == {"localhost"}
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(link)
        assert await shown(w, second) == {"swapped.test"}


async def test_a_broken_pair_leaves_the_old_one_in_place(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken pair is logged once, and the old pair is served until there is a good one."""
    async with world(**files.settings) as w:
        good = files.key.read_bytes()
        files.renew("other.test")
        files.key.write_bytes(good)  # no longer matches the certificate
        for _ in range(3):
            assert await shown(w, files) == {"localhost"}
        files.cert.write_bytes(files.cert.read_bytes()[:300])
        for _ in range(3):
            assert await shown(w, files) == {"localhost"}
        files.key.unlink()
        for _ in range(3):
            assert await shown(w, files) == {"localhost"}
        assert logged(capsys, "tls_reloaded", "tls_unchanged") == ["tls_unchanged"] * 3
        files.renew("good.test")
        assert await shown(w, files) == {"good.test"}
        assert logged(capsys, "tls_reloaded", "tls_unchanged") == ["tls_reloaded"]


@pytest.mark.parametrize("fault", first(2, ["two kinds", "a password", "no key", "no certificate"]))
async def test_a_bad_pair_at_the_start_is_one_line(files: Files, fault: str) -> None:
    """A broken pair at the start ends the process with one line that names the files."""
    match fault:
        case "two kinds":
            good = files.key.read_bytes()
            files.renew("other.test")
            files.key.write_bytes(good)
        case "no key":
            files.key.write_bytes(b"not a key")
        case "no certificate":
            files.cert.write_bytes(b"")
        case _:
            from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415

            key = form.load_pem_private_key(files.key.read_bytes(), None)
            secret = form.BestAvailableEncryption(b"secret")
            pem, kind = form.Encoding.PEM, form.PrivateFormat.PKCS8
            files.key.write_bytes(key.private_bytes(pem, kind, secret))
    async with served(**files.settings) as proxy:
        line = await proxy.until("cannot_listen")
        assert "tls_cert_file" in line["reason"]
        assert str(files.cert) in line["reason"]
        assert await proxy.exit_code() == 1


async def test_plain_http_on_the_tls_port_does_no_harm(files: Files) -> None:
    """Plain HTTP on the TLS port is closed without a response, and the next client is served."""
    async with world(**files.settings) as w:
        w.upstream.otherwise = whole(b"{}")
        parts = urlsplit(w.app.url)
        for data in (GET, b"\x16\x03\x01\xff\xff", b"\x00" * 5000):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                writer.write_eof()
                assert b"HTTP" not in await asyncio.wait_for(reader.read(), SOON_S)
            writer.close()
        async with secure_line(w.app.url, files.authority.client()) as line:
            assert (await line.ask(GET)).status == 200


async def test_limits_hold_over_tls(files: Files) -> None:
    """Over TLS too, a refused client can read the error, and a stalled client is cut off."""
    context = files.authority.client()
    async with (
        world(max_connections=1, client_timeout_s=0.5, **files.settings) as w,
        secure_line(w.app.url, context) as line,
    ):
        large = whole(b"x" * LARGE_BYTES)
        w.upstream.plays(Script([send(whole(b"{}"))]), Script([send(large), wait()]))
        assert (await line.ask(GET)).status == 200
        async with secure_line(w.app.url, context) as more:
            await more.send(GET)
            assert_ours(Answer(await more.head(), await more.rest()), 503, "too_many_connections")
        stops_reading(line._writer)
        await line.send(GET)
        stalled = {"route": "models", "outcome": "client_stalled"}
        await eventually(lambda: w.counted("exchanges_total", **stalled) == 1)
        line._writer.transport.abort()


async def silent(url: str, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open this many connections, and send nothing."""
    parts = urlsplit(url)
    return [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(count)]


async def test_a_connection_without_a_handshake_is_closed_in_time(files: Files) -> None:
    """Connections without a handshake are closed in time, and take no connection slot."""
    context = files.authority.client()
    async with world(max_connections=4, idle_timeout_s=1.5, **files.settings) as w:
        w.upstream.otherwise = whole(b"{}")
        connections = await silent(w.app.url, 20)
        async with secure_line(w.app.url, context) as line:
            assert (await line.ask(GET)).status == 200
        for reader, writer in connections:
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(1), SOON_S) == b""
            writer.close()


@pytest.mark.parametrize("size", [0, 300_000])
async def test_a_request_in_one_flight_with_the_end_of_the_handshake(
    files: Files, size: int
) -> None:
    """A request that arrives together with the end of the handshake is read."""
    body = b"x" * size
    async with world(**files.settings) as w:
        w.upstream.otherwise = whole(b"{}")
        parts = urlsplit(w.app.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = files.authority.client().wrap_bio(
            incoming, outgoing, server_hostname=parts.hostname
        )
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                break
            writer.write(outgoing.read())
            incoming.write(await reader.read(1 << 16))
        client.write(request("POST", "/v1/files", KEY, body=body))
        writer.write(outgoing.read())
        answer = b""
        async with asyncio.timeout(SOON_S):
            while b"\r\n\r\n" not in answer:
                incoming.write(await reader.read(1 << 16))
                with contextlib.suppress(ssl.SSLWantReadError):
                    answer += client.read(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert w.upstream.received[0].body == body
        writer.close()


@pytest.mark.parametrize("is_served", [False, True])
async def test_handshakes_that_hang_hold_up_no_end(files: Files, is_served: bool) -> None:
    """Pending handshakes do not delay the end of the process."""
    async with contextlib.AsyncExitStack() as stack:
        if is_served:
            proxy = await stack.enter_async_context(served(**files.settings))
            await proxy.started()
            connections = await silent(proxy.url, 3)
            proxy.signal(signal.SIGTERM)
            assert await proxy.exit_code() == 0
        else:
            async with world(**files.settings) as w:
                connections = await silent(w.app.url, 3)
                await asyncio.sleep(0.01)  # one event loop runs both sides
        for _, writer in connections:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_verbatim_holds_over_tls(files: Files) -> None:
    """Large bodies pass unchanged over TLS."""
    body = bytes(range(256)) * 40_000
    async with world(**files.settings) as w:
        w.upstream.answers(whole(body))
        async with secure_line(w.app.url, files.authority.client()) as line:
            assert (await line.ask(request("POST", "/v1/files", KEY, body=body))).body == body
        assert w.upstream.received[0].body == body
