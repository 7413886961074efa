"""What the SDK says becomes few lines of log, in which nothing of it is quoted."""

import asyncio
import io
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.otlp_exporter import TOLD_MAX, Told, Watched

SDK = logging.getLogger("opentelemetry.sdk.trace")


class Scripted(SpanExporter):
    """An exporter that does what it is told, and counts how often it was ended."""

    def __init__(self) -> None:
        self.ended = 0
        self.says: Any = SpanExportResult.SUCCESS

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Return it, or raise it; before a failure, say why as the SDK does."""
        if isinstance(self.says, Exception):
            raise self.says
        if self.says is SpanExportResult.FAILURE:
            SDK.error("Failed to export %s batch code: %s, reason: %s", "span", 401, "hunter2")
        result: SpanExportResult = self.says
        return result

    def shutdown(self) -> None:
        """Count."""
        self.ended += 1


class Heard:
    """One exporter, watched, and what was logged of it."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.told = Told(Log("info", "json", self._stream), asyncio.get_running_loop())
        self.inner = Scripted()
        self.watched = Watched(self.inner, self.told)

    async def lines(self) -> list[tuple[str, Any]]:
        """Every event so far, with what it says."""
        await asyncio.sleep(0)
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [(line["event"], line.get("reason", line.get("lost_spans"))) for line in found]


@pytest.fixture
async def heard() -> Any:
    """Listen until the test ends."""
    made = Heard()
    yield made
    made.told.close()


async def test_a_change_is_a_line(heard: Heard) -> None:
    """Not each failure; the next one that is sent says how many were lost."""
    for says in (
        SpanExportResult.FAILURE,
        SpanExportResult.FAILURE,
        SpanExportResult.SUCCESS,
        SpanExportResult.SUCCESS,
        RuntimeError("hunter2"),
    ):
        heard.inner.says = says
        await asyncio.to_thread(heard.watched.export, [ReadableSpan("a")] * 2)
    assert await heard.lines() == [
        ("tracing_failed", "401"),
        ("tracing_recovered", 4),
        ("tracing_failed", "RuntimeError"),
    ]


async def test_nothing_of_it_is_quoted(heard: Heard, capfd: pytest.CaptureFixture[str]) -> None:
    """Its template is told, and kinds of errors; a header's value may stand in for the rest."""
    SDK.warning("Header format invalid: %s", "authorization=hunter2")
    SDK.warning("%s", ValueError("hunter2"))
    SDK.info("not worth a line")
    SDK.warning("Header format invalid: %s", "again")
    SDK.error("it failed", exc_info=OSError("hunter2"))
    assert await heard.lines() == [
        ("tracing_trouble", "Header format invalid: %s"),
        ("tracing_trouble", "%s ValueError"),
        ("tracing_trouble", "it failed OSError"),
    ]
    assert capfd.readouterr().err == ""


async def test_lines_are_bounded(heard: Heard) -> None:
    """Whatever there is to say."""
    for number in range(TOLD_MAX * 2):
        SDK.warning("x" * number * 100)
    lines = await heard.lines()
    assert len(lines) <= TOLD_MAX
    assert max(len(reason) for _, reason in lines) <= 120


async def test_it_is_ended_once(heard: Heard, capfd: pytest.CaptureFixture[str]) -> None:
    """And says nothing from then on, to nobody."""
    heard.watched.shutdown()
    heard.watched.shutdown()
    heard.told.close()
    SDK.warning("too late")
    assert heard.inner.ended == 1
    assert await heard.lines() == []
    assert capfd.readouterr().err == ""


def test_a_loop_that_is_gone_hears_nothing() -> None:
    """A thread that outlives it fails for nothing."""

    async def listen() -> Heard:
        return Heard()

    heard = asyncio.run(listen())
    heard.told.sent(1, is_sent=False)
    heard.told.close()
