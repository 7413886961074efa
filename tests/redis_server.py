"""
A real Redis for tests: on free ports of this machine, in a folder of its own, ended by its pid.

Several of them together are in `redis_groups`, certificates in `certificates`.
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
from tests.programs import require

__all__ = ["PASSWORD", "RedisServer", "redis_server", "wait_until"]

STARTS_S = 20.0
# Below those that systems give to outgoing connections, which would take the port of a server
# that is down; and so that a cluster's second port, 10,000 above, is below them as well.
PORTS = range(10_000, 22_000)
BUS_OFFSET = 10_000
PASSWORD = "of the tests' own user"
DIRECTIVES = ("bind 127.0.0.1", "loglevel notice", 'save ""', "unixsocketperm 600")
KEEPING = ("appendonly yes", "appendfsync always")
TRIES = 5


class RedisServer:
    """
    One server, which may be killed, stopped for a while and started again where it was.

    Beside what its settings say there is always a user `operator`, whom `do` acts as.

    Attributes:
        port: Where it listens, also while it is down; of TLS, when it was given certificates.
        url: The same, as a client takes it: without a user or a password.
        socket_path: Its Unix socket.
        folder: What is its own: settings, log, data.
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
        Prepare one; nothing runs yet.

        Args:
            program: `redis-server`, or what takes the same settings.
            folder: An empty one, which somebody else removes.
            directives: Lines of its settings, besides those that every test wants.
            tls: Speak TLS, and nothing else, as this authority's server.
            words: Further ones on its command line.
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
        """Start with what it kept (nothing, unless told otherwise), and wait until it answers."""
        settings = self.folder / "redis.conf"
        for _ in range(TRIES):
            if not settings.exists():
                self.port = _free_port()
                self.url = f"{'rediss' if self._tls else 'redis'}://127.0.0.1:{self.port}/0"
                settings.write_text("\n".join(self._lines()) + "\n")
            self._process = subprocess.Popen(  # noqa: S603 - a server's own program
                [self._program, str(settings), *self._words],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if self._comes_up(self._process):
                return
            settings.unlink()  # somebody was faster at the port
        log = self.folder / "log"
        raise RuntimeError(f"{self._program} does not start: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it as a power cut would; nothing happens when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it hang: its connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, with all that it was asked meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def do(self, *words: str | int | bytes, by: Redis | None = None) -> Any:
        """Send it a command as its operator, and give the answer as the server wrote it."""
        if by is not None:
            return by.execute_command(*words)  # type: ignore[no-untyped-call]
        with self.operator() as redis:
            return redis.execute_command(*words)

    def operator(self) -> Redis:
        """Give a client with all rights, which the caller closes; it reads nothing into answers."""
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
        """Give a section of INFO, or of CLUSTER INFO."""
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
        deadline = time.monotonic() + STARTS_S
        while process.poll() is None:
            with contextlib.suppress(RedisError):
                self.do("PING")
                return True
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.01)
        return False


def _free_port() -> int:
    """Find a port that is free, as well as the one that a node of a cluster would add."""
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
    Run a server for as long as the block lasts.

    Args:
        directives: Lines of its settings, such as "maxmemory 4mb".
        kind: `redis` or `valkey`.
        tls: As for `RedisServer`.
        keeps: Whether it has its data again when it is started after a kill.
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


def wait_until(holds: Callable[[], bool], within_s: float = STARTS_S) -> None:
    """Wait until something holds of servers; fail when it does not in time."""
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(RedisError):
            if holds():
                return
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
