"""
Tracing: OpenTelemetry spans, sent to a collector by OTLP over HTTP, configured by OTEL_* variables.

Only this module imports OpenTelemetry, so import it only if tracing is on. After the start, no
failure reaches an exchange: each is logged once.
"""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.build import build_version

NAME: Final = "reasoning-replay"
# Most different messages that are logged.
MESSAGES_MAX: Final = 8
MESSAGE_MAX_CHARS: Final = 120

Attributes = Mapping[str, str | int | float | bool]

_LOGGERS = tuple(logging.getLogger(name) for name in ("opentelemetry", "urllib3", "requests"))
_SILENT = logging.NullHandler()
_W3C = TraceContextTextMapPropagator()


class Tracing:
    """Tracing of one process: spans pass through the SDK's bounded queue to a thread that sends."""

    def __init__(self, log: Log) -> None:
        """
        Start the thread that exports spans.

        Raises:
            OSError: The SDK rejects one of its OTEL_* variables.
        """
        self._messages = _Messages(log)
        try:
            # The global tracer provider of the process is not changed.
            self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            self._exporter = _Exporter(log, self._messages)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
            self._tracer = self._provider.get_tracer(NAME, build_version())
        except Exception as error:
            self._messages.close()
            reason = f"{type(error).__name__}: {error}" if isinstance(error, ValueError) else error
            raise OSError(f"tracing cannot start: {reason}; check the OTEL_ variables") from error

    def server_span(self, name: str, parent: str, attributes: Attributes) -> tuple[Span, bool]:
        """Start a span; `parent` is a `traceparent`. Return also whether that is valid."""
        # Without `tracestate`: it is forwarded, but a span would export it to the collector.
        context = _W3C.extract({"traceparent": parent}, Context())
        goes_on = get_current_span(context).get_span_context().is_valid
        return self._tracer.start_span(name, context, SpanKind.SERVER, attributes), goes_on

    def client_span(
        self, name: str, server: Span, attributes: Attributes, start_ns: int | None = None
    ) -> Span:
        """Start a span that is a child of a server span, at a time since the epoch or now."""
        context = set_span_in_context(server, Context())
        return self._tracer.start_span(name, context, SpanKind.CLIENT, attributes, None, start_ns)

    @staticmethod
    def end(span: Span, error: str) -> None:
        """End a span; `error` is why it failed, "" if it has not."""
        if error:
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", error)
        span.end()

    def fail_open(self) -> FailOpen:
        """Return the context of calls of OpenTelemetry; a failure of each type is logged once."""
        return FailOpen("tracing_trouble", self._messages.fail)

    async def close(self, within_s: float) -> None:
        """
        Send the pending spans; those not sent within `within_s` seconds are lost.

        The SDK's own shutdown has no timeout, so it runs in a daemon thread that may outlive this.
        """
        ends = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        ends.start()
        await asyncio.to_thread(ends.join, within_s)
        if ends.is_alive():
            self._messages.tell("the last spans could not be sent in time")
            self._exporter.shutdown()  # type: ignore[no-untyped-call] # ends its retries
        self._messages.close()


class _Exporter(OTLPSpanExporter):
    """The SDK's exporter; the log says when exports begin to fail, and when they work again."""

    def __init__(self, log: Log, messages: "_Messages") -> None:
        super().__init__()
        self._log, self._messages = log, messages
        self._lost_spans = 0  # since the last successful export

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        with FailOpen("tracing_trouble", self._messages.fail):
            result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._lost_spans:
                self._log.info("tracing_recovered", lost_spans=self._lost_spans)
            self._lost_spans = 0
            return result
        if not self._lost_spans:
            reason = self._messages.reason or "unreachable, too slow or overloaded"
            self._log.warning("tracing_failed", reason=reason)
        self._lost_spans += len(spans)
        return result


class _Messages(logging.Handler):
    """
    Log handler that reduces the SDK's messages to a few lines of the log.

    A message may quote a variable that contains a secret, or a URL. So only its template is logged,
    with the integers and the exception types among its arguments.

    Attributes:
        reason: These of the last message that had any; "" before.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""
        self._log = log
        self._logged: set[str] = set()
        for logger in _LOGGERS:
            logger.addHandler(_SILENT)  # stays: without a handler, Python writes to standard error
            logger.addHandler(self)
            logger.propagate = False

    def close(self) -> None:
        for logger in _LOGGERS:
            logger.removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        kinds = [str(arg) for arg in args if isinstance(arg, int)]
        kinds += [type(arg).__name__ for arg in args if isinstance(arg, Exception)]
        if record.exc_info and record.exc_info[0]:
            kinds.append(record.exc_info[0].__name__)
        self.reason = " ".join(kinds) or self.reason
        self.tell(" ".join([str(record.msg)[:MESSAGE_MAX_CHARS], *kinds]))

    def fail(self, _event: str, error: Exception) -> None:
        """Log the type of an exception."""
        self.reason = type(error).__name__
        self.tell(self.reason)

    def tell(self, reason: str) -> None:
        """Log a reason once; further ones than MESSAGES_MAX are not logged."""
        if reason not in self._logged and len(self._logged) < MESSAGES_MAX:
            self._logged.add(reason)
            self._log.warning("tracing_trouble", reason=reason)


def _resource() -> Resource:
    """Return the resource attributes of this process; OTEL_* variables override them."""
    ours = {
        "service.name": NAME,
        "service.version": build_version(),
        "service.instance.id": f"{socket.gethostname()}/{os.getpid()}",
    }
    return Resource.create(ours).merge(OTELResourceDetector().detect())
