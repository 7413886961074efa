"""The store is tested with the operations of `serve`; an operation that fails is reported."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from reasoning_replay.check import check
from reasoning_replay.check import store as module
from reasoning_replay.check.store import of_store
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.store_advice import store_advice

from tests.adapters.stores.kinds import ALLOWED
from tests.check.reports import found, report
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import slow_line


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


FOUND = r"^ok: a test turn was saved, and found in \d+\.\d ms$"


# (address, whether the check is passed, what the last line of the store has)
PLACES = [
    ("sqlite://{tmp_path}/replay.db", 0, FOUND),
    ("redis://default:hunter2@127.0.0.1:{redis}", 0, FOUND),
    ("sqlite://{tmp_path}/missing/replay.db", 1, "there is no folder {tmp_path}/missing; create it, with write access for the proxy's user$"),  # noqa: E501
    ("sqlite://{tmp_path}/notes.txt", 1, "cannot be used: sqlite: file is not a database; use another file, or a path that does not exist yet$"),  # noqa: E501
    ("sqlite://{tmp_path}/folder", 1, "store_url must name a file, not a folder; this user needs write access$"),  # noqa: E501
    ("redis://:hunter2@127.0.0.1:{closed}/0", 1, "it cannot be reached.*is it running"),
    ("redis://:hunter2@redis.invalid", 1, "it cannot be reached.*spelt right\\?"),
    ("redis+cluster://:hunter2@127.0.0.1:{closed},127.0.0.1:{closed}", 1, "it cannot be reached"),
    ("redis+sentinel://:hunter2@127.0.0.1:{closed}/name", 1, "it cannot be reached.*are these Sentinels"),  # noqa: E501
    ("unix:///nowhere/redis.sock?password=hunter2", 1, "it cannot be reached.*is the path"),
    ("redis://127.0.0.1:{redis}/99", 1, "is there a database with that number\\?"),
    ("redis+cluster://127.0.0.1:{redis}", 1, "is it a Cluster\\?"),
    ("redis://127.0.0.1:{guarded}", 1, "set REPLAY_STORE_PASSWORD"),
    ("redis://:hunter2@127.0.0.1:{guarded}", 1, "it refuses the user or the password"),
    ("rediss://127.0.0.1:{guarded}", 1, "write redis:// and not rediss://"),
    ("redis://127.0.0.1:{full}", 1, "saving failed.*: .*it is full, and its eviction policy makes no room.*set its maxmemory-policy to volatile-ttl$"),  # noqa: E501
    ("redis://127.0.0.1:{replica}", 1, "it is a replica, which accepts no writes.*set store_url to its master, or to its Sentinels$"),  # noqa: E501
]  # fmt: skip


@pytest.fixture(scope="module")
def ports(shared_redis: RedisServer) -> Iterator[dict[str, int]]:
    """Ports of a Redis, and of some that refuse what `serve` does."""
    with (
        redis_server("requirepass right") as guarded,
        redis_server("maxmemory 1mb", "maxmemory-policy noeviction") as full,
        redis_server() as replica,
    ):
        full.do("CONFIG", "SET", "maxmemory", "1")
        replica.do("REPLICAOF", "127.0.0.1", replica.port)
        servers = {"guarded": guarded, "full": full, "replica": replica, "redis": shared_redis}
        yield {name: server.port for name, server in servers.items()}


@pytest.mark.parametrize(("url", "code", "words"), PLACES)
async def test_a_store_is_tried_and_a_fault_has_a_way_out(  # noqa: PLR0917 - fixtures, and a row
    patient: Settings,
    tmp_path: Path,
    closed_port: int,
    ports: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    url: str,
    code: int,
    words: str,
) -> None:
    """A store that cannot be used is exit code 1, although `serve` works without it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("not a database at all\n" * 100)
    places = {"tmp_path": tmp_path, "closed": closed_port, **ports}
    budget_ms = 500 if url.startswith("rediss:") else patient.store_budget_ms

    got = await checked(patient, store_url=url.format(**places), store_budget_ms=budget_ms)
    *before, last = report(capsys, "store")
    assert got == code
    assert last.startswith("problem: " if code else "ok: ")
    assert re.search(words.format(tmp_path=tmp_path), last)
    assert [line for line in before if not line.endswith(" can be reached")] == []


async def test_a_test_turn_is_deleted_again(patient: Settings, own_redis: RedisServer) -> None:
    """The store is as it was before the check."""
    assert await checked(patient, store_url=own_redis.url) == 0
    assert own_redis.do("DBSIZE") == 0


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only folder has its way out (simulated, since tests may run as root)."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    advice = store_advice(f"sqlite://{tmp_path}/replay.db", "unable to open database file")
    assert advice.startswith(f"this user has no write access to {tmp_path}")


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
