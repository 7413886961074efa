"""Egress: private certificate authorities and HTTP proxies on the way to upstream."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.check import check
from reasoning_replay.settings.model import Settings

from tests.web.authority import Authority
from tests.web.http_proxy import HttpProxy, http_proxy
from tests.web.line import request
from tests.web.scripted import Upstream
from tests.web.served import served
from tests.web.sockets import KEY as MASK
from tests.web.sockets import TEXT, UPGRADE, frame, tunnelled
from tests.web.test_errors import assert_ours
from tests.web.wire import whole
from tests.web.world import World, world

KEY = "Authorization: Bearer sk-a"
GET = request("GET", "/v1/models", KEY)
SECRET = "p%40ss:w"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxy variables of this machine from the environment."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that no system trusts."""
    return Authority(tmp_path)


@contextlib.asynccontextmanager
async def listening(context: ssl.SSLContext | None) -> AsyncIterator[Upstream]:
    """Run a scripted upstream, with TLS if there is a context."""
    upstream = Upstream()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(upstream.protocol, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    upstream.url = f"{'https' if context else 'http'}://localhost:{port}"
    try:
        yield upstream
    finally:
        server.close()
        await upstream.close()


@contextlib.asynccontextmanager
async def behind(
    proxy: HttpProxy, authority: Authority, *, is_tls: bool, user: str = "", **settings: Any
) -> AsyncIterator[World]:
    """Run the proxy under test; it reaches its upstream through another proxy."""
    context = authority.server("localhost") if is_tls else None
    async with (
        listening(context) as upstream,
        world(
            upstream_url=upstream.url + "/v1",
            upstream_proxy=f"http://{user}{proxy.address}",
            upstream_ca_file=str(authority.file),
            **settings,
        ) as w,
    ):
        w.upstream = upstream
        yield w


async def test_a_private_authority_is_trusted_if_it_is_named(authority: Authority) -> None:
    """A private authority is trusted only if a setting names its file."""
    async with listening(authority.server("localhost")) as upstream:
        upstream.otherwise = whole(b"{}")
        for given, status in (({"upstream_ca_file": str(authority.file)}, 200), ({}, 502)):
            async with world(upstream_url=upstream.url + "/v1", **given) as w:
                got = await w.ask(GET)
                assert got.status == status
        assert "certificate" in assert_ours(got, 502, "upstream_unreachable")


async def test_a_reload_trusts_a_new_authority(authority: Authority, tmp_path: Path) -> None:
    """A new authority in the file is trusted after a reload; an invalid file changes nothing."""
    (folder := tmp_path / "other").mkdir()
    old = Authority(folder).file
    async with listening(authority.server("localhost")) as upstream:
        upstream.otherwise = whole(b"{}")
        async with world(upstream_url=upstream.url + "/v1", upstream_ca_file=str(old)) as w:
            assert (await w.ask(GET)).status == 502
            assert w.app.reload(w.app.settings) == ([], [])
            old.write_text("no certificate")
            with pytest.raises(OSError, match="upstream_ca_file"):
                w.app.reload(w.app.settings)
            old.write_bytes(authority.file.read_bytes())
            assert w.app.reload(w.app.settings) == (["upstream_ca_file"], [])
            assert (await w.ask(GET)).status == 200


async def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    """A certificate for another host name is refused, whatever authority issued it."""
    async with (
        listening(authority.server("other.test")) as upstream,
        world(upstream_url=upstream.url + "/v1", upstream_ca_file=str(authority.file)) as w,
    ):
        assert_ours(await w.ask(GET), 502, "upstream_unreachable")
        assert upstream.received == []


def test_the_authorities_of_the_system_are_trusted_as_well(authority: Authority) -> None:
    """A private authority is added to those of the system."""
    more = egress("https://x", str(authority.file)).tls
    assert isinstance(more, ssl.SSLContext)
    of_the_system = ssl.create_default_context().cert_store_stats()["x509"]
    assert more.cert_store_stats()["x509"] == of_the_system + 1
    assert more.verify_mode == ssl.CERT_REQUIRED
    assert more.check_hostname


async def test_a_file_without_a_certificate_stops_the_start(tmp_path: Path) -> None:
    """A file without a certificate ends the start with one line that names it."""
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    async with served(upstream_ca_file=file) as proxy:
        line = await proxy.until("cannot_start")
        assert str(file) in line["reason"]
        assert await proxy.exit_code() == 1


@pytest.mark.parametrize("is_tls", [True, False])
@pytest.mark.parametrize("user", ["", f"me:{SECRET}@"])
async def test_bytes_pass_unchanged_through_a_proxy(
    authority: Authority, is_tls: bool, user: str
) -> None:
    """A proxy is used by CONNECT for TLS and by full URL otherwise; upstream gets no password."""
    body = bytes(range(256)) * 10_000
    async with (
        http_proxy("me:p@ss:w" if user else "") as proxy,
        behind(proxy, authority, is_tls=is_tls, user=user) as w,
    ):
        w.upstream.answers(whole(body), whole(body))
        target = "/v1/files/%7Ea?x=%2F&y="
        for _ in range(2):
            assert (await w.ask(request("POST", target, KEY, "X-A: 1", body=body))).body == body
        place = w.upstream.url.partition("//")[2]
        line = f"CONNECT {place}" if is_tls else f"POST {w.upstream.url}{target}"
        assert {first for first, _ in proxy.asked} == {f"{line} HTTP/1.1"}
        assert len(proxy.asked) == (1 if is_tls else 2)  # a tunnel is used again
        assert all(bool(given) == bool(user) for _, given in proxy.asked)
        for received in w.upstream.received:
            assert received.line == f"POST {target} HTTP/1.1"
            names = [name for name, _ in received.headers]
            assert names == ["Host", "Authorization", "X-A", "Content-Length"]
            assert received.values("host") == [place]
            assert received.body == body


@pytest.mark.parametrize("is_tls", [True, False])
@pytest.mark.parametrize(("wanted", "given"), [("", ""), ("me:p@ss:w", "me:p%40ss:w@")])
async def test_a_websocket_passes_through_a_proxy(
    wanted: str, given: str, authority: Authority, is_tls: bool
) -> None:
    """A WebSocket passes through a proxy, and upstream does not get the proxy's password."""
    async with (
        http_proxy(wanted) as proxy,
        behind(proxy, authority, is_tls=is_tls, user=given) as w,
        tunnelled(w) as (client, upstream),
    ):
        await upstream.send(frame(TEXT, b"down"))
        await client.gets(frame(TEXT, b"down"))
        await client.send(frame(TEXT, b"up", key=MASK))
        await upstream.gets(frame(TEXT, b"up", key=MASK))
        assert len(proxy.asked) == 1
        assert w.upstream.received[0].values("proxy-authorization") == []


@pytest.mark.parametrize("is_tls", [True, False])
async def test_a_websocket_that_a_proxy_refuses_is_a_502(
    authority: Authority, is_tls: bool
) -> None:
    """A refused tunnel is a 502; a refusal by a forwarding proxy looks like upstream's own."""
    async with http_proxy() as proxy, behind(proxy, authority, is_tls=is_tls) as w:
        proxy.refusal = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
        got = await w.ask(request("GET", "/v1/responses", *UPGRADE))
        assert got.status == (502 if is_tls else 403)
        assert w.upstream.connections == 0


@pytest.mark.parametrize("status", [403, 407, 502])
async def test_a_proxy_that_refuses_is_a_502(
    status: int, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the proxy and its status, and never the password."""
    async with (
        http_proxy("me:p@ss:w") as proxy,
        behind(
            proxy, authority, is_tls=True, user="me:other@" if status == 407 else "me:p%40ss:w@"
        ) as w,
    ):
        proxy.refusal = f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()
        message = assert_ours(await w.ask(GET), 502, "upstream_unreachable")
        assert f"through the proxy {proxy.address}" in message
        assert str(status) in message
        assert "upstream_proxy" in message
        assert w.upstream.connections == 0
    told = message + "".join(capsys.readouterr())
    assert not any(secret in told for secret in ("p@ss", "p%40ss", "other@", "Basic "))


async def test_a_proxy_that_says_nothing_is_a_504(authority: Authority) -> None:
    """connect_timeout_s covers the whole way, including the proxy's response to CONNECT."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    proxy = HttpProxy()
    async with await asyncio.start_server(deaf, "127.0.0.1", 0) as server:
        proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with behind(proxy, authority, is_tls=True, connect_timeout_s=0.3) as w:
            message = assert_ours(await w.ask(GET), 504, "upstream_timeout")
            assert "connect_timeout_s" in message
            assert f"through the proxy {proxy.address}" in message


async def test_the_environment_is_read_only_if_configured(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's proxy is used only with `env`, and NO_PROXY bypasses it."""
    async with http_proxy() as proxy, listening(None) as upstream:
        upstream.otherwise = whole(b"{}")
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        for given, no_proxy, asked in (
            ("", "", 0),
            ("env", "", 1),
            ("env", "localhost", 0),
            ("env", "other.test", 1),
        ):
            monkeypatch.setenv("NO_PROXY", no_proxy)
            proxy.asked.clear()
            async with world(upstream_url=upstream.url + "/v1", upstream_proxy=given) as w:
                assert (await w.ask(GET)).status == 200
            assert len(proxy.asked) == asked


@pytest.mark.parametrize(
    ("upstream", "variables", "via"),
    [
        ("http://10.0.0.1", {"HTTP_PROXY": "http://a.test:1", "NO_PROXY": "10.0.0.0/8"}, ""),
        (
            "http://11.0.0.1",
            {"HTTP_PROXY": "http://a.test:1", "NO_PROXY": "10.0.0.0/8"},
            "a.test:1",
        ),
        ("https://api.test", {"HTTP_PROXY": "http://a.test:1", "NO_PROXY": "10/8"}, ""),
        ("https://api.test", {"HTTPS_PROXY": "http://a.test:1"}, "a.test:1"),
        ("https://api.test", {"https_proxy": "http://b.test:2"}, "b.test:2"),
        ("https://api.test", {"HTTP_PROXY": "http://a.test:1"}, ""),
        ("http://api.test", {"HTTP_PROXY": "http://a.test"}, "a.test:80"),
        ("http://api.test", {"HTTP_PROXY": "a.test:3128"}, "a.test:3128"),
        ("https://api.test", {"HTTPS_PROXY": "http://a.test:1", "NO_PROXY": ".test"}, ""),
        ("https://api.test:8", {"HTTPS_PROXY": "http://a.test:1", "NO_PROXY": "api.test:8"}, ""),
        ("https://api.test", {"HTTPS_PROXY": "http://a.test:1", "NO_PROXY": "*"}, ""),
        ("https://api.test", {}, ""),
    ],
)
def test_what_the_environment_says(
    upstream: str, variables: dict[str, str], via: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy variables are interpreted as other programs do."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    got = egress(upstream, proxy="env").via
    assert got == (f" through the proxy {via}" if via else "")


def test_an_environment_that_names_another_kind_of_proxy_stops_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unsupported proxy ends the start, and the error does not quote its URL."""
    monkeypatch.setenv("HTTPS_PROXY", "socks5://me:secret@a.test:1080")
    with pytest.raises(OSError, match="HTTPS_PROXY") as caught:
        egress("https://api.test", proxy="env")
    assert "secret" not in str(caught.value)


async def test_a_network_that_is_not_understood_stops_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A malformed NO_PROXY ends the start with one line: else keys would reach the proxy."""
    monkeypatch.setenv("HTTPS_PROXY", "http://a.test:1")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/33")
    async with served(upstream_proxy="env") as proxy:
        line = await proxy.until("cannot_start")
        assert "NO_PROXY" in line["reason"]
        assert "10.0.0.0/33" in line["reason"]
        assert await proxy.exit_code() == 1


@pytest.mark.parametrize("is_refused", [False, True])
async def test_check_goes_the_same_way(
    authority: Authority, is_refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The `check` command uses the same proxy and authorities, and says so."""
    async with http_proxy("me:pw") as proxy, listening(authority.server("localhost")) as upstream:
        upstream.otherwise = whole(b"{}")
        password = "wr0ng" if is_refused else "pw"
        settings = Settings(
            upstream_url=upstream.url + "/v1",
            upstream_proxy=f"http://me:{password}@{proxy.address}",
            upstream_ca_file=str(authority.file),
            listen="127.0.0.1:0",
            admin_listen="127.0.0.1:0",
        )
        assert await check(settings, {"OPENAI_API_KEY": "sk-a"}) == is_refused
        told = capsys.readouterr().out
        assert f"through the proxy {proxy.address}" in told
        assert ("answered CONNECT with status 407" in told) == is_refused
        assert ("is upstream_proxy right" in told) == is_refused
        assert len(upstream.received) == (0 if is_refused else 4)  # models, and the replayed paths
        assert password not in told
