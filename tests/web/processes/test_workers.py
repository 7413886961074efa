"""One process that watches over others: they are started again, and ended when they hang."""

import asyncio
import contextlib
import io
import json
import multiprocessing
import socket
import time
from collections.abc import AsyncIterator, Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import WorkerMetrics
from reasoning_replay.web.processes.supervisor import Workers
from reasoning_replay.web.processes.worker_handle import PROBES_MAX

from tests.web.world import eventually

LONG_S = 600.0
SOON_S = 60.0  # a busy machine takes its time
URL = "http://127.0.0.1:1"
Target = Callable[[int, socket.socket], None]


# What the processes do...


def say(line: socket.socket, **message: object) -> None:
    """Tell the parent something."""
    line.sendall(json.dumps(message).encode() + b"\n")


def serves(number: int, line: socket.socket) -> None:
    """Serve, answer probes, and end when told to; drop slowly, and only as the first."""
    say(line, serving=URL)
    with line.makefile() as said:
        for message in map(json.loads, said):
            match message:
                case {"drain": _}:
                    return
                case {"drop": _} if number == 1:
                    time.sleep(0.2)
                case {"drop": _}:
                    raise SystemExit(1)
                case {"probe": asked}:
                    say(line, alive=asked)


def hangs(number: int, line: socket.socket) -> None:
    """Serve, and hear nothing any more."""
    say(line, serving=URL)
    time.sleep(LONG_S)


def dies_as_second(number: int, line: socket.socket) -> None:
    """Serve as the first; as the second, do not even start."""
    if number == 1:
        serves(number, line)
    else:
        raise SystemExit(3)


def says_why(number: int, line: socket.socket) -> None:
    """Do not start, and say why."""
    say(line, failed="the port is taken")
    raise SystemExit(1)


class Watched:
    """Workers, and what was seen of them."""

    def __init__(self, target: Target, probe_s: float, folder: Path, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.log = io.StringIO()
        self.metrics = WorkerMetrics(str(folder))
        self.processes: list[BaseProcess] = []

        def process(number: int, line: socket.socket) -> BaseProcess:
            made = context.Process(target=target, args=(number, line))
            self.processes.append(made)
            return made

        log = Log("info", "json", self.log)
        self.workers = Workers(count, process, self.metrics, log, probe_s)

    @property
    def ended(self) -> list[dict[str, Any]]:
        """What was logged of those that ended."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    @property
    def counted(self) -> tuple[float, float]:
        """How many serve, and how many were replaced, by the metrics."""
        return self.metrics.serving._value.get(), self.metrics.restarts._value.get()


@contextlib.asynccontextmanager
async def watched(
    target: Target, folder: Path, probe_s: float = LONG_S, count: int = 2
) -> AsyncIterator[tuple[Watched, asyncio.Task[None]]]:
    """Run workers until the block ends."""
    seen = Watched(target, probe_s, folder, count)
    running = asyncio.create_task(seen.workers.run())
    try:
        yield seen, running
    finally:
        seen.workers.drain(0)
        seen.workers.kill()
        await asyncio.wait_for(running, SOON_S)


async def test_they_start_are_told_to_end_and_do(tmp_path: Path) -> None:
    """All at once; none is left, and nothing is said of what was meant to happen."""
    async with watched(serves, tmp_path) as (seen, running):
        assert await asyncio.wait_for(seen.workers.started(), SOON_S)
        assert (seen.workers.serving, seen.workers.url) == (2, URL)
        seen.workers.drain(0.0)
        await asyncio.wait_for(running, SOON_S)
        assert (seen.workers.serving, seen.ended) == (0, [])
        assert seen.counted == (0, 0)


async def test_one_that_dies_is_started_again(tmp_path: Path) -> None:
    """With a line that says which and how; the other one is left alone."""
    async with watched(serves, tmp_path) as (seen, _):
        assert await asyncio.wait_for(seen.workers.started(), SOON_S)
        victim = seen.processes[0]
        pid = victim.pid
        victim.kill()
        await eventually(lambda: seen.workers.serving == 1, SOON_S)
        await eventually(lambda: seen.workers.serving == 2, within_s=SOON_S)
        (ended,) = seen.ended
        assert (ended["event"], ended["pid"], ended["exit_code"]) == ("worker_ended", pid, -9)
        assert (seen.counted, len(seen.processes)) == ((2, 1), 3)


async def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    """Nobody else would: the process that probes ask is another one."""
    async with watched(hangs, tmp_path, probe_s=0.02, count=1) as (seen, _):
        assert await asyncio.wait_for(seen.workers.started(), SOON_S)
        await eventually(lambda: len(seen.ended) >= 1, within_s=SOON_S)
        assert seen.ended[0]["exit_code"] == -9


async def test_one_that_answers_probes_is_left_alone(tmp_path: Path) -> None:
    """However many there were."""
    async with watched(serves, tmp_path, probe_s=0.25, count=1) as (seen, _):
        assert await asyncio.wait_for(seen.workers.started(), SOON_S)
        await asyncio.sleep(0.25 * (PROBES_MAX + 2))
        assert (seen.workers.serving, seen.ended) == (1, [])


async def test_without_room_for_a_process_it_is_tried_again(tmp_path: Path) -> None:
    """The others go on meanwhile: a parent that gave up would end them all."""
    async with watched(serves, tmp_path) as (seen, _):
        assert await asyncio.wait_for(seen.workers.started(), SOON_S)
        start, refused = seen.workers._process, 0

        def sometimes(number: int, line: socket.socket) -> BaseProcess:
            nonlocal refused
            if not refused:
                refused += 1
                raise BlockingIOError(11, "Resource temporarily unavailable")
            return start(number, line)

        seen.workers._process = sometimes
        seen.processes[0].kill()
        await eventually(lambda: len(seen.ended) == 2, SOON_S)
        assert "temporarily unavailable" in seen.ended[1]["reason"]
        await eventually(lambda: seen.workers.serving == 2, SOON_S)
        assert seen.counted == (2, 2)


async def test_a_deletion_is_done_when_all_have_done_it(tmp_path: Path) -> None:
    """It waits for a slow one, and not for one that ends: what that had is gone with it."""
    async with watched(serves, tmp_path) as (seen, _):
        assert await asyncio.wait_for(seen.workers.started(), SOON_S)
        began = time.monotonic()
        await seen.workers.drop(b"s" * 16, b"c" * 16)
        assert time.monotonic() - began >= 0.2
        await eventually(lambda: len(seen.ended) == 1, SOON_S)


@pytest.mark.parametrize(
    ("target", "reason"),
    [(dies_as_second, "worker 2 ended with exit code 3"), (says_why, "the port is taken")],
)
async def test_without_all_of_them_none_is_started(
    target: Target, reason: str, tmp_path: Path
) -> None:
    """A fault of the settings is told at the start, and not tried again for ever."""
    async with watched(target, tmp_path) as (seen, running):
        assert not await asyncio.wait_for(seen.workers.started(), SOON_S)
        await asyncio.wait_for(running, SOON_S)
        assert seen.workers.failure == reason
        assert len(seen.processes) == 2
