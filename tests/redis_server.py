"""
A real Redis for tests: on free ports of this machine, in its own folder, ended by its pid.

Groups of servers are in `redis_groups`, certificates in `certificates`.
"""

import contextlib
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from tests.certificates import Certificates
from tests.patience import SOON_S
from tests.programs import ends_with_tests, require

__all__ = ["PASSWORD", "RedisServer", "redis_server", "wait_until"]

# Below the ephemeral ports: an outgoing connection could take the port of a server that is down.
# A cluster's second port, 10,000 above, is below them as well.
PORTS = range(10_000, 22_000)
BUS_OFFSET = 10_000
PASSWORD = "of the tests' own user"
DIRECTIVES = ("bind 127.0.0.1", "loglevel notice", 'save ""', "unixsocketperm 600")
KEEPING = ("appendonly yes", "appendfsync always")
TRIES = 5


class RedisServer:
    """
    One server, which a test can kill, pause and start again on the same port.

    It always has a user `operator`, whose rights `do` uses.

    Attributes:
        port: Its port, also while it is down; the TLS port if it has certificates.
        url: Its address for a client, without a user or a password.
        socket_path: Its Unix socket.
        folder: The folder with its settings, log and data.
    """

    def __init__(
        self,
        program: str,
        folder: Path,
        directives: Sequence[str] = (),
        tls: Certificates | None = None,
        words: Sequence[str] = (),
    ) -> None:
        """
        Prepare the server; nothing runs yet.

        Args:
            program: `redis-server`, or a program with the same settings.
            folder: An empty folder, which the caller removes.
            directives: Lines for its settings, in addition to those of all tests.
            tls: Certificates; with them the server accepts only TLS.
            words: Additional command-line arguments.
        """
        self._program = program
        self._directives = directives
        self._tls = tls
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = folder
        self.socket_path = folder / "redis.sock"
        self.port = 0
        self.url = ""

    def start(self) -> None:
        """Start with the stored data (by default none), and wait until the server responds."""
        settings = self.folder / "redis.conf"
        for _ in range(TRIES):
            if not settings.exists():
                self.port = _free_port()
                self.url = f"{'rediss' if self._tls else 'redis'}://127.0.0.1:{self.port}/0"
                settings.write_text("\n".join(self._lines()) + "\n")
            self._process = subprocess.Popen(  # noqa: S603 - a server's own program
                [*ends_with_tests(), self._program, str(settings), *self._words],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if self._comes_up(self._process):
                return
            settings.unlink()  # another process took the port first
        log = self.folder / "log"
        raise RuntimeError(f"{self._program} does not start: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End the process as a power failure would; do nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Pause the process: connections stay open and get no responses."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process, which then handles all pending commands."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def do(self, *words: str | int | bytes, by: Redis | None = None) -> Any:
        """Send a command as the operator; return the raw reply."""
        if by is not None:
            return by.execute_command(*words)  # type: ignore[no-untyped-call]
        with self.operator() as redis:
            return redis.execute_command(*words)

    def operator(self) -> Redis:
        """Return a client with all rights and raw replies, which the caller closes."""
        redis = Redis(
            unix_socket_path=str(self.socket_path),
            username="operator",
            password=PASSWORD,
            socket_timeout=10,
            protocol=2,
            single_connection_client=True,
        )
        redis.response_callbacks.clear()
        return redis

    def told(self, section: str) -> dict[str, str]:
        """Return a section of INFO, or of CLUSTER INFO."""
        words = section.split() if " " in section else ["INFO", section]
        text = self.do(*words).decode()
        lines = (line.split(":", 1) for line in text.splitlines() if ":" in line)
        return {name: value.strip() for name, value in lines}

    def _lines(self) -> Iterator[str]:
        yield from DIRECTIVES
        yield f"dir {self.folder}"
        yield f"logfile {self.folder / 'log'}"
        yield f"unixsocket {self.socket_path}"
        yield f'user operator on ">{PASSWORD}" ~* &* +@all'
        if self._tls:
            yield "port 0"
            yield f"tls-port {self.port}"
            yield f"tls-cert-file {self._tls.server_pem}"
            yield f"tls-key-file {self._tls.server_pem}"
            yield f"tls-ca-cert-file {self._tls.ca_pem}"
            yield f"tls-auth-clients {'yes' if self._tls.asks_client else 'no'}"
        else:
            yield f"port {self.port}"
        yield from self._directives

    def _comes_up(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + SOON_S
        while process.poll() is None:
            with contextlib.suppress(RedisError):
                self.do("PING")
                return True
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.01)
        return False


def _free_port() -> int:
    """Return a free port whose cluster port, 10,000 above, is free as well."""
    while True:
        port = random.choice(PORTS)  # noqa: S311 - no secret
        with contextlib.suppress(OSError), contextlib.ExitStack() as both:
            for number in (port, port + BUS_OFFSET):
                both.enter_context(socket.create_server(("127.0.0.1", number)))
            return port


@contextlib.contextmanager
def redis_server(
    *directives: str,
    kind: str = "redis",
    tls: Certificates | None = None,
    keeps: bool = False,
    words: Sequence[str] = (),
) -> Iterator[RedisServer]:
    """
    Run a server for the duration of the block.

    Args:
        directives: Lines for its settings, such as "maxmemory 4mb".
        kind: `redis` or `valkey`.
        tls: As for `RedisServer`.
        keeps: Whether it has its data again after a kill and a start.
        words: As for `RedisServer`.
    """
    program = require(kind, f"{kind}-server")
    lines = [*(KEEPING if keeps else ()), *directives]
    with tempfile.TemporaryDirectory(prefix="rr-") as folder:
        server = RedisServer(program, Path(folder), lines, tls, words)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition on servers holds; fail if it does not hold in time."""
    deadline = time.monotonic() + SOON_S
    while True:
        with contextlib.suppress(RedisError):
            if holds():
                return
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.02)
