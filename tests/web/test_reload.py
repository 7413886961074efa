"""SIGHUP puts new secrets, modes and certificates into use; no stream and no process ends."""

import asyncio
import base64
import io
import json
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import serve

from tests.web.http.test_tls import Files
from tests.web.line import line_to, request
from tests.web.scripted import Script, scripted, send, wait
from tests.web.served import Served, served
from tests.web.wire import ASK, CALL, END, RESULT, RS, chunk, events, stream, stream_head, whole
from tests.web.world import eventually, post, world

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")

KEYS = {name: base64.b64encode(name.encode() * 32).decode() for name in "ab"}


def put(path: Path, text: str) -> None:
    """Write a file."""
    path.write_text(text)


async def reloaded(proxy: Served, event: str = "reloaded") -> dict[str, Any]:
    """Send SIGHUP; return what the proxy logs about it."""
    proxy.signal(signal.SIGHUP)
    line = await proxy.until(event)
    return {name: line[name] for name in line.keys() - {"time", "level", "event"}}


async def listing(proxy: Served, token: str) -> int:
    """Return the status for an operator with this token."""
    async with line_to(proxy.admin_url) as line:
        got = await line.ask(request("GET", "/conversations", f"Authorization: Bearer {token}"))
    return got.status


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """The file of a secret."""
    path = tmp_path / "secret"
    path.write_text("the-first-token")
    return path


@pytest.fixture
async def proxy(secret: Path) -> AsyncIterator[Served]:
    """A process whose admin token comes from that file."""
    async with served(admin_token_file=secret) as process:
        await process.started()
        yield process


async def test_a_new_admin_token_is_in_use(proxy: Served, secret: Path) -> None:
    """The old one is refused from then on."""
    assert await listing(proxy, "the-first-token") == 200
    put(secret, "the-second-token\n")

    assert await reloaded(proxy) == {"changed": "admin_token"}
    assert await listing(proxy, "the-first-token") == 401
    assert await listing(proxy, "the-second-token") == 200
    assert await reloaded(proxy) == {"changed": "nothing"}


async def test_an_invalid_file_changes_nothing(proxy: Served, secret: Path) -> None:
    """One warning says why, each time; the old token works, and a good file is used again."""
    put(secret, "")
    for _ in range(2):
        got = await reloaded(proxy, "not_reloaded")
        assert got == {
            "reason": "REPLAY_ADMIN_TOKEN_FILE: the file is empty; it must contain only the value"
        }
    assert await listing(proxy, "the-first-token") == 200
    put(secret, "the-second-token")
    assert await reloaded(proxy) == {"changed": "admin_token"}


async def test_a_stream_is_not_cut(secret: Path) -> None:
    """It goes on where it was, and the connection serves the next request."""
    script = Script(
        [send(stream_head() + chunk(b"data: 1\n\n")), wait(), send(chunk(b"data: 2\n\n") + END)]
    )
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1", admin_token_file=secret) as proxy,
    ):
        await proxy.started()
        upstream.plays(script, Script([send(whole(b"{}"))]))
        async with line_to(proxy.url) as line:
            await line.send(request("GET", "/v1/files/f/content"))
            await line.head()
            assert await line.some() == b"data: 1\n\n"
            put(secret, "the-second-token")
            assert await reloaded(proxy) == {"changed": "admin_token"}
            script.go()
            assert await line.rest() == b"data: 2\n\n"
            assert (await line.ask(request("GET", "/v1/models"))).status == 200


async def test_other_settings_wait_for_a_restart(tmp_path: Path, secret: Path) -> None:
    """The log names them, and what a new scope_secret would do without the old one after it."""
    config = tmp_path / "replay.yaml"
    put(config, "ttl_s: 1d\n")
    words = ["/bin/sh", "-c", 'exec "$@" --config "$0"', str(config)]
    async with served(under=words, scope_secret_file=secret) as proxy:
        await proxy.started()
        put(config, "ttl_s: 2d\nadmin_token: new\n")
        put(secret, "another")

        assert await reloaded(proxy) == {
            "changed": "admin_token",
            "needs_restart": "ttl_s,scope_secret",
            "hint": "a new scope_secret hides every stored conversation",
        }
        put(secret, "another,the-first-token")
        assert "hint" not in await reloaded(proxy)
        put(config, "ttl_s: 10 parsecs")
        got = await reloaded(proxy, "not_reloaded")
        assert got["reason"].startswith(f'{config}:1: ttl_s: "10 parsecs": "parsecs" is not a unit')


