"""The store is tested with the operations of `serve`; an operation that fails is reported."""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from reasoning_replay.adapters.stores.registry import read_store_url
from reasoning_replay.adapters.stores.sqlite.file import APPLICATION, VERSION
from reasoning_replay.check import check
from reasoning_replay.check import store as module
from reasoning_replay.check.store import of_store
from reasoning_replay.settings.model import Settings

from tests.adapters.stores.kinds import ALLOWED
from tests.check.reports import found, report
from tests.redis_groups import Cluster
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import slow_line
from tests.web.served import served


async def test_says_what_memory_means(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The finding for memory:// warns that replicas do not share it."""
    assert await check(settings, {}) == 0
    room = "up to 256MiB in this process"
    want = f"ok: memory: {room}, lost at a restart and not shared: run one replica"
    assert report(capsys, "store") == [want]


async def test_memory_in_kubernetes_is_a_warning(settings: Settings) -> None:
    """memory:// in Kubernetes is a warning, since pods are replaced at any time."""
    (line,) = await found(of_store(settings, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}))
    assert line.startswith("warning: memory: ")
    assert "set store_url to a Redis" in line


@pytest.fixture
def patient(settings: Settings) -> Settings:
    """Settings with long timeouts, so that a busy machine is no store failure."""
    update = {"store_budget_ms": 20_000}
    return settings.model_copy(update=update)


async def checked(settings: Settings, **changed: object) -> int:
    """Run the check with some settings changed."""
    return await check(settings.model_copy(update=changed), {})


FOUND = r"ok: a test turn was saved, and found in \d+\.\d ms"

ENDS, SERVES = "only a person can cure it", "it may pass"
# A mistake in store_url -> the sentence that the user reads, in `check` and in the log of `serve`,
# and whether `serve` starts nevertheless.
MISTAKES = [
    ("sqlite://{tmp_path}/missing/replay.db", "there is no folder {tmp_path}/missing; create it, with write access for the proxy's user", ENDS),  # noqa: E501
    ("sqlite://{tmp_path}/notes.txt", "use another file, or a path that does not exist yet", ENDS),
    ("sqlite://{tmp_path}/folder", "store_url must name a file, not a folder; this user needs write access", ENDS),  # noqa: E501
    ("sqlite://{tmp_path}/newer.db", "name another file, or use that version", ENDS),
    ("sqlite://{tmp_path}/anothers.db", "name another file", ENDS),
    ("redis://:hunter2@127.0.0.1:{closed}/0", "is it running, and are host and port in store_url right?", SERVES),  # noqa: E501
    ("redis://:hunter2@redis.invalid", "is the host in store_url spelt right? In a user or password, @ is %40", SERVES),  # noqa: E501
    ("redis+cluster://:hunter2@127.0.0.1:{closed},127.0.0.1:{closed}", "is it running, and are host and port in store_url right?", SERVES),  # noqa: E501
    ("redis+sentinel://:hunter2@127.0.0.1:{closed}/name", "are these Sentinels, and is the master's name right?", SERVES),  # noqa: E501
    ("unix:///nowhere/redis.sock?password=hunter2", "is it running, and is the path in store_url right?", SERVES),  # noqa: E501
    ("unix://{tmp_path}/folder", "{tmp_path}/folder is a folder; name the socket in it, such as {tmp_path}/folder/redis.sock", ENDS),  # noqa: E501
    ("redis://127.0.0.1:{redis}/99", "is there a database with that number? Usually 0 to 15", ENDS),
    ("redis://127.0.0.1:{http}", "is it a Redis? Another server seems to listen there", ENDS),
    ("redis+cluster://127.0.0.1:{redis}", "is it a Cluster? If not, write redis:// and not redis+cluster://", ENDS),  # noqa: E501
    ("redis://127.0.0.1:{crowded}", "raise its maxclients; docs/stores.md has the number of connections", SERVES),  # noqa: E501
    ("redis+cluster://127.0.0.1:{crowded}", "raise its maxclients; docs/stores.md has the number of connections", SERVES),  # noqa: E501
    ("redis://127.0.0.1:{guarded}", "set REPLAY_STORE_PASSWORD, and a user as in redis://user@host if needed; @ is %40 in one", ENDS),  # noqa: E501
    ("redis://:hunter2@127.0.0.1:{guarded}", "set REPLAY_STORE_PASSWORD, and a user as in redis://user@host if needed; @ is %40 in one", ENDS),  # noqa: E501
    ("rediss://127.0.0.1:{http}", "does it use TLS? If not, write redis://, not rediss://", ENDS),
    ("redis://:hunter2@127.0.0.1:{redis}?username=nobody", "set REPLAY_STORE_PASSWORD, and a user as in redis://user@host if needed; @ is %40 in one", ENDS),  # noqa: E501
    ("redis://silenced:hunter2@127.0.0.1:{redis}", "docs/stores.md lists the permissions that the user needs", ENDS),  # noqa: E501
    ("rediss://127.0.0.1:{guarded}", "is it a Redis, and is access allowed? If TLS is the difference, write redis:// and not rediss://", SERVES),  # noqa: E501
]  # fmt: skip
# What only `check` tries at once. A node may have the slots of all that the test turn is saved in.
UNWRITABLE = [
    ("redis://127.0.0.1:{full}", "saving failed.*: .*it is full, and its eviction policy makes no room.*set its maxmemory-policy to volatile-ttl$"),  # noqa: E501
    ("redis://127.0.0.1:{filling}", "its maxmemory is 20.00M and its maxmemory-policy is noeviction, .*: set maxmemory-policy to volatile-ttl$"),  # noqa: E501
    ("redis://127.0.0.1:{replica}", "it is a replica, which accepts no writes.*set store_url to its master, or to its Sentinels$"),  # noqa: E501
    ("redis://127.0.0.1:{node}", "(saving|lookups) failed.*: .*it is a node of a Cluster.*write redis\\+cluster:// and not redis://$"),  # noqa: E501
    ("redis://127.0.0.1:{sentinel}", "saving failed.*: .*does not know the command [A-Z]+; is it a Sentinel"),  # noqa: E501
]  # fmt: skip


