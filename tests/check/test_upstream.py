"""Whether the upstream can be reached and accepts the caller's key, and what to do if not."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.pytest_plugin import AiohttpServer
from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.adapters.upstream.response import UpstreamError
from reasoning_replay.check import upstream as module
from reasoning_replay.check.upstream import of_upstream
from reasoning_replay.settings.model import Settings

from tests.certificates import certificates
from tests.check.reports import KEY, found


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove proxies from the environment of the test run."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def upstream(url: str, environ: dict[str, str] | None = None, **more: Any) -> list[str]:
    """Return the findings about an upstream."""
    return await found(of_upstream(Settings(upstream_url=url, **more), environ or {}))


async def answering(
    make: AiohttpServer, asked: list[web.Request] | None = None, **statuses: int
) -> str:
    """Return the base URL of a server that answers each path with a status, 200 unless told."""

    async def answer(request: web.Request) -> web.Response:
        if asked is not None:
            asked.append(request)
        await request.read()
        status = statuses.get(request.path.rpartition("/")[2], 200)
        if not status:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=status or 500, headers={"Location": "/elsewhere"})

    application = web.Application()
    application.router.add_route("*", "/v1/{path:.*}", answer)
    return str((await make(application)).make_url("/v1"))


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(200, "ok: {said} 200", id="ok"),
        pytest.param(401, "problem: {said} 401: it does not accept this key", id="refused-key"),
        pytest.param(403, "warning: {said} 403: it does not accept this key, or the key may not list models", id="forbidden"),  # noqa: E501
        pytest.param(404, "warning: {said} 404: is the path of upstream_url right? It usually ends in /v1", id="path"),  # noqa: E501
        pytest.param(302, "warning: {said} 302: redirects are not followed; set upstream_url to the new address: https, another host or another path", id="redirect"),  # noqa: E501
        pytest.param(503, "warning: {said} 503: not the status of a healthy upstream", id="down"),
    ],
)  # fmt: skip
async def test_says_what_the_upstream_answered(
    aiohttp_server: AiohttpServer, status: int, want: str
) -> None:
    """GET /models is sent with the caller's key; every status means that the upstream is up."""
    asked: list[web.Request] = []
    url = await answering(aiohttp_server, asked, models=status)

    _, line = await upstream(url, {"OPENAI_API_KEY": KEY}, mode="off")
    assert line == want.format(said=f"GET {url}/models with OPENAI_API_KEY returned")
    (request,) = asked
    assert request.headers["Authorization"] == f"Bearer {KEY}"


# (statuses of the three paths; 0: it closes the connection; what is said)
PATHS = [
    ((400, 422, 404), "ok: /responses is replayed (profile {one}); /chat/completions is replayed (profile {two}); /messages is not served (404){wall}"),  # noqa: E501
    ((404, 400, 400), "ok: /responses is not served (404); /chat/completions is replayed (profile {two}); /messages is replayed (profile {three}){wall}"),  # noqa: E501
    ((401, 405, 405), "ok: /responses is replayed (profile {one}); /chat/completions is not served (405); /messages is not served (405){wall}"),  # noqa: E501
    ((404, 404, 404), "warning: /responses is not served (404); /chat/completions is not served (404); /messages is not served (404){wall}; is the path of upstream_url right?"),  # noqa: E501
    ((0, 500, 401), "ok: /responses is not served (no response); /chat/completions is replayed (profile {two}); /messages is replayed (profile {three}){wall}"),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("statuses", "want"), PATHS)
@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("DEEPSEEK_API_KEY", ("deepseek", "deepseek", "deepseek")),
        ("MOONSHOT_API_KEY", ("generic", "moonshot", "moonshot")),
        ("OPENAI_API_KEY", ("openai", "generic", "generic")),
    ],
)
async def test_says_which_paths_are_replayed(
    aiohttp_server: AiohttpServer,
    statuses: tuple[int, int, int],
    want: str,
    key: str,
    names: tuple[str, str, str],
) -> None:
    """Each path gets an empty request, which costs nothing, with the key of the upstream."""
    asked: list[web.Request] = []
    paths = ("responses", "completions", "messages")
    told = dict(zip(paths, statuses, strict=True))
    url = await answering(aiohttp_server, asked, **told)

    profile = key.partition("_")[0].lower()
    found = await upstream(url, {key: KEY}, upstream_profile=profile)
    is_openai = names[0] == "openai"
    wall = "; its newer models reason with tools on /responses only" if is_openai else ""
    assert found[-1] == want.format(one=names[0], two=names[1], three=names[2], wall=wall)
    _, *posted = asked
    assert [one.path.rpartition("/")[2] for one in posted] == [*paths]
    assert {one.headers["Authorization"] for one in posted} == {f"Bearer {KEY}"}
    assert {await one.read() for one in posted} == {b"{}"}


async def test_an_upstream_gets_the_headers_that_it_requires(aiohttp_server: AiohttpServer) -> None:
    """Anthropic's API reads the key from a header of its own, and demands a version."""
    asked: list[web.Request] = []
    url = await answering(aiohttp_server, asked)
    await upstream(url, {"ANTHROPIC_API_KEY": KEY}, upstream_profile="anthropic")
    for request in (asked[0], asked[-1]):
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2023-06-01"