@pytest.mark.parametrize("nested", ["[" * 3000, "{a: " * 3000, "- " * 3000])
async def test_a_nested_file_is_refused_and_the_next_one_is_used(
    tmp_path: Path, nested: str
) -> None:
    """No reader calls itself for each bracket, so none comes to the end of its stack."""
    config = tmp_path / "replay.yaml"
    put(config, "mode: on\n")
    words = ["/bin/sh", "-c", 'exec "$@" --config "$0"', str(config)]
    async with served(under=words) as proxy:
        await proxy.started()
        put(config, nested)
        for _ in range(2):
            assert await reloaded(proxy, "not_reloaded") == {
                "reason": f"{config}:1: nested more than 20 times; write one `name: value` per line"
            }
        put(config, "mode: shadow\n")
        assert await reloaded(proxy) == {"changed": "mode", "mode": "shadow"}


async def test_a_fault_of_the_proxy_does_not_end_the_reloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is logged without its text, nothing is changed, and the next SIGHUP works."""
    out, hangup = io.StringIO(), asyncio.Event()
    async with world(admin_token="old") as w:
        w.app.log = Log("info", "json", out)
        new = w.app.settings.model_copy(update={"admin_token": SecretStr("new"), "mode": "off"})

        def fails(*_: object) -> None:
            raise RecursionError("the secret")

        hangup.set()
        with monkeypatch.context() as patched:
            patched.setattr("reasoning_replay.web.app.upstreams", fails)
            await serve._reload(w.app, lambda: new, hangup)
        (line,) = map(json.loads, out.getvalue().splitlines())
        assert line["event"] == "not_reloaded"
        assert line["reason"].startswith("RecursionError, which is a fault of the proxy")
        assert w.app.settings.admin_token.get_secret_value() == "old"

        hangup.set()
        await serve._reload(w.app, lambda: new, hangup)
        assert json.loads(out.getvalue().splitlines()[1])["changed"] == "mode,admin_token"


async def test_a_new_certificate_is_in_use_before_anyone_connects(tmp_path: Path) -> None:
    """An invalid one is refused with the way out, and the old one stays."""
    files = Files(tmp_path)
    async with served(**files.settings) as proxy:
        await proxy.started()
        files.renew("renewed.test")
        assert await reloaded(proxy) == {"changed": "tls_cert_file"}
        put(files.key, "not a key")
        for _ in range(2):
            got = await reloaded(proxy, "not_reloaded")
            assert f"tls_cert_file {files.cert} and tls_key_file" in got["reason"]
        files.renew("renewed.test")
        assert await reloaded(proxy) == {"changed": "tls_cert_file"}


async def test_new_encryption_keys_are_in_use() -> None:
    """The first key encrypts; a turn of the old key is still read, as long as that is listed."""
    old = f"a:{KEYS['a']}"
    async with world(has_store=True, encryption_keys=old, local_max_bytes=0) as w:
        w.upstream.answers(stream(events(RS, CALL)), whole(b"{}"), whole(b"{}"))
        await w.ask(post({"model": "gpt-5.4", "input": [ASK], "stream": True}))
        update = {"encryption_keys": SecretStr(f"b:{KEYS['b']},{old}")}
        changed, waiting = w.app.reload(w.app.settings.model_copy(update=update))
        assert (changed, waiting) == (["encryption_keys"], [])

        again = post({"model": "gpt-5.4", "input": [ASK, CALL, RESULT]})
        assert (await w.ask(again)).mark == "injected=1"
        codec = w.store.codec
        assert codec is not None
        assert b"\x01b" in codec.encode((b"s", b"c"), b"f", b"x")[:4]

        without: dict[str, Any] = {"encryption_keys": SecretStr(f"b:{KEYS['b']}")}
        w.app.reload(w.app.settings.model_copy(update=without))
        assert (await w.ask(again)).mark == "injected=0, lacking=1, missed=1"


async def test_a_new_mode_is_in_use() -> None:
    """It is a switch that needs no restart; what is stored meanwhile and before is found again."""
    again = post({"model": "gpt-5.4", "input": [ASK, CALL, RESULT]})
    async with world() as w:
        w.upstream.answers(stream(events(RS, CALL)), *[whole(b"{}")] * 4)
        await w.ask(post({"model": "gpt-5.4", "input": [ASK], "stream": True}))
        for mode, sent, mark in (
            ("off", 3, None),
            ("on", 4, "injected=1"),
            ("shadow", 3, "injected=1, shadow"),
            ("on", 4, "injected=1"),
        ):
            new = w.app.settings.model_copy(update={"mode": mode})
            assert w.app.reload(new) == (["mode"], [])
            assert (await w.ask(again)).mark == mark
            assert len(json.loads(w.upstream.received[-1].body)["input"]) == sent


async def test_a_response_in_flight_keeps_its_mode(tmp_path: Path) -> None:
    """It began with `on`, so it is captured to its end, and told so by the log."""
    config = tmp_path / "replay.yaml"
    put(config, "mode: on\n")
    first, *more = events(RS, CALL)
    script = Script([send(stream_head() + chunk(first)), wait(), send(chunk(b"".join(more)) + END)])
    words = ["/bin/sh", "-c", 'exec "$@" --config "$0"', str(config)]
    async with (
        scripted() as upstream,
        served(under=words, upstream_url=upstream.url + "/v1") as proxy,
    ):
        await proxy.started()
        ask = post({"model": "gpt-5.4", "input": [ASK], "stream": True})
        again = post({"model": "gpt-5.4", "input": [ASK, CALL, RESULT]})
        upstream.plays(script, *(Script([send(whole(b"{}"))]) for _ in range(2)))
        async with line_to(proxy.url) as line:
            await line.send(ask)
            await line.head()
            await line.some()
            put(config, "mode: off\n")
            assert await reloaded(proxy) == {"changed": "mode", "mode": "off"}
            script.go()
            await line.rest()
            assert (await line.ask(again)).mark is None
            put(config, "mode: on\n")
            assert await reloaded(proxy) == {"changed": "mode", "mode": "on"}
            assert (await line.ask(again)).mark == "injected=1"


async def test_a_faulty_certificate_leaves_the_secrets(tmp_path: Path) -> None:
    """A reload is whole, or not at all."""
    files = Files(tmp_path)
    async with world(**files.settings) as w:
        put(files.cert, "")
        update = {"admin_token": SecretStr("new")}
        with pytest.raises(OSError, match="tls_cert_file"):
            w.app.reload(w.app.settings.model_copy(update=update))
        assert w.app.settings == Settings(**w.app.settings.model_dump())
        assert w.app.settings.admin_token.get_secret_value() == ""


async def test_it_does_no_harm_during_a_drain(secret: Path) -> None:
    """The drain goes on, and the process ends as it would."""
    script = Script([send(stream_head() + chunk(b"1")), wait(), send(chunk(b"2") + END)])
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1", admin_token_file=secret) as proxy,
    ):
        await proxy.started()
        upstream.plays(script)
        async with line_to(proxy.url) as line:
            await line.send(request("GET", "/v1/files/f/content"))
            await line.head()
            assert await line.some() == b"1"
            proxy.signal(signal.SIGTERM)
            await proxy.until("draining")
            proxy.signal(signal.SIGHUP)
            await asyncio.sleep(0.1)
            script.go()
            assert await line.rest() == b"2"
        assert await proxy.exit_code() == 0


def survives_sighup(pid: int) -> bool:
    """Return whether a process ignores or handles SIGHUP."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^Sig(?:Ign|Cgt):\s*(\w+)$", status, re.MULTILINE)
    return any(int(mask, 16) & 1 << signal.SIGHUP - 1 for mask in masks)


