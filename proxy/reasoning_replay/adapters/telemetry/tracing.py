"""
Tracing: OpenTelemetry spans, sent to a collector by OTLP over HTTP, configured by OTEL_* variables.

This module imports OpenTelemetry, so import it only if tracing is on. After the start, no failure
reaches an exchange: each is logged once.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.build import build_version

NAME: Final = "reasoning-replay"
# Most different failures that are logged until the next successful export.
MESSAGES_MAX: Final = 8
MESSAGE_MAX_CHARS: Final = 120

_LOGGERS = tuple(logging.getLogger(name) for name in ("opentelemetry", "urllib3", "requests"))
_SILENT = logging.NullHandler()


class Tracing:
    """
    Tracing of one process: spans pass through the SDK's bounded queue to a thread that sends them.

    Attributes:
        tracer: Starts spans; call it inside a `guard`.
    """

    def __init__(self, log: Log) -> None:
        """
        Start the tracer and the thread that exports spans.

        Raises:
            OSError: The SDK rejects one of its OTEL_* variables.
        """
        self._report = _Report(log)
        try:
            # The global tracer provider of the process is not changed.
            self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            self._exporter = _Exporter(self._report)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
            self.tracer = self._provider.get_tracer(NAME, build_version())
        except Exception as error:
            self._report.close()
            reason = f"{type(error).__name__}: {error}" if isinstance(error, ValueError) else error
            raise OSError(f"tracing cannot start: {reason}; check the OTEL_ variables") from error

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Suppress exceptions of the block; log each exception type once."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (fail open: tracing must not end an exchange)
            self._report.trouble(type(error).__name__)

    async def close(self, within_s: float) -> None:
        """
        Send the pending spans; those not sent within `within_s` seconds are lost.

        The SDK's own shutdown has no timeout, so it runs in a daemon thread that may outlive this.
        """
        shutdown = threading.Thread(target=self._shut_down, name="tracing-shutdown", daemon=True)
        shutdown.start()
        await asyncio.to_thread(shutdown.join, within_s)
        if shutdown.is_alive():
            self._report.trouble("the last spans could not be sent in time")
            self._exporter.shutdown()  # type: ignore[no-untyped-call] # ends its retries
        self._report.close()

    def _shut_down(self) -> None:
        with self.guard():
            self._provider.shutdown()


class _Exporter(OTLPSpanExporter):
    """The SDK's exporter; it reports the result of each export."""

    def __init__(self, report: "_Report") -> None:
        super().__init__()
        self._report = report

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._report.exporting = threading.get_ident()
        try:
            result = super().export(spans)
        except Exception as error:  # noqa: BLE001 (it is reported)
            self._report.reason = type(error).__name__
            result = SpanExportResult.FAILURE
        self._report.exported(len(spans), is_sent=result is SpanExportResult.SUCCESS)
        return result


class _Report(logging.Handler):
    """
    Log handler that reduces the SDK's messages to a few lines of the log.

    A message may quote a variable that contains a secret, or a URL. So only its template is logged,
    with the integers and the exception types among its arguments.

    Attributes:
        exporting: Id of the thread that exports; 0 before the first export.
        reason: Reason of the last export failure; "" after a success.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.exporting = 0
        self.reason = ""
        self._log = log
        self._is_failing = False
        self._lost_spans = 0
        self._logged: set[str] = set()
        for logger in _LOGGERS:
            logger.addHandler(_SILENT)  # stays: without a handler, Python writes to standard error
            logger.addHandler(self)
            logger.propagate = False

    def close(self) -> None:
        """Stop reporting."""
        for logger in _LOGGERS:
            logger.removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Log an SDK message; one from the exporting thread becomes the reason of its failure."""
        args = record.args if isinstance(record.args, tuple) else ()
        kinds = [str(arg) for arg in args if isinstance(arg, int)]
        kinds += [type(arg).__name__ for arg in args if isinstance(arg, Exception)]
        if record.exc_info and record.exc_info[0]:
            kinds.append(record.exc_info[0].__name__)
        if threading.get_ident() == self.exporting:
            self.reason = " ".join(kinds) or self.reason
        else:
            self.trouble(" ".join([str(record.msg)[:MESSAGE_MAX_CHARS], *kinds]))

    def trouble(self, reason: str) -> None:
        """Log a failure other than a failed export, once for each reason."""
        if reason not in self._logged and len(self._logged) < MESSAGES_MAX:
            self._logged.add(reason)
            self._log.warning("tracing_trouble", reason=reason)

    def exported(self, count: int, *, is_sent: bool) -> None:
        """Log when exports begin to fail, and when they work again."""
        if is_sent:
            if self._is_failing:
                self._log.info("tracing_recovered", lost_spans=self._lost_spans)
            self._is_failing, self._lost_spans, self.reason = False, 0, ""
            self._logged.clear()
            return
        self._lost_spans += count
        if not self._is_failing:
            reason = self.reason or "unreachable, too slow or overloaded"
            self._log.warning("tracing_failed", reason=reason)
        self._is_failing = True


def _resource() -> Resource:
    """Return the resource attributes of this process; OTEL_* variables override them."""
    ours = {
        "service.name": NAME,
        "service.version": build_version(),
        "service.instance.id": f"{socket.gethostname()}/{os.getpid()}",
    }
    return Resource.create(ours).merge(OTELResourceDetector().detect())