JWT = "eyJhbGciOiJub25lIn0.eyJ0aWQiOiJodW50ZXIyIn0.hunter2"


@pytest.mark.parametrize(
    ("profile", "environ", "header"),
    [
        pytest.param("openai", {"OPENAI_API_KEY": KEY}, ("Authorization", f"Bearer {KEY}"), id="openai"),  # noqa: E501
        pytest.param("azure", {"AZURE_OPENAI_API_KEY": KEY}, ("api-key", KEY), id="azure"),
        pytest.param("azure", {"AZURE_OPENAI_API_KEY": JWT}, ("Authorization", f"Bearer {JWT}"), id="entra"),  # noqa: E501
        pytest.param("openrouter", {"OPENROUTER_API_KEY": KEY, "OPENAI_API_KEY": "other"}, ("Authorization", f"Bearer {KEY}"), id="openrouter"),  # noqa: E501
        pytest.param("xai", {"XAI_API_KEY": KEY}, ("Authorization", f"Bearer {KEY}"), id="xai"),
        pytest.param("vllm", {"VLLM_API_KEY": KEY}, ("Authorization", f"Bearer {KEY}"), id="vllm"),
        pytest.param("vllm", {"OPENAI_API_KEY": "other"}, None, id="vllm-without"),
        pytest.param("ollama", {}, None, id="ollama"),
    ],
)  # fmt: skip
async def test_each_vendor_gets_its_own_key_as_it_wants_it(
    aiohttp_server: AiohttpServer,
    profile: str,
    environ: dict[str, str],
    header: tuple[str, str] | None,
) -> None:
    """Each vendor gets only its own key, in its own header; local servers usually need none."""
    asked: list[web.Request] = []
    url = await answering(aiohttp_server, asked)
    lines = await upstream(url, environ, upstream_profile=profile, mode="off")

    (request,) = asked
    name, value = header or ("Authorization", None)
    assert request.headers.get(name) == value
    if name == "api-key":
        assert "Authorization" not in request.headers
    assert lines[-1].endswith(f"with {next(iter(environ)) if header else 'no key'} returned 200")


@pytest.mark.parametrize(
    ("profile", "environ", "want"),
    [
        pytest.param("openai", {}, "ok: no key was tried: set OPENAI_API_KEY to test one", id="none"),  # noqa: E501
        pytest.param("azure", {}, "ok: no key was tried: set AZURE_OPENAI_API_KEY to test one", id="azure"),  # noqa: E501
        pytest.param("openrouter", {"OPENAI_API_KEY": KEY}, "ok: OPENAI_API_KEY is not sent there, as it may be OpenAI's: set OPENROUTER_API_KEY to test a key", id="anothers"),  # noqa: E501
        pytest.param("codex", {"OPENAI_API_KEY": KEY}, "ok: clients log in there on their own, so no key was tried", id="login"),  # noqa: E501
    ],
)  # fmt: skip
async def test_without_its_key_it_only_connects(
    silent_port: int, profile: str, environ: dict[str, str], want: str
) -> None:
    """Without a key the check connects and sends no request."""
    url = f"http://127.0.0.1:{silent_port}/v1"
    reached = f"ok: 127.0.0.1 port {silent_port} can be reached"
    assert await upstream(url, environ, upstream_profile=profile) == [reached, want]


async def test_a_server_of_ones_own_that_wants_a_key_is_told(aiohttp_server: AiohttpServer) -> None:
    """A local server that needs a key gives a warning with the variable to set."""
    lines = await upstream(await answering(aiohttp_server, models=401), upstream_profile="vllm")
    assert lines[-1].startswith("warning: ")
    assert "it needs a key; set VLLM_API_KEY" in lines[-1]