@pytest.mark.skipif(sys.platform != "linux", reason="signals are read from /proc")
async def test_it_does_no_harm_at_the_start() -> None:
    """From the first lines of the program on, long before the proxy listens."""
    async with served() as proxy:
        await eventually(lambda: survives_sighup(proxy.pid))
        starting = asyncio.create_task(proxy.started())
        while not starting.done():
            proxy.signal(signal.SIGHUP)
            await asyncio.sleep(0.01)
        await starting
        assert (await reloaded(proxy))["changed"] == "nothing"


async def test_a_closed_terminal_ends_the_process_as_ctrl_c_does() -> None:
    """Else it would keep its port, and nothing would show that it runs."""
    ours, theirs = pty.openpty()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("REPLAY_")}
    words = [
        "serve",
        "--store-url=memory://",
        "--listen=127.0.0.1:0",
        "--admin-listen=127.0.0.1:0",
        "--log-format=json",
    ]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reasoning_replay", *words),
        env=environ,
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    proxy = Served(process)
    try:
        await proxy.started()
        assert await reloaded(proxy) == {"changed": "nothing"}
        os.close(ours)
        proxy.signal(signal.SIGHUP)
        assert (await proxy.until("draining"))["grace_s"] == 0
        assert await proxy.exit_code() == 0
    finally:
        await proxy.end()
