"""
Tracing: OpenTelemetry's SDK, which sends spans to a collector by OTLP over HTTP, as OTEL_* say.

This module imports OpenTelemetry, so it is imported only where tracing is on. No call raises: a
failure is logged once, and the exchange goes on.
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

from reasoning_replay import __version__
from reasoning_replay.adapters.telemetry.log import Log

__all__ = ["Tracing"]

NAME: Final = "reasoning-replay"
# So many different messages of the SDK are logged, until the collector answers again.
MESSAGES_MAX: Final = 8
MESSAGE_MAX_CHARS: Final = 120

_LOGGERS = tuple(logging.getLogger(name) for name in ("opentelemetry", "urllib3", "requests"))
_SILENT = logging.NullHandler()


class Tracing:
    """
    Makes spans, and sends them from a thread of the SDK's, through its bounded queue.

    Attributes:
        tracer: Starts spans; its calls stand in a `guard`.
    """

    def __init__(self, log: Log) -> None:
        """
        Start to send.

        Args:
            log: Gets one line when the collector fails, and one when it answers again.

        Raises:
            OSError: The SDK does not understand one of its variables.
        """
        self._report = _Report(log)
        try:
            # The global provider of this process is not touched.
            self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            self._exporter = _Exporter(self._report)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
            self.tracer = self._provider.get_tracer(NAME, __version__)
        except Exception as error:
            self._report.close()
            reason = f"{type(error).__name__}: {error}" if isinstance(error, ValueError) else error
            raise OSError(f"tracing cannot begin: {reason}; look at the OTEL_ variables") from error

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Log whatever the block raises, once for each type, and go on after the block."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (fail open: a trace is not worth an exchange)
            self._report.trouble(type(error).__name__)

    async def close(self, within_s: float) -> None:
        """
        Send the spans that are left; those not sent in time are lost.

        The SDK's own shutdown has no timeout, so it runs in a thread that no process waits for.
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
    Turns messages of the SDK into few lines of our log.

    A message may quote a variable with a secret in it, or a URL. So only its template is logged,
    with the numbers and the types of exceptions among its arguments.

    Attributes:
        exporting: The thread that exports; 0 before the first export.
        reason: Why the last export failed.
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
        """Report nothing more."""
        for logger in _LOGGERS:
            logger.removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message, from any thread."""
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
        """Log a failure that is not the collector's; each one once."""
        if reason not in self._logged and len(self._logged) < MESSAGES_MAX:
            self._logged.add(reason)
            self._log.warning("tracing_trouble", reason=reason)

    def exported(self, count: int, *, is_sent: bool) -> None:
        """Log a change: the collector fails, or it answers again."""
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
    """Describe this process; the environment overrides it."""
    ours = {
        "service.name": NAME,
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}/{os.getpid()}",
    }
    return Resource.create(ours).merge(OTELResourceDetector().detect())
