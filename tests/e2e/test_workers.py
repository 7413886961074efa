"""Several processes on one port: one address, one set of metrics, and none left behind."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import certificates
from tests.e2e.agent import Agent
from tests.e2e.witness import assert_restored
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.web.line import Broken, line_to, request
from tests.web.scripted import Script, scripted, send, wait
from tests.web.served import Served, served
from tests.web.test_app import refused
from tests.web.wire import END, chunk, stream_head, whole

GET = request("GET", "/v1/files/f/content")
SOON_S = 60.0  # a busy machine takes its time


@contextlib.asynccontextmanager
async def several(
    upstream_url: str, store_url: str, **more: object
) -> AsyncIterator[tuple[Served, set[int]]]:
    """Run two workers; gives their parent, and the pids of all that it started."""
    given: dict[str, Any] = {
        "upstream_url": upstream_url,
        "store_url": store_url,
        "store_budget_ms": 5000,
        "scope_secret": "one for all",
        "workers": 2,
    }
    async with served(**(given | more)) as parent:
        await parent.started()
        children = children_of(parent.pid)
        yield parent, children
        await parent.end()
        assert await gone(children)


def children_of(pid: int) -> set[int]:
    """Return the processes that one has started and that still run."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(word) for word in words}


def workers_of(pid: int) -> list[int]:
    """Return those of them that serve."""
    return sorted(
        child
        for child in children_of(pid)
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    )


async def gone(pids: Collection[int]) -> bool:
    """Tell whether none of these is left, soon."""
    for _ in range(int(SOON_S / 0.05)):
        if not any(runs(pid) for pid in pids):
            return True
        await asyncio.sleep(0.05)
    return False


def runs(pid: int) -> bool:
    """Tell whether a process is neither gone nor only waiting to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def state(parent: Served) -> tuple[int, dict[str, str]]:
    """Ask the parent how they are."""
    async with line_to(parent.admin_url) as line:
        got = await line.ask(request("GET", "/readyz"))
    return got.status, json.loads(got.body)


async def until(parent: Served, status: int, words: str, workers: str) -> None:
    """Wait until it says so."""
    async with asyncio.timeout(SOON_S):
        while True:
            got, said = await state(parent)
            if (got, said["status"], said["workers"]) == (status, words, workers):
                return
            await asyncio.sleep(0.02)


async def metric(parent: Served, sample: str) -> float:
    """Read one sample of the metrics; -1 when there is no such sample."""
    async with line_to(parent.admin_url) as line:
        text = (await line.ask(request("GET", "/metrics"))).body.decode()
    lines = (entry.rpartition(" ") for entry in text.splitlines())
    return next((float(value) for name, _, value in lines if name == sample), -1.0)


async def becomes(parent: Served, sample: str, value: float) -> bool:
    """Tell whether a sample is so much, soon: an exchange is counted when it is over."""
    for _ in range(int(SOON_S / 0.05)):
        if await metric(parent, sample) == value:
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_one_port_one_conversation_and_one_set_of_metrics(
    kind: str, shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Whichever worker answers, reasoning is there; what each counts is added up."""
    standin = StandIn("chain", "strict")
    store_url = shared_redis.url if kind == "redis" else f"sqlite://{tmp_path}/kept.db"
    async with (
        standin,
        several(standin.base_url, store_url) as (parent, _),
        Agent("", keeps="no-ids") as agent,
    ):
        assert await state(parent) == (
            200,
            {"status": "ready", "store": "ok", "workers": "2 of 2"},
        )
        for question in ("Where does it rain today?", "And tomorrow?", "And on Sunday?"):
            agent.say(question)
            while await agent.step(f"{parent.url}/v1"):
                pass
        assert_restored(standin, agent)
        for _ in range(20):  # each on a connection of its own
            async with line_to(parent.url) as line:
                await line.ask(GET)
        asked = 'reasoning_replay_exchanges_total{outcome="refused",route="other",status="401"}'
        assert await becomes(parent, asked, 20)
        made = 'reasoning_replay_captures_total{result="saved"}'
        assert await becomes(parent, made, len(agent.steps))
        assert await becomes(parent, "reasoning_replay_in_flight", 0)
        assert await metric(parent, "reasoning_replay_max_exchanges") == 2 * 4096
        assert await metric(parent, "reasoning_replay_store_up") == 1
        assert await metric(parent, "reasoning_replay_workers_serving") == 2
        assert await metric(parent, 'reasoning_replay_build_info{version="0.1.0"}') == 1
        parent.signal(signal.SIGTERM)
        assert (await parent.until("stopped"))["worker"] in (1, 2)
        await parent.exit_code()
        await parent.rest()
        by_worker = {entry.get("worker") for entry in parent.log if entry["event"] == "exchange"}
        assert by_worker == {1, 2}


