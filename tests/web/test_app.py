"""The process: it starts on its ports, reports why it cannot, and stops without cutting off."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running
from reasoning_replay.web.doubtful_settings import doubts
from reasoning_replay.web.serve import run

from tests.web.line import Broken, line_to, request
from tests.web.scripted import Script, Upstream, scripted, send, wait
from tests.web.served import Served, served
from tests.web.wire import (
    ASK,
    CALL,
    END,
    RESULT,
    RS,
    as_json,
    chunk,
    response,
    stream_head,
    whole,
)
from tests.web.world import Logged, logged, world

FREE = "127.0.0.1:0"
GET = request("GET", "/v1/files/f/content")


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


def by_event(capsys: Logged) -> dict[str, dict[str, Any]]:
    """Return the log lines by event."""
    return {line["event"]: line for line in logged(capsys)}


async def test_it_listens_where_it_says(capsys: Logged) -> None:
    """Port 0 selects a free port; the log names both URLs, and no password."""
    settings = Settings(
        listen=FREE,
        admin_listen=FREE,
        log_format="json",
        store_url="redis://u:hunter2@127.0.0.1:1/0",
    )
    async with running(settings) as app:
        assert app.url != app.admin_url
        for url in (app.url, app.admin_url):
            async with line_to(url) as line:
                assert (await line.ask(request("GET", "*"))).status in (400, 404)
        started = by_event(capsys)["started"]
    assert (started["listen"], started["admin"]) == (app.url, app.admin_url)
    assert started["profile"] == "openai"
    assert "hunter2" not in str(started)


@pytest.mark.parametrize(
    ("naming", "names", "levels"),
    [
        pytest.param("gcp", ("time", "severity", "message"), ("INFO", "ERROR"), id="gcp"),
        pytest.param("ecs", ("@timestamp", "log.level", "message"), ("info", "error"), id="ecs"),
    ],
)
async def test_every_line_has_the_names_of_the_collector(
    naming: str, names: tuple[str, str, str], levels: tuple[str, str], taken: str
) -> None:
    """With `log_fields`, each line from the start to the stop begins with these names."""
    url = f"http://{taken}/v1"  # connections are accepted, and no response follows
    async with served(upstream_url=url, first_byte_timeout_s=0.1, log_fields=naming) as proxy:
        await proxy.started()
        async with line_to(proxy.url) as line:
            assert (await line.ask(GET)).status == 504
        proxy.signal(signal.SIGTERM)
        await proxy.rest()
        lines = [entry for entry in proxy.log if entry["message"] != "doubtful_setting"]
    assert [entry["message"] for entry in lines] == ["started", "exchange", "draining", "stopped"]
    assert {tuple(entry)[:3] for entry in lines} == {names}
    assert [entry[names[1]] for entry in lines] == [levels[0], levels[1], levels[0], levels[0]]
    assert all(entry.get("ecs.version") for entry in lines) is (naming == "ecs")


async def test_it_listens_on_ipv6_too() -> None:
    """An IPv6 address is in brackets, in the setting and in the URL."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    async with running(Settings(listen="[::1]:0", admin_listen=FREE)) as app:
        assert app.url.startswith("http://[::1]:")


@pytest.mark.parametrize("which", ["listen", "admin_listen"])
def test_a_port_that_is_taken_ends_the_start(which: str, taken: str, capsys: Logged) -> None:
    """A port in use ends the start with exit code 1; one line names the setting and a way out."""
    addresses: dict[str, Any] = {"listen": FREE, "admin_listen": FREE, which: taken}
    settings = Settings(**addresses, log_format="json")
    assert run(settings, lambda: settings) == 1
    lines = by_event(capsys)
    assert lines["cannot_listen"]["level"] == "error"
    reason = str(lines["cannot_listen"]["reason"])
    assert reason.startswith(f"{which} {taken}: ")
    assert "; " in reason
    assert "started" not in lines


async def test_after_it_has_stopped_its_ports_are_free() -> None:
    """After the stop, the port refuses connections."""
    async with world() as w:
        url = w.app.url
    with pytest.raises(OSError):  # noqa: PT011 (whichever the system gives)
        async with line_to(url):
            pass


@pytest.mark.parametrize(
    "changed",
    [
        {"store_url": "redis://127.0.0.1:1/0"},
        {"scope_secret": "x" * 15, "admin_token": "y"},
        {"admin_listen": "0.0.0.0:1"},
        {"upstream_url": "https://api.openai.com", "mode": "shadow"},
    ],
    ids=str,
)
async def test_the_start_logs_what_check_warns_of(changed: dict[str, Any], capsys: Logged) -> None:
    """Each doubtful setting is one warning with the way out, and without a secret."""
    settings = Settings(**({"listen": FREE, "admin_listen": FREE, "log_format": "json"} | changed))
    app = App(settings)  # not started: tests open no port to the network
    app.announce()
    await app.stop()
    told = [(one["level"], one["hint"]) for one in logged(capsys, "doubtful_setting")]
    assert told == [("warning", hint) for hint in doubts(settings)]
    assert told
    assert "xxx" not in str(told)


