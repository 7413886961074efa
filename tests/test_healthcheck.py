"""`health` ends with 0 if the proxy on this machine responds with 200, else with 1."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from reasoning_replay import cli, healthcheck
from reasoning_replay.__main__ import main
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.patience import SOON_S

ROOT = Path(__file__).parents[1]
LIVES = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nby \x1bme\n"
DRAINS = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def answering(answer: bytes, host: str = "127.0.0.1") -> Iterator[tuple[int, list[bytes]]]:
    """Serve one response; yield the port and the received requests."""
    asked: list[bytes] = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            asked.append(connection.recv(4096))
            connection.sendall(answer)

    with socket.create_server((host, 0), family=family) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], asked
        thread.join(SOON_S)


def test_its_default_is_that_of_the_setting() -> None:
    """The default is a copy of the setting's: importing the settings takes ten times as long."""
    assert Settings().admin_listen == healthcheck.ADMIN_LISTEN


@pytest.mark.parametrize(
    ("answer", "want", "said"),
    [
        pytest.param(LIVES, 0, "200 by me", id="lives"),
        pytest.param(DRAINS, 1, "503", id="drains"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n", 0, "200", id="old-http"),
        pytest.param(b"HTTP/1.1 200", 0, "200", id="cut-off"),
        pytest.param(b"+PONG\r\n", 1, "the response is not HTTP", id="a-redis"),
        pytest.param(b"", 1, "the response is not HTTP", id="silence"),
    ],
)
def test_an_answer_of_200_is_health(
    answer: bytes, want: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only status 200 is healthy; one printed line has the result, for `docker inspect`."""
    with answering(answer) as (port, asked):
        assert healthcheck.health(f"127.0.0.1:{port}") == want

    assert asked[0].startswith(f"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"127.0.0.1:{port}/livez: {said}"


@pytest.mark.parametrize(
    ("path", "state", "want"),
    [
        pytest.param("", "ok", 0, id="used"),
        pytest.param("missing/", "degraded", 1, id="not-used"),
    ],
)
async def test_strict_health_needs_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, state: str, want: int
) -> None:
    """A proxy without its store is ready, and `health --strict` fails."""
    settings = Settings(
        store_url=f"sqlite://{tmp_path}/{path}replay.db",
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
        log_level="error",
    )
    async with running(settings) as app:
        here = app.admin_url.removeprefix("http://")
        codes: list[int] = []
        deadline = time.monotonic() + SOON_S
        while codes != [0, want]:  # the store is opened meanwhile
            assert time.monotonic() < deadline, codes
            capsys.readouterr()
            codes = [
                await asyncio.to_thread(cli.main, ["health", flag, "--admin-listen", here])
                for flag in ("--ready", "--strict")
            ]
    assert capsys.readouterr().out.count(f'200 {{"status": "ready", "store": "{state}"}}') == 2


@pytest.mark.parametrize(
    ("written", "asked_at"),
    [
        pytest.param("127.0.0.1:{port}", "127.0.0.1", id="loopback"),
        pytest.param("0.0.0.0:{port}", "127.0.0.1", id="every-interface"),
        pytest.param("[::1]:{port}", "::1", id="ipv6"),
    ],
)
def test_every_form_of_the_address_is_followed(written: str, asked_at: str) -> None:
    """An address for all interfaces is requested on loopback."""
    with answering(LIVES, asked_at) as (port, asked):
        assert healthcheck.health(written.format(port=port)) == 0
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("written", "words"),
    [
        pytest.param("127.0.0.1:0", "port 0", id="any-port"),
        pytest.param("9090", "not host:port", id="no-address"),
    ],
)
def test_an_address_that_cannot_be_asked_is_told(
    written: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address that cannot be requested is reported and not healthy."""
    assert healthcheck.health(written) == 1
    assert words in capsys.readouterr().out


def test_a_port_without_a_server_is_not_healthy() -> None:
    """A port without a server is not healthy."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert healthcheck.health(f"127.0.0.1:{held.getsockname()[1]}") == 1


def test_silence_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never responds is not healthy."""
    monkeypatch.setattr(healthcheck, "DEADLINE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert healthcheck.health(f"127.0.0.1:{silent.getsockname()[1]}") == 1


def test_a_response_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is known, so headers without end delay the result by the deadline only."""
    monkeypatch.setattr(healthcheck, "DEADLINE_S", 0.1)

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(b"X-More: 1\r\n")
                time.sleep(0.01)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert healthcheck.health(f"127.0.0.1:{listening.getsockname()[1]}") == 0
        thread.join(SOON_S)


@pytest.mark.parametrize(
    ("words", "path"),
    [
        pytest.param(["health"], b"/livez", id="lives"),
        pytest.param(["health", "--ready"], b"/readyz", id="takes-traffic"),
        pytest.param(["health", "--admin-listen", "{place}"], b"/livez", id="by-flag"),
        pytest.param(["health", "--ready", "--config", "{file}"], b"/readyz", id="by-file"),
        pytest.param(["health"], b"/livez", id="by-file-of-a-variable"),
    ],
)
def test_it_is_asked_where_serve_was_told_to_listen(
    words: list[str],
    path: bytes,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """`health` finds the address by variable, flag or file, as `serve` does."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with answering(LIVES) as (port, asked):
        place, file = f"127.0.0.1:{port}", tmp_path / "replay.yaml"
        file.write_text(f"admin_listen: {place}")
        told = [word.format(place=place, file=file) for word in words]
        monkeypatch.setattr(sys, "argv", ["reasoning-replay", *told])
        if "of-a-variable" in request.node.name:
            monkeypatch.setenv("REPLAY_CONFIG", str(file))
        elif "{" not in "".join(words):
            monkeypatch.setenv("REPLAY_ADMIN_LISTEN", place)
        assert main() == 0
    assert asked[0].split()[1] == path


def test_settings_that_are_no_good_are_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    """Invalid settings end with 1, since Docker reserves 2."""
    assert cli.main(["health", "--ttl", "5"]) == 1
    assert "--ttl: unknown setting" in capsys.readouterr().err


def test_it_brings_in_next_to_nothing() -> None:
    """The health check imports very little, since it runs every few seconds."""
    words = (
        "import sys; sys.argv = ['x', 'health']; "
        "from reasoning_replay.__main__ import main; main(); "
        "print(*sys.modules, file=sys.stderr)"
    )
    environ = {**os.environ, "REPLAY_ADMIN_LISTEN": "127.0.0.1:1", "HTTP_PROXY": "http://x:1"}
    got = subprocess.run(  # noqa: S603
        [sys.executable, "-c", words], capture_output=True, check=True, cwd=ROOT, env=environ
    )

    brought_in = set(got.stderr.decode().split())
    assert "reasoning_replay.healthcheck" in brought_in
    assert not brought_in & {
        "reasoning_replay.cli",
        "pydantic",
        "aiohttp",
        "asyncio",
        "urllib.request",
    }
