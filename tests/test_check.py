"""`check` tells in plain words what would keep the proxy from serving, and never shows a secret."""

import asyncio
import socket
from collections.abc import Iterator

import pytest
import redis.asyncio as redis
from aiohttp import web
from aiohttp.pytest_plugin import AiohttpServer
from fakeredis import FakeAsyncRedis

from proxy import check as module
from proxy.check import check
from proxy.settings import Settings

KEY = "sk-hunter2-hunter2"


@pytest.fixture
def closed_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def report(capsys: pytest.CaptureFixture[str], subject: str) -> list[str]:
    """The printed lines on one subject as `grade: words`, made sure to show no secret."""
    text = capsys.readouterr().out
    assert "hunter2" not in text
    lines = [line.split(maxsplit=2) for line in text.splitlines()]
    return [f"{grade}: {words}" for grade, about, words in lines if about == subject]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(200, "ok: {said} 200", id="ok"),
        pytest.param(401, "warning: {said} 401: it does not accept this key", id="refused-key"),
        pytest.param(403, "warning: {said} 403: it does not accept this key", id="forbidden"),
        pytest.param(404, "warning: {said} 404: is the path of upstream_url right?", id="path"),
        pytest.param(302, "warning: {said} 302: not what a healthy upstream says", id="redirect"),
        pytest.param(503, "warning: {said} 503: not what a healthy upstream says", id="down"),
    ],
)
async def test_says_what_the_upstream_answered(
    aiohttp_server: AiohttpServer,
    capsys: pytest.CaptureFixture[str],
    status: int,
    want: str,
) -> None:
    """The caller's key is used for GET /models; whatever came back, the upstream is there."""
    keys: list[str] = []

    async def models(request: web.Request) -> web.Response:
        keys.append(request.headers["Authorization"])
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    application = web.Application()
    application.router.add_get("/v1/models", models)
    server = await aiohttp_server(application)
    url = str(server.make_url("/v1"))

    assert await check(Settings(upstream_url=url), KEY) == 0
    assert report(capsys, "upstream") == [
        f"ok: 127.0.0.1 port {server.port} can be reached",
        want.format(said=f"GET {url}/models with OPENAI_API_KEY answered"),
    ]
    assert keys == [f"Bearer {KEY}"]