@pytest.fixture(scope="module")
def ports(shared_redis: RedisServer, shared_cluster: Cluster) -> Iterator[dict[str, int]]:
    """Ports of a Redis, and of some that refuse what `serve` does."""
    with (
        redis_server("requirepass right") as guarded,
        redis_server("maxmemory 1mb", "maxmemory-policy noeviction") as full,
        redis_server("maxmemory 20mb", "maxmemory-policy noeviction") as filling,
        redis_server() as replica,
        redis_server(words=["--sentinel"]) as sentinel,
        redis_server() as crowded,
        crowded.operator() as only,
    ):
        crowded.do("CONFIG", "SET", "maxclients", 1, by=only)
        full.do("CONFIG", "SET", "maxmemory", "1")
        replica.do("REPLICAOF", "127.0.0.1", replica.port)
        servers = {
            "guarded": guarded,
            "full": full,
            "filling": filling,
            "replica": replica,
            "redis": shared_redis,
            "node": shared_cluster.masters[0],
            "sentinel": sentinel,
            "crowded": crowded,
        }
        yield {name: server.port for name, server in servers.items()}


@pytest.fixture
async def places(
    tmp_path: Path, closed_port: int, ports: dict[str, int], shared_redis: RedisServer
) -> AsyncIterator[dict[str, object]]:
    """What the addresses name: files, a folder, and ports with different servers."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("not a database at all\n" * 100)
    for name, statement in (
        ("newer.db", f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION + 1}"),
        ("anothers.db", "CREATE TABLE theirs (id)"),
    ):
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as db:
            db.executescript(statement)
    shared_redis.do(
        "ACL", "SETUSER", "silenced", "reset", "on", ">hunter2", *ALLOWED.split(), "-ping"
    )

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as other:
        http = other.sockets[0].getsockname()[1]
        yield {"tmp_path": tmp_path, "closed": closed_port, "http": http, **ports}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_explains_itself(
    patient: Settings,
    places: dict[str, object],
    capsys: pytest.CaptureFixture[str],
    mistake: tuple[str, str, str],
) -> None:
    """`check` ends with 1. `serve` says the same; it ends, or it serves without the store."""
    url, sentence, then = mistake
    store_url, want = url.format(**places), sentence.format(**places)
    # A plain Redis never answers a TLS greeting: there, the timeout is what is seen.
    budget_ms = 1000 if url.startswith("rediss:") else patient.store_budget_ms

    assert await checked(patient, store_url=store_url, store_budget_ms=budget_ms) == 1
    (line,) = report(capsys, "store")
    assert line.startswith("problem: ")
    assert line.endswith(f"; {want}")

    async with served(store_url=store_url, store_budget_ms=budget_ms) as process:
        if then == ENDS:
            ends = await process.until("cannot_start")
            assert f"problem: {ends['reason']}" == line
            assert await process.exit_code() == 1
        else:
            await process.started()
            assert process.log[-1]["store_state"] == "degraded"
            process.signal(signal.SIGTERM)
        await process.rest()
    (failed,) = [one for one in process.log if one["event"] == "store_failed"]
    assert failed.get("hint", failed["reason"]).endswith(want)
    assert "hunter2" not in str(process.log)


@pytest.mark.parametrize(("url", "words"), UNWRITABLE)
async def test_a_store_that_takes_no_turn_is_a_problem(
    patient: Settings,
    places: dict[str, object],
    capsys: pytest.CaptureFixture[str],
    url: str,
    words: str,
) -> None:
    """It can be reached, and has a way out."""
    assert await checked(patient, store_url=url.format(**places)) == 1
    *_, line = report(capsys, "store")
    assert line.startswith("problem: ")
    assert re.search(words, line)


@pytest.mark.parametrize(
    "url", ["sqlite://{tmp_path}/replay.db", "redis://default:hunter2@127.0.0.1:{redis}"]
)
async def test_a_store_that_works_is_tried(
    patient: Settings, places: dict[str, object], capsys: pytest.CaptureFixture[str], url: str
) -> None:
    """With a turn of its own."""
    assert await checked(patient, store_url=url.format(**places)) == 0
    *before, last = report(capsys, "store")
    assert re.fullmatch(FOUND, last)
    assert [line for line in before if not line.endswith(" can be reached")] == []


async def test_a_test_turn_is_deleted_again(patient: Settings, own_redis: RedisServer) -> None:
    """The store is as it was before the check."""
    own_redis.do("CONFIG", "SET", "maxmemory", "20mb", "maxmemory-policy", "volatile-ttl")
    assert await checked(patient, store_url=own_redis.url) == 0
    assert own_redis.do("DBSIZE") == 0


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only folder has its way out (simulated, since tests may run as root)."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    advice = read_store_url(f"sqlite://{tmp_path}/replay.db").advice("unable to open database file")
    assert advice.is_lasting
    assert advice.way_out.startswith(f"this user has no write access to {tmp_path}")
    short = read_store_url("sqlite:///replay.db").advice("unable to open database file").way_out
    assert short.startswith("this user has no write access to /; ")
    assert short.endswith(". Three slashes begin the whole path")


async def test_warns_of_a_redis_slower_than_the_budget(
    patient: Settings, shared_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Redis slower than store_budget_ms gives a warning: requests would not wait for it."""
    async with slow_line(shared_redis.port) as line:
        line.delay_s = 0.02
        assert await checked(patient, store_url=line.url, store_budget_ms=10) == 0
    (words,) = report(capsys, "store")[2:]
    assert words.startswith("warning: that is more than store_budget_ms 10ms, so requests would")
    assert words.endswith(": raise it")


