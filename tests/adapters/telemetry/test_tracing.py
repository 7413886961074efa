"""Failures of the SDK and of the collector become few lines of log that quote nothing."""

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
    """A report, and what was logged by it."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.report = _Report(Log("info", "json", self._stream))

    def lines(self) -> list[tuple[str, Any]]:
        """Return every event so far, with its reason or count."""
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [(line["event"], line.get("reason", line.get("lost_spans"))) for line in found]


@pytest.fixture
def written() -> Iterator[Written]:
    """Report until the test ends."""
    made = Written()
    yield made
    made.report.close()


def test_a_change_is_a_line(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each failure; the next export that is sent says how many spans were lost."""
    results: list[Any] = []

    def export(_: OTLPSpanExporter, __: Sequence[ReadableSpan]) -> SpanExportResult:
        result = results.pop()
        if isinstance(result, Exception):
            raise result
        if result is SpanExportResult.FAILURE:  # the SDK says why, and quotes a secret
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


def test_nothing_of_a_message_is_quoted(
    written: Written, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its template is logged, and types of exceptions; an argument may be a header's value."""
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
    """Whatever the SDK has to say."""
    for number in range(MESSAGES_MAX * 2):
        SDK.warning("x" * number * 100)
    lines = written.lines()
    assert len(lines) <= MESSAGES_MAX
    assert max(len(reason) for _, reason in lines) <= MESSAGE_MAX_CHARS


def test_a_closed_report_is_silent(written: Written, capfd: pytest.CaptureFixture[str]) -> None:
    """Also on standard error."""
    written.report.close()
    SDK.warning("too late")
    assert written.lines() == []
    assert capfd.readouterr().err == ""


async def test_the_environment_describes_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy says what the environment does not."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=mine,team=a")
    tracing = Tracing(Log("info", "json", io.StringIO()))
    got = tracing._provider.resource.attributes
    assert got["service.name"] == "reasoning-replay"
    assert (got["service.version"], got["team"]) == ("mine", "a")
    assert str(got["service.instance.id"]).endswith(f"/{os.getpid()}")
    await tracing.close(1)


async def test_what_raises_is_logged_once() -> None:
    """A trace is not worth an exchange; the guarded block ends, and the program goes on."""
    stream = io.StringIO()
    tracing = Tracing(Log("info", "json", stream))
    for _ in range(2):
        with tracing.guard():
            raise ZeroDivisionError
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "tracing_trouble"
    assert json.loads(line)["reason"] == "ZeroDivisionError"
    await tracing.close(1)
