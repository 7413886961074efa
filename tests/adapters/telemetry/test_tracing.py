"""Failures of the SDK and of the collector become a few log lines that quote no value."""

import io
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.tracing import (
    MESSAGE_MAX_CHARS,
    MESSAGES_MAX,
    Tracing,
    _Exporter,
    _Report,
)

SDK = logging.getLogger("opentelemetry.sdk.trace")


class Written:
    """A report, and the log lines that it wrote."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.report = _Report(Log("info", "json", self._stream))

    def lines(self) -> list[tuple[str, Any]]:
        """Return every event so far, with its reason or count."""
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [(line["event"], line.get("reason", line.get("lost_spans"))) for line in found]


@pytest.fixture
def written() -> Iterator[Written]:
    """Yield a report that is closed when the test ends."""
    made = Written()
    yield made
    made.report.close()


def test_each_change_of_state_is_one_line(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated failures add no line; the next successful export logs the number of lost spans."""
    results: list[Any] = []

    def export(_: OTLPSpanExporter, __: Sequence[ReadableSpan]) -> SpanExportResult:
        result = results.pop()
        if isinstance(result, Exception):
            raise result
        if result is SpanExportResult.FAILURE:  # the SDK logs the reason, and quotes a secret
            SDK.error("Failed to export %s batch code: %s, reason: %s", "span", 401, "hunter2")
        return SpanExportResult(result)

    monkeypatch.setattr(OTLPSpanExporter, "export", export)
    exporter = _Exporter(written.report)
    for result in (
        SpanExportResult.FAILURE,
        SpanExportResult.FAILURE,
        SpanExportResult.SUCCESS,
        SpanExportResult.SUCCESS,
        RuntimeError("hunter2"),
    ):
        results.append(result)
        thread = threading.Thread(target=exporter.export, args=([ReadableSpan("a")] * 2,))
        thread.start()
        thread.join()
    assert written.lines() == [
        ("tracing_failed", "401"),
        ("tracing_recovered", 4),
        ("tracing_failed", "RuntimeError"),
    ]


def test_the_arguments_of_a_message_are_not_logged(
    written: Written, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the template and exception types are logged, as an argument may be a header's value."""
    SDK.warning("Header format invalid: %s", "authorization=hunter2")
    SDK.warning("%s", ValueError("hunter2"))
    SDK.info("not worth a line")
    SDK.warning("Header format invalid: %s", "again")
    SDK.error("it failed", exc_info=OSError("hunter2"))
    assert written.lines() == [
        ("tracing_trouble", "Header format invalid: %s"),
        ("tracing_trouble", "%s ValueError"),
        ("tracing_trouble", "it failed OSError"),
    ]
    assert capfd.readouterr().err == ""


def test_lines_are_bounded(written: Written) -> None:
    """The number and the length of the lines are bounded for any messages of the SDK."""
    for number in range(MESSAGES_MAX * 2):
        SDK.warning("x" * number * 100)
    lines = written.lines()
    assert len(lines) <= MESSAGES_MAX
    assert max(len(reason) for _, reason in lines) <= MESSAGE_MAX_CHARS


def test_a_closed_report_is_silent(written: Written, capfd: pytest.CaptureFixture[str]) -> None:
    """After its end, a report writes neither to the log nor to standard error."""
    written.report.close()
    SDK.warning("too late")
    assert written.lines() == []
    assert capfd.readouterr().err == ""


async def test_the_environment_describes_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy adds only the resource attributes that the environment does not set."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=mine,team=a")
    tracing = Tracing(Log("info", "json", io.StringIO()))
    got = tracing._provider.resource.attributes
    assert got["service.name"] == "reasoning-replay"
    assert (got["service.version"], got["team"]) == ("mine", "a")
    assert str(got["service.instance.id"]).endswith(f"/{os.getpid()}")
    await tracing.close(1)


async def test_an_exception_in_a_guard_is_logged_once() -> None:
    """A guard suppresses every exception of tracing, and logs the first of each type."""
    stream = io.StringIO()
    tracing = Tracing(Log("info", "json", stream))
    for _ in range(2):
        with tracing.guard():
            raise ZeroDivisionError
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "tracing_trouble"
    assert json.loads(line)["reason"] == "ZeroDivisionError"
    await tracing.close(1)