async def test_what_the_parent_sees_of_the_store_is_told(own_redis: RedisServer) -> None:
    """Before any request: it asks itself, and what it asks is counted with all else."""
    own_redis.kill()
    async with scripted() as upstream, several(upstream.url, own_redis.url) as (parent, _):
        assert await becomes(parent, "reasoning_replay_store_up", 0)
        checks = 'reasoning_replay_store_operations_total{operation="check",outcome="error"}'
        assert await metric(parent, checks) >= 1
        own_redis.start()
        assert await becomes(parent, "reasoning_replay_store_up", 1)


async def test_one_is_killed_and_only_what_it_did_is_lost(shared_redis: RedisServer) -> None:
    """The other goes on, a new one comes, and no counter goes back."""
    async with (
        scripted() as upstream,
        several(upstream.url, shared_redis.url) as (parent, _),
        contextlib.AsyncExitStack() as lines,
    ):
        script = [send(stream_head() + chunk(b"1")), wait(), send(chunk(b"2") + END)]
        scripts = [Script(script) for _ in range(16)]
        upstream.plays(*scripts)
        clients = [await lines.enter_async_context(line_to(parent.url)) for _ in scripts]
        for client in clients:
            await client.send(GET)
            await client.head()
            assert await client.some() == b"1"
        assert await becomes(parent, "reasoning_replay_in_flight", 16)
        os.kill(workers_of(parent.pid)[0], signal.SIGKILL)
        ended = await parent.until("worker_ended")
        assert ended["exit_code"] == -signal.SIGKILL
        left = await metric(parent, "reasoning_replay_in_flight")  # the log is told last
        for script_ in scripts:
            script_.go()
        whole_ones = 0
        for client in clients:
            with contextlib.suppress(Broken, ConnectionError):
                whole_ones += await client.rest() == b"2"
        assert 0 < whole_ones == left < 16

        await until(parent, 200, "ready", "2 of 2")
        assert await metric(parent, "reasoning_replay_worker_restarts_total") == 1
        sample = 'reasoning_replay_exchanges_total{outcome="ok",route="other",status="200"}'
        assert await becomes(parent, sample, whole_ones)
        upstream.answers(*[whole(b"{}")] * 20)
        for _ in range(20):
            async with line_to(parent.url) as line:
                assert (await line.ask(GET)).status == 200
        assert await becomes(parent, sample, whole_ones + 20)


async def test_a_drain_waits_for_what_runs_in_any_of_them(shared_redis: RedisServer) -> None:
    """One signal to the parent; a stream ends whole, and then all of them have ended with 0."""
    async with (
        scripted() as upstream,
        several(upstream.url, shared_redis.url) as (parent, children),
    ):
        script = Script([send(stream_head() + chunk(b"1")), wait(), send(chunk(b"2") + END)])
        upstream.plays(script)
        async with line_to(parent.url) as line:
            await line.send(GET)
            await line.head()
            assert await line.some() == b"1"
            parent.signal(signal.SIGTERM)
            await until(parent, 503, "draining", "1 of 2")
            await refused(parent.url)
            async with line_to(parent.admin_url) as admin:
                assert (await admin.ask(request("GET", "/livez"))).status == 200
            script.go()
            assert await line.rest() == b"2"
        assert await parent.exit_code() == 0
        assert await gone(children)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_all_at_once(number: int, shared_redis: RedisServer) -> None:
    """Whoever asks twice does not want to wait, and wants nothing to be left."""
    async with (
        scripted() as upstream,
        several(upstream.url, shared_redis.url, drain_grace_s=60) as (parent, children),
        line_to(parent.url) as line,
    ):
        upstream.plays(Script([send(stream_head() + chunk(b"1")), wait()]))
        await line.send(GET)
        await line.head()
        parent.signal(number)
        await until(parent, 503, "draining", "2 of 2" if number == signal.SIGTERM else "1 of 2")
        parent.signal(number)
        assert await parent.exit_code() == 128 + number
        assert await gone(children)


