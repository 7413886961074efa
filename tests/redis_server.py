"""A real Redis for tests: on a free port, in memory alone, and ended by its pid."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

__all__ = ["RedisServer", "redis_server"]

STARTS_S = 10.0


class RedisServer:
    """
    One `redis-server`, which may be killed and started again where it was.

    Attributes:
        url: Where it listens, also while it is down.
    """

    def __init__(self, program: str) -> None:
        self._program = program
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start empty, and wait until it answers."""
        words = ["--port", str(self._port), "--bind", "127.0.0.1", "--loglevel", "warning"]
        words += ["--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([self._program, *words], stdout=subprocess.DEVNULL)  # noqa: S603
        deadline = time.monotonic() + STARTS_S
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("redis-server does not answer")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would; nothing happens when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port), timeout=1) as line,
        ):
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")
        return False


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Run a Redis; where there is none the test is skipped, or fails if CI promised one."""
    program = shutil.which("redis-server")
    if program is None:
        if "redis" in os.environ.get("REPLAY_TEST_REQUIRE", ""):
            pytest.fail("redis-server is not installed, and REPLAY_TEST_REQUIRE names redis")
        pytest.skip("redis-server is not installed")
    server = RedisServer(program)
    server.start()
    try:
        yield server
    finally:
        server.kill()
