"""A log that nobody reads holds nobody up."""

import json
import os
from collections.abc import Iterator
from typing import IO, Any

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.log_output import KEPT_LINES


@pytest.fixture
def pipe() -> Iterator[tuple[IO[bytes], IO[str]]]:
    """Both ends of one, as a collector and a process have them."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    with os.fdopen(read, "rb", buffering=0) as reader, os.fdopen(write, "w") as writer:
        yield reader, writer


def lines(reader: IO[bytes], log: Log) -> list[dict[str, Any]]:
    """Read all that comes, while a line now and then makes the rest come."""
    data = b""
    for _ in range(KEPT_LINES):
        while piece := reader.read(1 << 16):
            data += piece
        log.info("more", n=-1)
        if b"log_lines_lost" in data and data.endswith(b"\n"):
            break
    return [json.loads(line) for line in data.splitlines()]


def test_what_is_not_read_is_kept_and_beyond_that_lost(pipe: tuple[IO[bytes], IO[str]]) -> None:
    """In order, each line whole, and the number of those that were lost is told."""
    reader, writer = pipe
    log = Log("info", "json", writer)
    many = 10 * KEPT_LINES
    for n in range(many):  # far more than a pipe holds: this would never end
        log.info("exchange", n=n, text="x" * 300)
    said = lines(reader, log)
    numbers = [entry["n"] for entry in said if entry.get("n", -1) >= 0]
    (lost,) = [entry["lines"] for entry in said if entry["event"] == "log_lines_lost"]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= KEPT_LINES
    assert len(numbers) + lost == many


def test_a_long_line_comes_in_one_piece(pipe: tuple[IO[bytes], IO[str]]) -> None:
    """Longer than what a pipe takes at once, and than all that it holds."""
    reader, writer = pipe
    log = Log("info", "json", writer)
    log.info("long", text="ü" * 100_000)
    log.info("short")
    data = b""
    while not data.endswith(b'short"}\n'):
        data += reader.read(1 << 16) or b""
        log.info("short")
    assert json.loads(data.splitlines()[0])["text"] == "ü" * 100_000


def test_a_reader_that_left_is_no_reason_to_fail(pipe: tuple[IO[bytes], IO[str]]) -> None:
    """Nor to keep what nobody will read."""
    reader, writer = pipe
    reader.close()
    log = Log("info", "json", writer)
    for _ in range(3):
        log.info("exchange")
    assert not log._output._left