async def test_workers_do_not_outlive_their_parent(shared_redis: RedisServer) -> None:
    """Killed without a word, it leaves nothing: what runs ends whole, and nothing new begins."""
    async with (
        scripted() as upstream,
        several(upstream.url, shared_redis.url) as (parent, children),
    ):
        script = Script([send(stream_head() + chunk(b"1")), wait(), send(chunk(b"2") + END)])
        upstream.plays(script)
        async with line_to(parent.url) as line:
            await line.send(GET)
            await line.head()
            assert await line.some() == b"1"
            folders = metrics_of(children)
            assert folders
            parent.signal(signal.SIGKILL)
            assert await gone({parent.pid})
            await refused(parent.url)
            script.go()
            assert await line.rest() == b"2"
        assert await gone(children)
        assert not [folder for folder in folders if folder.exists()]


def metrics_of(pids: Collection[int]) -> set[Path]:
    """Return the folders in which processes count."""
    found = set()
    for pid in pids:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            name = line.partition("/")[2]
            if name.endswith(".db"):
                found.add(Path("/" + name).parent)
    return found


async def test_all_of_them_serve_tls(shared_redis: RedisServer) -> None:
    """Each has read the certificate for itself; a later one does so when it starts."""
    with certificates() as made:
        pair = {"tls_cert_file": made.server_pem, "tls_key_file": made.server_pem}
        context = ssl.create_default_context(cafile=made.ca_pem)
        async with (
            scripted() as upstream,
            several(upstream.url, shared_redis.url, **pair) as (parent, _),
        ):
            assert parent.url.startswith("https://127.0.0.1:")
            port = int(parent.url.rpartition(":")[2])
            upstream.answers(*[whole(b"{}")] * 8)
            for _ in range(8):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                writer.write(GET)
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.close()


async def test_a_fault_in_a_worker_ends_the_start(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    """One line for all of them, which says what it is."""
    file = tmp_path / "no.pem"
    file.write_text("no certificate")
    code, log = await ended_at_start(
        workers=2,
        store_url=shared_redis.url,
        scope_secret="s",
        tls_cert_file=file,
        tls_key_file=file,
    )
    (line,) = log
    assert (code, line["event"], line["level"]) == (1, "cannot_start", "error")
    assert "no.pem" in line["reason"]


async def ended_at_start(**settings: Any) -> tuple[int, list[dict[str, Any]]]:
    """Start one that cannot; give its exit code and what it logged."""
    async with served(**settings) as proxy:
        await proxy.rest()
        return await proxy.exit_code(), proxy.log


@pytest.mark.parametrize("which", ["listen", "admin_listen"])
async def test_a_port_that_is_taken_ends_the_start(which: str, shared_redis: RedisServer) -> None:
    """Exit code 1, and one line that names the address."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = {which: f"127.0.0.1:{port}"}
        code, log = await ended_at_start(
            workers=2, store_url=shared_redis.url, scope_secret="s", **taken
        )
    (line,) = log
    assert (code, line["event"], line["level"]) == (1, "cannot_listen", "error")
    assert str(port) in line["reason"]


async def test_what_is_deleted_is_forgotten_by_all(shared_redis: RedisServer) -> None:
    """Also by what each worker has just served, and keeps near."""
    standin = StandIn("chain", "normal")
    async with (
        standin,
        several(standin.base_url, shared_redis.url, admin_token="t0p") as (parent, _),
        Agent("", keeps="no-ids") as agent,
    ):
        agent.say("Where does it rain today?")
        for _ in range(2):
            await agent.step(f"{parent.url}/v1")
        entry = await parent.until("exchange")
        name = f"{entry['scope']}:{entry['conversation']}"
        token = "Authorization: Bearer t0p"
        async with line_to(parent.admin_url) as line:
            refused_ = await line.ask(request("DELETE", f"/conversations/{name}"))
            assert refused_.status == 401
            got = await line.ask(request("DELETE", f"/conversations/{name}", token))
            assert (got.status, json.loads(got.body)) == (200, {"forgotten": True})
            got = await line.ask(request("GET", f"/conversations?scope={entry['scope']}", token))
            assert json.loads(got.body) == {"conversations": [], "next": None}
        await agent.step(f"{parent.url}/v1")
        assert agent.steps[-1].mark.startswith("injected=0")
