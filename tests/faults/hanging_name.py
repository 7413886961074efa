"""
Proxy under uvloop whose store's name hangs in DNS, in namespaces of its own; run by a test.

The name server of these namespaces never answers, so a name that is not in the file of hosts hangs
in the system's own resolver. Run it with `unshare --user --map-root-user --mount --net`.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

import aiohttp
import uvloop
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.certificates import certificates
from tests.faults.kinds import JSON, RESTORED
from tests.faults.stage import LEARNT, SAID, Upstream
from tests.patience import SOON_S
from tests.redis_groups import redis_cluster, redis_sentinels
from tests.redis_server import RedisServer, redis_server
from tests.web.scripted import Script, close, send
from tests.web.wire import ASK, whole
from tests.web.world import World

STORE, UPSTREAM = "store.test", "upstream.test"
BURSTS, AT_ONCE = 6, 12
HOSTNAMES = "cluster-preferred-endpoint-type hostname"
UP = 1 | 64  # IFF_UP, IFF_RUNNING


def raise_loopback() -> None:
    """Bring the loopback of a new network namespace up."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", UP))  # SIOCSIFFLAGS


@contextlib.contextmanager
def black_hole() -> Iterator[Path]:
    """Make every look-up hang whose name is not in the yielded file of hosts."""
    raise_loopback()
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
    ):
        silent.bind(("127.0.0.1", 53))
        hosts = Path(folder, "hosts")
        knows(hosts, STORE, UPSTREAM)
        files = {"hosts": hosts, "resolv.conf": Path(folder, "resolv.conf")}
        files["resolv.conf"].write_text("nameserver 127.0.0.1\n")
        for name, path in files.items():
            subprocess.run(["mount", "--bind", str(path), f"/etc/{name}"], check=True)  # noqa: S603, S607
        yield hosts


def knows(hosts: Path, *names: str) -> None:
    """Write the file of hosts."""
    hosts.write_text("127.0.0.1 localhost " + " ".join(names) + "\n")


@contextlib.asynccontextmanager
async def behind(store_url: str) -> AsyncIterator[World]:
    """Run a proxy whose upstream closes each connection, and that resolves its name each time."""
    door = Upstream()
    await door.open()
    settings = Settings(
        upstream_url=f"http://{UPSTREAM}:{door.port}/v1",
        store_url=store_url,
        store_budget_ms=int(1000 * SOON_S),
        local_max_bytes=0,
        connect_timeout_s=5.0,
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
        log_format="json",
        log_level="error",
    )
    uncached = partial(aiohttp.TCPConnector, use_dns_cache=False)
    with mock.patch.object(aiohttp, "TCPConnector", uncached):
        async with running(settings) as app:
            yield World(app, door)
    door.shut()
    await door.close()


@contextlib.contextmanager
def stored_on(kind: str) -> Iterator[tuple[str, Sequence[RedisServer]]]:
    """Run a store; yield its address, by name, and all of its servers."""
    with contextlib.ExitStack() as stack:
        if kind == "Sentinel":
            group = stack.enter_context(redis_sentinels())
            url, servers = group.url, [*group.nodes, *group.watching]
        elif kind == "Cluster":
            announced = (f"cluster-announce-hostname {STORE}", HOSTNAMES)
            cluster = stack.enter_context(redis_cluster(*announced))
            url, servers = cluster.url, cluster.nodes
        elif kind == "TLS":
            made = stack.enter_context(certificates(STORE))
            server = stack.enter_context(redis_server(tls=made))
            url, servers = f"{server.url}?ssl_ca_certs={made.ca_pem}", [server]
        else:
            server = stack.enter_context(redis_server())
            url, servers = server.url, [server]
        yield url.replace("127.0.0.1", STORE), servers


async def suffers(hosts: Path, kind: str) -> None:
    """Let the name of the store hang; each request succeeds, and the store is used."""
    with stored_on(kind) as (url, servers):
        async with behind(url) as w:
            w.upstream.answers(LEARNT)
            assert (await w.turn(ASK)).status == 200
            knows(hosts, UPSTREAM)
            failed = []
            for _ in range(BURSTS):
                for server in servers:
                    server.do("CLIENT", "KILL", "TYPE", "normal")
                last = whole(SAID, "Connection: close")
                w.upstream.plays(*(Script([send(last), close()]) for _ in range(1 + AT_ONCE)))
                got = [await w.ask(JSON.data)]  # it finds that the connections are closed
                got += await asyncio.gather(*(w.ask(JSON.data) for _ in range(AT_ONCE)))
                failed += [one.status for one in got if one.status != 200]
                w.upstream.forget_scripts()
            assert not failed, f"{len(failed)} of {BURSTS * (1 + AT_ONCE)} failed: {set(failed)}"
            assert all(w.sent(-n)["input"] == RESTORED for n in range(1, AT_ONCE + 1))
            assert w.counted("store_operations_total", operation="recall", outcome="error") == 0
            assert w.counted("store_up") == 1


if __name__ == "__main__":
    with black_hole() as hosts:
        uvloop.run(suffers(hosts, sys.argv[1]))
    os._exit(0)  # a look-up still hangs, and uvloop's own threads would be waited for