async def test_without_a_key_it_only_connects(
    aiohttp_server: AiohttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """No key, no request: the upstream sees a connection come and go."""
    server = await aiohttp_server(web.Application())

    assert await check(Settings(upstream_url=str(server.make_url("/v1"))), "") == 0
    assert report(capsys, "upstream") == [f"ok: 127.0.0.1 port {server.port} can be reached"]


async def test_an_upstream_that_is_not_there_is_a_problem(
    closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody listens: exit code 1, and the key is not tried."""
    assert await check(Settings(upstream_url=f"http://127.0.0.1:{closed_port}"), KEY) == 1

    (line,) = report(capsys, "upstream")
    assert line.startswith(f"problem: 127.0.0.1 port {closed_port} cannot be reached: ")


async def test_an_upstream_that_does_not_speak_tls_is_a_problem(
    aiohttp_server: AiohttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reaching the port is not enough for https."""
    server = await aiohttp_server(web.Application())

    assert await check(Settings(upstream_url=f"https://127.0.0.1:{server.port}"), KEY) == 1

    (line,) = report(capsys, "upstream")
    assert line.startswith(f"problem: 127.0.0.1 port {server.port} cannot be reached: ")


async def test_a_silent_upstream_is_given_up(
    silent_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """TLS that never begins ends with connect_timeout_s."""
    url = f"https://127.0.0.1:{silent_port}"
    settings = Settings(upstream_url=url, connect_timeout_s=0.1)

    assert await check(settings, "") == 1
    assert report(capsys, "upstream") == [
        f"problem: 127.0.0.1 port {silent_port} did not answer within connect_timeout_s 0.1"
    ]


async def test_an_answer_that_never_comes_is_a_problem(
    silent_port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request, too, is bounded in time."""
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.1)
    url = f"http://127.0.0.1:{silent_port}"

    assert await check(Settings(upstream_url=url), KEY) == 1
    assert (
        report(capsys, "upstream")[-1]
        == f"problem: GET {url}/models failed: no answer within 0.1 s"
    )


async def test_a_key_that_is_no_header_value_is_told(
    silent_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line break at the end of a key is common; the key is not shown for it."""
    url = f"http://127.0.0.1:{silent_port}"

    assert await check(Settings(upstream_url=url), f"{KEY}\n") == 0
    want = "warning: OPENAI_API_KEY cannot be sent: not a header value"
    assert report(capsys, "upstream")[-1] == want


@pytest.fixture
def settings(silent_port: int) -> Settings:
    """Settings whose upstream can be reached."""
    return Settings(upstream_url=f"http://127.0.0.1:{silent_port}")


async def test_says_what_memory_means(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever runs several replicas learns here that memory is not shared."""
    assert await check(settings, "") == 0
    room = "up to 268,435,456 bytes in this process"
    want = f"ok: memory: {room}, lost at a restart and not shared: run one replica"
    assert report(capsys, "store") == [want]


async def test_pings_redis(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password is not shown."""
    monkeypatch.setattr(redis, "from_url", lambda _: FakeAsyncRedis())
    url = "redis://:hunter2@localhost/0"
    patient = settings.model_copy(update={"store_url": url, "store_timeout_ms": 60_000})

    assert await check(patient, "") == 0
    (line,) = report(capsys, "store")
    assert line.startswith("ok: redis://***@localhost/0 answered a ping in ")


async def test_warns_of_a_redis_slower_than_its_deadline(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a store would never be waited for."""

    class Distant(FakeAsyncRedis):
        async def ping(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.01)

    monkeypatch.setattr(redis, "from_url", lambda _: Distant())
    hasty = settings.model_copy(update={"store_url": "redis://localhost", "store_timeout_ms": 1})

    assert await check(hasty, "") == 0
    assert report(capsys, "store")[1:] == [
        "warning: that is more than store_timeout_ms 1: raise it"
    ]


async def test_a_silent_redis_is_given_up(
    settings: Settings,
    silent_port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three seconds are enough for any store that is of use."""
    monkeypatch.setattr(module, "PING_TIMEOUT_S", 0.1)
    url = f"redis://:hunter2@127.0.0.1:{silent_port}"

    assert await check(settings.model_copy(update={"store_url": url}), "") == 1
    assert report(capsys, "store") == [
        f"problem: redis://***@127.0.0.1:{silent_port} did not answer within 0.1 s"
    ]


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("redis://:hunter2@127.0.0.1:{port}/0", id="nobody-listens"),
        pytest.param("redis://127.0.0.1:{port}/0?pasword=hunter2", id="unknown-option"),
        pytest.param("redis://127.0.0.1:{port}/0?db=hunter2", id="malformed-option"),
        pytest.param("unix:///nowhere/redis.sock?password=hunter2", id="no-socket"),
    ],
)
async def test_a_redis_that_is_not_there_is_a_problem(
    settings: Settings, closed_port: int, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    """Exit code 1, although the proxy would go on without its store."""
    broken = settings.model_copy(update={"store_url": url.format(port=closed_port)})

    assert await check(broken, "") == 1
    (line,) = report(capsys, "store")
    assert line.startswith("problem: ")


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, [], id="defaults"),
        pytest.param({"upstream_profile": "azure"}, [], id="profile"),
        pytest.param({"mode": "off"}, ["mode is off: nothing is captured or given back"], id="off"),
        pytest.param({"mode": "shadow"}, ["mode is shadow: no request is changed, only counted"], id="shadow"),  # noqa: E501
        pytest.param({"store_url": "unix:///nowhere"}, ["scope_secret is empty: who reads the store can test guesses of a client's key"], id="shared-store-without-secret"),  # noqa: E501
    ],
)  # fmt: skip
async def test_warns_of_settings_that_surprise(
    settings: Settings, capsys: pytest.CaptureFixture[str], change: dict[str, str], want: list[str]
) -> None:
    """They are valid, and still not what most people mean."""
    await check(settings.model_copy(update=change), "")

    first, *warnings = report(capsys, "settings")
    assert first.startswith("ok: valid: mode ")
    assert f", upstream profile {change.get('upstream_profile', 'generic')}, " in first
    assert warnings == [f"warning: {words}" for words in want]