@pytest.mark.parametrize(
    ("denied", "want"),
    [
        pytest.param("-hset", "problem: saving failed, and ", id="save"),
        pytest.param("-hgetall", "problem: lookups failed: ", id="recall"),
        pytest.param("-del", "warning: deleting failed: ", id="forget"),
        pytest.param("-ping", "problem: redis://", id="check"),
    ],
)
async def test_says_what_a_user_may_not_do(
    patient: Settings,
    shared_redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
    denied: str,
    want: str,
) -> None:
    """A missing permission is reported with the command that it is for."""
    shared_redis.do("ACL", "SETUSER", "half", "reset", "on", ">x", *ALLOWED.split(), denied)
    url = shared_redis.url.replace("://", "://half@")

    await checked(patient, store_url=url, store_password=SecretStr("x"))
    line, *_ = [line for line in report(capsys, "store") if not line.startswith("ok")]
    assert line.startswith(want)
    assert "its ACL does not allow this user to do that" in line
    assert denied.removeprefix("-") in line


async def test_what_a_user_may_not_ask_is_said(
    patient: Settings, shared_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rights of docs/stores.md are enough for the store, and the check says what it lacks."""
    shared_redis.do("ACL", "SETUSER", "documented", "reset", "on", ">x", *ALLOWED.split())
    url = shared_redis.url.replace("://", "://documented@")

    assert await checked(patient, store_url=url, store_password=SecretStr("x")) == 0
    assert report(capsys, "store")[-1].endswith("this user may not ask (+info)")


async def test_a_silent_redis_is_given_up(
    settings: Settings,
    silent_port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Redis that does not respond within PROBE_TIMEOUT_S is a problem."""
    monkeypatch.setattr(module, "PROBE_TIMEOUT_S", 0.1)
    url = f"redis://:hunter2@127.0.0.1:{silent_port}"

    assert await checked(settings, store_url=url) == 1
    place = f"redis://***@127.0.0.1:{silent_port}"
    want = f"problem: {place} cannot be used: it did not respond within 0.1 s; "
    (line,) = report(capsys, "store")
    assert line.startswith(want)
    assert line.endswith("If TLS is the difference, write rediss://")


async def test_a_malformed_file_is_reported_and_stays(
    patient: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check tells what the proxy will do, and does not do it itself."""
    path = tmp_path / "replay.db"
    assert await checked(patient, store_url=f"sqlite://{path}") == 0
    report(capsys, "store")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes([0xA5]) * (len(content) - 4096))
    assert await checked(patient, store_url=f"sqlite://{path}") == 1
    (line,) = report(capsys, "store")
    assert "malformed" in line
    assert "sets the file aside" in line
    assert [file.name for file in tmp_path.glob("*.malformed*")] == []  # noqa: ASYNC240