@pytest.mark.parametrize("says", [b"SSH-2.0-OpenSSH_9.6\r\n", b"-ERR unknown command\r\n", b""])
async def test_another_program_on_its_port_is_told(says: bytes) -> None:
    """It answers as no API does, or not at all."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as other:
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/v1"
        *_, line = await upstream(url, {"OPENAI_API_KEY": KEY})
    assert line.startswith(f"problem: GET {url}/models failed: ")
    assert "is it an API? Another program seems to listen there; if it uses TLS" in line


async def test_an_upstream_that_is_not_there_is_a_problem(closed_port: int) -> None:
    """A refused connection is a problem; no key is tried."""
    (line,) = await upstream(f"http://127.0.0.1:{closed_port}/v1", {"OPENAI_API_KEY": KEY})
    assert line == (
        f"problem: 127.0.0.1 port {closed_port} cannot be reached: the connection was refused; "
        "is it running, and is the port in upstream_url right? In a container, that address is the "
        "container itself"
    )


async def test_a_name_that_is_not_known_is_a_problem() -> None:
    """An unknown host name is a problem; RFC 6761 reserves .invalid."""
    (line,) = await upstream("https://api.invalid/v1")
    assert line.startswith("problem: api.invalid port 443 cannot be reached: ")
    assert line.endswith("; is upstream_url spelt right, and can this machine reach the network?")


async def test_an_unused_proxy_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the upstream cannot be reached, an unused proxy variable is named, but not its value."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@proxy:3128")
    (line,) = await upstream("https://api.invalid/v1")
    assert line.endswith(
        "HTTPS_PROXY is set but not used: if the upstream needs it, set upstream_proxy to env"
    )
    monkeypatch.setenv("NO_PROXY", "api.invalid")
    (line,) = await upstream("https://api.invalid/v1")
    assert "HTTPS_PROXY" not in line


async def test_an_upstream_that_does_not_speak_tls_is_a_problem(
    aiohttp_server: AiohttpServer,
) -> None:
    """An https URL of a server without TLS is a problem, although the port is open."""
    server = await aiohttp_server(web.Application())
    (line,) = await upstream(f"https://127.0.0.1:{server.port}/v1")
    assert line.startswith(f"problem: 127.0.0.1 port {server.port} cannot be reached: ")
    assert line.endswith("does it use TLS? If not, upstream_url must begin with http://")


async def test_an_upstream_that_wants_tls_is_a_problem(aiohttp_server: AiohttpServer) -> None:
    """An http URL of a TLS server is a problem: the server closes the connection."""
    with certificates() as made:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(made.server_pem)
        server = await aiohttp_server(web.Application(), ssl=context)
        lines = await upstream(f"http://127.0.0.1:{server.port}/v1", {"OPENAI_API_KEY": KEY})
    assert lines[-1].startswith("problem: GET http://")
    assert lines[-1].endswith("; if it uses TLS, write https://")


async def test_an_unknown_authority_is_named(aiohttp_server: AiohttpServer, tmp_path: Path) -> None:
    """An unknown CA is named with the setting that adds it; with that setting all is ok."""
    with certificates() as made, certificates() as others:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(made.server_pem)
        server = await aiohttp_server(web.Application(), ssl=context)
        url = f"https://127.0.0.1:{server.port}/v1"

        (line,) = await upstream(url)
        assert "this machine does not trust the CA of its certificate (" in line
        assert line.endswith("set upstream_ca_file to a PEM file with it")
        (line,) = await upstream(url, upstream_ca_file=str(others.ca_pem))
        assert "upstream_ca_file does not contain the CA of its certificate (" in line
        first, *_ = await upstream(url, upstream_ca_file=str(made.ca_pem))
        assert first == f"ok: 127.0.0.1 port {server.port} can be reached with TLS"


@pytest.mark.parametrize(
    ("code", "want"),
    [
        pytest.param(9, "set this machine's clock", id="not-yet-valid"),
        pytest.param(10, "set this machine's clock", id="expired"),
        pytest.param(62, "is for another name", id="host"),
        pytest.param(64, "is for another name", id="address"),
    ],
)
async def test_a_certificate_may_be_wrong_in_other_ways(
    monkeypatch: pytest.MonkeyPatch, silent_port: int, code: int, want: str
) -> None:
    """Errors that no CA file can solve do not suggest one."""
    refused = ssl.SSLCertVerificationError(1, "no")
    refused.verify_code = code
    refused.verify_message = "it says why."

    async def reach(*_: object) -> None:
        raise UpstreamError("connect", "no") from refused

    monkeypatch.setattr(UpstreamClient, "reach", reach)
    (line,) = await upstream(f"https://127.0.0.1:{silent_port}/v1")
    assert "cannot be reached: its certificate is not accepted: it says why; its cert" in line
    assert want in line
    assert "upstream_ca_file" not in line


async def test_a_silent_upstream_is_given_up(silent_port: int) -> None:
    """A TLS handshake without a response ends after connect_timeout_s."""
    assert await upstream(f"https://127.0.0.1:{silent_port}/v1", connect_timeout_s=0.1) == [
        f"problem: 127.0.0.1 port {silent_port} did not respond within connect_timeout_s 0.1"
    ]


async def test_an_answer_that_never_comes_is_a_problem(
    silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request has a timeout as well."""
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.1)
    url = f"http://127.0.0.1:{silent_port}/v1"
    lines = await upstream(url, {"OPENAI_API_KEY": KEY})
    assert lines[-1] == f"problem: GET {url}/models failed: no response within 0.1 s"


async def test_a_key_that_is_no_header_value_is_told(silent_port: int) -> None:
    """A key with a line break, a common error, is reported and not shown."""
    lines = await upstream(f"http://127.0.0.1:{silent_port}/v1", {"OPENAI_API_KEY": f"{KEY}\n"})
    want = "warning: OPENAI_API_KEY is not a valid header value; is there a line break in it?"
    assert lines[-1] == want


async def test_an_issuer_that_cannot_be_told_is_left_out(closed_port: int) -> None:
    """The issuer is "" if the certificate cannot be fetched; the hint works without it."""
    assert await module._issuer("127.0.0.1", closed_port) == ""