async def test_the_log_names_what_an_operator_may_delete(
    capsys: Logged,
) -> None:
    """The log has scope and conversation of each exchange, as the admin port takes them."""
    async with world(has_store=True, store_budget_ms=5000) as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        await w.turn(ASK)
        first = by_event(capsys)["exchange"]
        await w.turn(ASK, CALL, RESULT)
        second = by_event(capsys)["exchange"]
        page = await w.store.survey(None, "", 10)
        (kept,) = page.conversations
    assert (first["scope"], first["conversation"]) == (kept.scope.hex(), kept.conversation.hex())
    assert (second["scope"], second["conversation"]) == (first["scope"], first["conversation"])


async def test_an_exchange_without_a_tenant_names_no_scope(
    capsys: Logged,
) -> None:
    """An exchange without a credential has no scope in the log."""
    async with world() as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))))
        await w.post({"model": "gpt-5.4", "input": "hi"}, "Content-Type: application/json")
        line = by_event(capsys)["exchange"]
    assert line.keys().isdisjoint({"scope", "conversation"})


async def test_two_in_one_process_do_not_meet() -> None:
    """Two apps in one process share no metrics, store or connections."""
    async with world() as one, world() as other:
        one.upstream.answers(whole(b"{}"))
        await one.get("/v1/models")
        label = {"route": "models", "outcome": "ok"}
        assert one.counted("exchanges_total", **label) == 1
        assert other.counted("exchanges_total", **label) == 0


async def test_an_app_that_never_started_can_be_stopped() -> None:
    """An app that was never started can be stopped."""
    await App(Settings(listen=FREE, admin_listen=FREE)).stop()


async def streaming(proxy: Served, upstream: Upstream) -> Script:
    """Prepare a response that pauses in the middle."""
    await proxy.started()
    script = Script(
        [send(stream_head() + chunk(b"data: 1\n\n")), wait(), send(chunk(b"data: 2\n\n") + END)]
    )
    upstream.plays(script)
    return script


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_what_runs_finish(number: int) -> None:
    """After a signal running streams finish, new connections fail, and the exit code is 0."""
    async with scripted() as upstream, served(upstream_url=upstream.url + "/v1") as proxy:
        script = await streaming(proxy, upstream)
        async with line_to(proxy.url) as line:
            await line.send(GET)
            await line.head()
            assert await line.some() == b"data: 1\n\n"

            proxy.signal(number)
            await refused(proxy.url)
            async with line_to(proxy.admin_url) as admin:
                assert (await admin.ask(request("GET", "/readyz"))).status == 503
            script.go()
            assert await line.rest() == b"data: 2\n\n"
        assert await proxy.exit_code() == 0


async def test_a_drain_ends_in_time() -> None:
    """An exchange that outlasts drain_s is cut off, and its client sees the break."""
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1", drain_s=0.2) as proxy,
    ):
        await streaming(proxy, upstream)
        async with line_to(proxy.url) as line:
            await line.send(GET)
            await line.head()
            await line.some()
            proxy.signal(signal.SIGTERM)
            with pytest.raises(Broken):
                await line.rest()
        assert (await proxy.until("stopped"))["cut_off"] == 1
        assert await proxy.exit_code() == 0


async def test_a_second_signal_ends_it_at_once() -> None:
    """A second signal ends the process at once."""
    async with scripted() as upstream, served(upstream_url=upstream.url + "/v1") as proxy:
        await streaming(proxy, upstream)
        async with line_to(proxy.url) as line:
            await line.send(GET)
            await line.head()
            proxy.signal(signal.SIGTERM)
            await refused(proxy.url)
            proxy.signal(signal.SIGTERM)
            assert await proxy.exit_code() == 128 + signal.SIGTERM


async def test_an_idle_connection_does_not_hold_it_up() -> None:
    """An idle connection does not delay the end of the process."""
    async with scripted() as upstream, served(upstream_url=upstream.url + "/v1") as proxy:
        await proxy.started()
        upstream.answers(whole(b"{}"))
        async with line_to(proxy.url) as line:
            assert (await line.ask(GET)).status == 200
            proxy.signal(signal.SIGTERM)
            assert await proxy.exit_code() == 0


async def refused(url: str) -> None:
    """Wait until the port refuses connections."""
    for _ in range(2000):
        try:
            async with line_to(url):
                await asyncio.sleep(0.01)
        except OSError:
            return
    pytest.fail("it still accepts connections")
