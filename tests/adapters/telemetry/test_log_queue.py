"""The log queue: a reader that stalls delays no request."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.log_output import QUEUED_LINES

from tests.patience import SOON_S


@pytest.fixture
def pipe() -> Iterator[tuple[IO[bytes], IO[str]]]:
    """Yield both ends of a pipe, as a log collector and a process have them."""
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as reader, os.fdopen(write, "w") as writer:
        yield reader, writer


class Reading:
    """A reader that takes all lines from its start until the pipe is closed."""

    def __init__(self, reader: IO[bytes]) -> None:
        self._data = b""
        self._thread = threading.Thread(target=self._read, args=(reader,))
        self._thread.start()

    def _read(self, reader: IO[bytes]) -> None:
        while piece := reader.read(1 << 16):
            self._data += piece

    def lines(self) -> list[dict[str, Any]]:
        """Wait for the end, and return every line."""
        self._thread.join()
        return [json.loads(line) for line in self._data.splitlines()]


def test_a_stalled_reader_costs_lines_beyond_the_limit(pipe: tuple[IO[bytes], IO[str]]) -> None:
    """The remaining lines are whole and in order, and a line reports each number of lost ones."""
    reader, writer = pipe
    log = Log("info", "json", writer)
    many = 10 * QUEUED_LINES
    for n in range(many):  # far more than a pipe holds: a blocking write would never end
        log.info("exchange", n=n, text="x" * 300)
    reading = Reading(reader)
    log.close()
    log.info("more")
    log.close()
    writer.close()
    lines = reading.lines()
    kept = after = 0
    for line in lines:
        if line["event"] == "log_lines_lost":
            after += line["lines"]
        elif line["event"] == "exchange":
            assert line["n"] == after
            after += 1
            kept += 1
    assert after == many
    assert QUEUED_LINES <= kept < many
    assert lines[-1]["event"] == "more"


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_long_line_stays_whole(pipe: tuple[IO[bytes], IO[str]], *, is_blocking: bool) -> None:
    """A line longer than the pipe's buffer stays whole, also if the pipe is non-blocking."""
    reader, writer = pipe
    os.set_blocking(writer.fileno(), is_blocking)
    log = Log("info", "json", writer)
    log.info("long", text="ü" * 100_000)
    log.info("short")
    reading = Reading(reader)
    log.close()
    writer.close()
    assert [line.get("text") for line in reading.lines()] == ["ü" * 100_000, None]


def test_a_closed_pipe_raises_nothing(pipe: tuple[IO[bytes], IO[str]]) -> None:
    """If the reader has closed the pipe, lines are dropped."""
    reader, writer = pipe
    reader.close()
    log = Log("info", "json", writer)
    for _ in range(3):
        log.info("exchange")
    log.close()
    assert log._writer is not None
    assert log._writer.is_empty


PRINTS = """
import sys
from reasoning_replay.adapters.telemetry.log import Log

log = Log("info", "json")
for n in range(int(sys.argv[1])):
    log.info("exchange", n=n, text="x" * 300)
"""


def test_the_end_of_a_process_writes_the_queued_lines() -> None:
    """Queued lines are written without a call of `close`, such as after a failed start."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PRINTS, "100"], check=True, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(100))


def test_a_stalled_reader_does_not_block_the_end_of_a_process() -> None:
    """The process waits a moment, and then exits without writing the rest of the queue."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", PRINTS, "5000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.wait(SOON_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
