"""Exchanges of several processes: told only while somebody watches, in batches, within bounds."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.web.admin.inspector import worker_relay as module
from reasoning_replay.web.admin.inspector.recorder import Heard
from reasoning_replay.web.admin.inspector.worker_relay import Gathered, Reporting

from tests.standin import StandIn
from tests.web.admin.inspector.watching import watching
from tests.web.line import line_to
from tests.web.served import served
from tests.web.world import eventually, post


class Kept:
    """A source that says what a test lets it say."""

    def __init__(self, *kept: bytes) -> None:
        self.kept = list(kept)
        self.heard: Heard | None = None

    def recent(self) -> list[bytes]:
        """Return what is kept."""
        return self.kept

    def listen(self, heard: Heard | None) -> None:
        """Tell somebody."""
        self.heard = heard

    def tell(self, told: bytes) -> None:
        """Let an exchange pass; somebody listens."""
        assert self.heard is not None
        self.heard(told)


class Pipe(asyncio.Transport):
    """A way to the parent, and what came through it; it may be full, or gone."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []
        self.left = 0
        self.closed: list[bool] = []

    @property
    def transport(self) -> "Pipe":
        """As a writer's."""
        return self

    def is_closing(self) -> bool:
        """Tell whether the parent is gone."""
        return bool(self.closed)

    def get_write_buffer_size(self) -> int:
        """Return what the parent has not read."""
        return self.left

    def write(self, data: Any) -> None:
        """Take a line."""
        assert data.endswith(b"\n")
        self.sent += json.loads(data)["seen"]


def exchange(number: int, size: int = 0) -> bytes:
    """Return an exchange as it is told."""
    return b'{"exchange":{"id":"%d","x":"%s"}}' % (number, b"x" * size)


def reporting(*kept: bytes) -> tuple[Reporting, Kept, Pipe]:
    """Return a worker's end."""
    source, pipe = Kept(*kept), Pipe()
    return Reporting(source, pipe), source, pipe  # type: ignore[arg-type]


async def test_a_worker_says_what_it_has_and_then_what_passes() -> None:
    """From when it is watched until it is not."""
    worker, source, pipe = reporting(exchange(1), exchange(2))
    worker.watch(is_watched=True)
    source.tell(exchange(3))
    await eventually(lambda: len(pipe.sent) == 3)
    assert [told["exchange"]["id"] for told in pipe.sent] == ["1", "2", "3"]
    source.tell(exchange(4))
    worker.watch(is_watched=False)
    assert source.heard is None
    await asyncio.sleep(2 * module.BATCH_S)
    assert len(pipe.sent) == 3


async def test_what_is_too_much_is_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that does not read costs a worker no memory; batches have an end."""
    monkeypatch.setattr(module, "WAITING_BYTES", 10_000)
    monkeypatch.setattr(module, "BATCH_BYTES", 3_000)
    monkeypatch.setattr(module, "BATCH_S", 0.01)
    worker, source, pipe = reporting()
    worker.watch(is_watched=True)
    pipe.left = 1
    for number in range(100):
        source.tell(exchange(number, 1000))
    await asyncio.sleep(0.05)
    assert pipe.sent == []
    pipe.left = 0
    await eventually(lambda: bool(pipe.sent) and "exchange" in pipe.sent[-1])
    assert set(pipe.sent[0]) == {"lost"}
    assert pipe.sent[0]["lost"] > 80
    await eventually(lambda: pipe.sent[-1]["exchange"]["id"] == "99")
    pipe.closed.append(True)
    source.tell(exchange(100))
    await asyncio.sleep(0.05)
    assert pipe.sent[-1]["exchange"]["id"] == "99"


def test_the_parent_keeps_the_newest_while_somebody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each once, in its last form; workers hear when the first one comes and the last one goes."""
    monkeypatch.setattr(module, "KEPT", 3)
    told: list[bool] = []
    heard: list[bytes] = []
    parent = Gathered(told.append)
    parent.hear([json.loads(exchange(0))])  # it was under way when nobody watched
    parent.listen(heard.append)
    for number in (1, 2, 3, 4, 3):
        parent.hear([json.loads(exchange(number)), {"lost": 1}])
    assert [json.loads(line)["exchange"]["id"] for line in parent.recent()] == ["2", "4", "3"]
    assert len(heard) == 10
    parent.listen(None)
    assert (parent.recent(), told) == ([], [True, False])


def test_what_was_under_way_in_a_worker_ends_with_it() -> None:
    """Nobody else would say so; what others do goes on."""
    heard: list[bytes] = []
    parent = Gathered(lambda _: None)
    parent.end(0xAB)  # nobody watches
    parent.listen(heard.append)
    told = [("ab.1.1", True), ("ab.1.2", False), ("abc.1.1", True)]
    parent.hear([{"exchange": {"id": name, "open": is_open}} for name, is_open in told])
    heard.clear()
    parent.end(None)
    parent.end(0xAB)
    ended = {"id": "ab.1.1", "open": False, "outcome": "worker_ended"}
    assert [json.loads(line)["exchange"] for line in heard] == [ended]


def test_what_cannot_be_shown_costs_no_worker() -> None:
    """Neither in its parent, nor in the one that shall say what it kept."""
    parent = Gathered(lambda _: None)

    def fails(_: bytes) -> None:
        raise RuntimeError

    parent.listen(fails)
    parent.hear([1, {"exchange": {}}, {"exchange": {"id": "a.1.1", "open": True}}])
    parent.end(0xA)

    class Broken(Kept):
        def recent(self) -> list[bytes]:
            raise RuntimeError

    worker = Reporting(Broken(), Pipe())  # type: ignore[arg-type]
    worker.watch(is_watched=True)


async def test_two_workers_are_one_page(tmp_path: Path) -> None:
    """What passed before in either, what passes now, also in one that has just been started."""
    async with (
        StandIn("message") as standin,
        served(
            upstream_url=standin.base_url,
            store_url=f"sqlite://{tmp_path}/kept.db",
            workers=2,
        ) as parent,
    ):
        await parent.started()

        async def ask(times: int) -> None:
            for _ in range(times):  # each on a connection of its own
                async with line_to(parent.url) as line:
                    await line.ask(post({"model": "gpt-5.4", "input": "hello"}))

        await ask(10)
        async with watching(parent.admin_url) as watcher:
            seen = await watcher.until("exchange", 10)
            await ask(10)
            seen = await watcher.until("exchange", 30)  # each when decided, and when over
            over = {told["id"] for told in seen if not told["open"]}
            assert len(over) == 20
            assert len({name.rpartition(".")[0] for name in over}) == 2  # of both
            (hello,) = await watcher.until("hello")
            assert (hello["listen"], hello["workers"]) == (parent.url, 2)
            state = (await watcher.until("state"))[-1]
            assert state["workers"] == "2 of 2"
            async with watching(parent.admin_url) as other:
                assert len(await other.until("exchange", 20)) >= 20
        parent.signal(signal.SIGTERM)
        assert await parent.exit_code() == 0
