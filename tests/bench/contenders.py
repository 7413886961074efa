"""Contenders of a run: no proxy, nginx, a bare pass-through, and the product."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.machine import cores, cpu_s, family, pinned, rss_bytes
from tests.ports import free_port

STARTS_S = 30.0
ENDS_S = 10.0
NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log stderr error;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 0; client_body_buffer_size 8m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream api {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096; keepalive_requests 100000000; tcp_nodelay on;
    location / {{
      proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 900s;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """
    One run.

    Attributes:
        upstream_port: Port of the only upstream.
        folder: Folder for files; removed at the end.
        is_quick: Whether figures may be rougher, so that a whole run takes ten minutes.
        numbers: Source of numbers that make all exchanges of a run different.
        profile: Prefix of py-spy's files, one for each process of the product; None: no profile.
    """

    upstream_port: int
    folder: Path
    is_quick: bool
    numbers: Iterator[int]
    profile: Path | None = None

    def either(self, quick: int, else_: int) -> int:
        """Return the size for a quick run, or the other one."""
        return quick if self.is_quick else else_


@dataclass(frozen=True, slots=True)
class Contender:
    """
    A server that requests are sent to.

    Attributes:
        name: Name in the table.
        port: Port on loopback.
        pid: The measured process, with its children; 0 if there is none.
        starts_s: CPU time until it was first ready, in seconds.
    """

    name: str
    port: int
    pid: int = 0
    starts_s: float = 0.0

    def cpu_s(self) -> float:
        """Return the CPU time of the process and its children so far, in seconds."""
        return sum(map(cpu_s, family(self.pid))) if self.pid else 0.0

    def rss_bytes(self) -> int:
        """Return the resident memory of the process and its children, in bytes."""
        return sum(map(rss_bytes, family(self.pid))) if self.pid else 0


@contextlib.asynccontextmanager
async def started(
    *words: str, core: Sequence[int] = (), **options: object
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a program on some CPUs while the block runs."""
    with pinned(*core):
        process = subprocess.Popen(words, **options)  # type: ignore[call-overload] # noqa: ASYNC220,S603
    try:
        yield process
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextlib.asynccontextmanager
async def upstream() -> AsyncIterator[int]:
    """Run the upstream; yield its port."""
    words = (sys.executable, "-m", "tests.bench.upstream")
    async with started(*words, core=cores()[1:], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def direct(bench: Bench) -> Contender:
    """Return the contender without a proxy."""
    return Contender("direct", bench.upstream_port)


@contextlib.asynccontextmanager
async def nginx(bench: Bench) -> AsyncIterator[Contender | None]:
    """Run nginx as a plain reverse proxy, in one process; yield None if it is not installed."""
    program = shutil.which("nginx")
    if program is None:
        yield None
        return
    port = free_port()
    settings = bench.folder / f"nginx-{port}.conf"
    settings.write_text(NGINX.format(folder=bench.folder, upstream=bench.upstream_port, port=port))
    words = (program, "-p", str(bench.folder), "-c", str(settings))
    async with started(*words, core=cores()[:1]) as process:
        await _listens(process, port)
        yield Contender("nginx", port, process.pid)


@contextlib.asynccontextmanager
async def bare(bench: Bench) -> AsyncIterator[Contender]:
    """Run the bare pass-through."""
    port = free_port()
    words = (sys.executable, "-m", "tests.bench.bare", str(port), str(bench.upstream_port))
    async with started(*words, core=cores()[:1]) as process:
        await _listens(process, port)
        yield Contender("bare", port, process.pid)


@contextlib.asynccontextmanager
async def ours(
    bench: Bench,
    store_url: str = "memory://",
    *,
    name: str = "proxy",
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[Contender]:
    """Run the product as its users do, with this folder's code; its log goes to a file."""
    port, admin_port = free_port(), free_port()
    given: dict[str, object] = {
        "upstream_url": f"http://127.0.0.1:{bench.upstream_port}/v1",
        "store_url": store_url,
        "listen": f"127.0.0.1:{port}",
        "admin_listen": f"127.0.0.1:{admin_port}",
        "scope_secret": "one for all processes of the bench",
        "drain_grace_s": 0,
        "drain_s": 1,
    }
    environ = {key: value for key, value in os.environ.items() if not key.startswith("REPLAY_")}
    environ |= {
        f"REPLAY_{key.upper()}": str(value) for key, value in (given | dict(settings or {})).items()
    }
    words = (sys.executable, "-m", "reasoning_replay", "serve")
    with (bench.folder / f"log-{port}").open("wb") as log:
        async with started(*words, core=cores()[:1], env=environ, stdout=log) as process:
            starts_s = await _ready(process, admin_port)
            async with _profiled(bench.profile, process.pid):
                yield Contender(name, port, process.pid, starts_s)


@contextlib.asynccontextmanager
async def _profiled(begins: Path | None, pid: int) -> AsyncIterator[None]:
    if begins is None:
        yield
        return
    name = begins.with_name(f"{begins.name}-{pid}.txt")
    words = ("py-spy", "record", "--pid", str(pid), "--format", "raw", "--output", str(name))
    async with started(*words, "--nonblocking", "--subprocesses", "--duration", "unlimited") as spy:
        yield
        spy.send_signal(signal.SIGINT)
        await asyncio.to_thread(spy.wait, ENDS_S)


async def _listens(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + STARTS_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.01)
    raise RuntimeError(f"{process.args!r} does not start")


async def _ready(process: subprocess.Popen[bytes], admin_port: int) -> float:
    """Wait until it is ready for traffic; return its CPU time so far, in seconds."""
    deadline = time.monotonic() + STARTS_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", admin_port)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            if answer.startswith(b"HTTP/1.1 200 "):
                return sum(map(cpu_s, family(process.pid)))
        await asyncio.sleep(0.01)
    raise RuntimeError(f"{process.args!r} does not start")
