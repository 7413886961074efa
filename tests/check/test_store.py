"""The store is tested with the operations of `serve`; an operation that fails is reported."""

import os
import re
from pathlib import Path

import pytest
from pydantic import SecretStr
from reasoning_replay.check import check
from reasoning_replay.check import store as module
from reasoning_replay.check.store import of_store
from reasoning_replay.settings.model import Settings

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


FOUND = re.compile(r"ok: a test turn was saved, and found in \d+\.\d ms")


async def test_tries_a_redis(
    patient: Settings, shared_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Redis is tested with a turn that is deleted again; its password is not shown."""
    shared_redis.do("FLUSHALL")
    url = shared_redis.url.replace("redis://", "redis://default:hunter2@")

    assert await checked(patient, store_url=url) == 0
    reached, found = report(capsys, "store")
    place = shared_redis.url.replace("redis://", "redis://***@")
    assert reached == f"ok: {place} can be reached"
    assert FOUND.fullmatch(found)
    assert shared_redis.do("DBSIZE") == 0


async def test_tries_a_file(
    patient: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A SQLite file is created if it is missing, as `serve` does."""
    assert await checked(patient, store_url=f"sqlite://{tmp_path}/replay.db") == 0
    reached, found = report(capsys, "store")
    assert reached == f"ok: sqlite://{tmp_path}/replay.db can be reached"
    assert FOUND.fullmatch(found)


async def test_a_file_without_a_folder_is_a_problem(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing folder is a problem: operators create folders, not the proxy."""
    folder = tmp_path / "missing"

    assert await checked(settings, store_url=f"sqlite://{folder}/replay.db") == 1
    (line,) = report(capsys, "store")
    assert line.endswith(
        f"there is no folder {folder}; create it, with write access for the proxy's user"
    )


async def test_a_folder_that_cannot_be_written_is_a_problem(
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A read-only folder is a problem (simulated, since tests may run as root)."""
    monkeypatch.setattr(os, "access", lambda *_: False)

    assert await checked(settings, store_url=f"sqlite://{tmp_path}/replay.db") == 1
    (line,) = report(capsys, "store")
    assert f"this user has no write access to {tmp_path}" in line


async def test_another_programs_file_is_a_problem(
    patient: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not a database is a problem."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)

    assert await checked(patient, store_url=f"sqlite://{path}") == 1
    (line,) = report(capsys, "store")
    assert line.endswith(
        "cannot be used: sqlite: file is not a database; "
        "use another file, or a path that does not exist yet"
    )


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
        pytest.param("-hset", "problem: saving failed: ", id="save"),
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


async def test_says_that_a_redis_is_full(
    patient: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full Redis that does not evict is a problem."""
    with redis_server("maxmemory 1mb", "maxmemory-policy noeviction") as full:
        full.do("CONFIG", "SET", "maxmemory", "1")
        assert await checked(patient, store_url=full.url) == 1
    line = report(capsys, "store")[-1]
    assert line.startswith("problem: saving failed: ")
    assert "it is full, and its eviction policy makes no room" in line
    assert line.endswith("set its maxmemory-policy to volatile-ttl")


async def test_says_that_a_redis_is_a_replica(
    patient: Settings, own_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replica is a problem, since it is read-only."""
    own_redis.do("REPLICAOF", "127.0.0.1", own_redis.port)

    assert await checked(patient, store_url=own_redis.url) == 1
    line = report(capsys, "store")[-1]
    assert "it is a replica, which accepts no writes" in line
    assert line.endswith("set store_url to its master, or to its Sentinels")


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


@pytest.mark.parametrize(
    ("url", "way_out"),
    [
        pytest.param("redis://:hunter2@127.0.0.1:{port}/0", "is it running", id="no-server"),
        pytest.param("redis://:hunter2@redis.invalid", "spelt right?", id="no-name"),
        pytest.param(
            "redis+cluster://:hunter2@127.0.0.1:{port},127.0.0.1:{port}", "", id="cluster"
        ),
        pytest.param(
            "redis+sentinel://:hunter2@127.0.0.1:{port}/name", "are these Sentinels", id="sentinel"
        ),
        pytest.param("unix:///nowhere/redis.sock?password=hunter2", "is the path", id="no-socket"),
    ],
)
async def test_a_redis_that_is_not_there_is_a_problem(
    settings: Settings, closed_port: int, capsys: pytest.CaptureFixture[str], url: str, way_out: str
) -> None:
    """An unreachable store is exit code 1 with a way out, although `serve` works without it."""
    assert await checked(settings, store_url=url.format(port=closed_port)) == 1
    (line,) = report(capsys, "store")
    assert line.startswith("problem: ")
    assert "it cannot be reached" in line
    assert way_out in line


@pytest.mark.parametrize(
    ("scheme", "way_out"),
    [
        pytest.param("redis", "set REPLAY_STORE_PASSWORD", id="no-password"),
        pytest.param("rediss", "write redis:// and not rediss://", id="no-tls"),
    ],
)
async def test_a_redis_that_is_spoken_to_in_the_wrong_way_is_a_problem(
    settings: Settings, capsys: pytest.CaptureFixture[str], scheme: str, way_out: str
) -> None:
    """A missing password and a wrong scheme each name the setting to change."""
    with redis_server("requirepass right") as guarded:
        url = guarded.url.replace("redis://", f"{scheme}://")
        budget_ms = 20_000 if scheme == "redis" else 500
        assert await checked(settings, store_url=url, store_budget_ms=budget_ms) == 1
    (line,) = report(capsys, "store")
    assert way_out in line


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        pytest.param("99", "is there a database with that number?", id="database"),
        pytest.param("", "is it a Cluster?", id="no-cluster"),
    ],
)
async def test_a_redis_of_another_kind_is_a_problem(
    patient: Settings,
    shared_redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
    path: str,
    way_out: str,
) -> None:
    """A wrong database number or a missing Cluster gets a plain way out."""
    kind, port = ("redis" if path else "redis+cluster"), shared_redis.port
    assert await checked(patient, store_url=f"{kind}://127.0.0.1:{port}/{path}".rstrip("/")) == 1
    assert way_out in report(capsys, "store")[-1]


async def test_a_folder_in_place_of_a_file_is_a_problem(
    patient: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder in place of the SQLite file is a problem."""
    (tmp_path / "replay").mkdir()

    assert await checked(patient, store_url=f"sqlite://{tmp_path}/replay") == 1
    (line,) = report(capsys, "store")
    assert line.endswith("store_url must name a file, not a folder; this user needs write access")


async def test_a_password_that_is_refused_is_a_problem(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refused password in the URL is a problem, and is not shown."""
    with redis_server("requirepass right") as guarded:
        url = guarded.url.replace("://", "://:hunter2@")
        assert await checked(settings, store_url=url, store_budget_ms=20_000) == 1
    (line,) = report(capsys, "store")
    assert "it refuses the user or the password" in line
