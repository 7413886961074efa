"""How spans are sent, and what is told of it: OpenTelemetry's own words never reach a terminal."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from reasoning_replay.adapters.telemetry.log import Log

__all__ = ["Told", "Watched"]

# Of what the SDK has to say, so many different things are told until a collector answers again.
TOLD_MAX: Final = 8
# What the exporter says, and what it is made of.
_LOGGERS = ("opentelemetry", "urllib3", "requests")

for _name in _LOGGERS:  # else Python writes to standard error what nobody else takes
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Watched(SpanExporter):
    """An exporter that tells how it fares."""

    def __init__(self, inner: SpanExporter, told: "Told") -> None:
        """Send by `inner`."""
        self._inner = inner
        self._told = told
        self._has_ended = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send these; called in the SDK's thread."""
        self._told.exporter = threading.get_ident()
        try:
            result = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 (it is told)
            self._told.reason = type(error).__name__
            result = SpanExportResult.FAILURE
        self._told.sent(len(spans), is_sent=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """Give up what is under way, and send nothing more."""
        if not self._has_ended:
            self._has_ended = True
            self._inner.shutdown()


class Told(logging.Handler):
    """
    Turns what the SDK says into lines of our log: one when something changes, and no more.

    Words of the SDK's may quote a variable with a secret in it, or a URL: its templates are told,
    and of what stands in them numbers and the kinds of errors.

    Attributes:
        exporter: The thread that sends; 0 before it has.
        reason: Why it failed last, in such words.
    """

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop) -> None:
        """Hear what the SDK says from now on; lines are written on the loop."""
        super().__init__(logging.WARNING)
        self.exporter = 0
        self.reason = ""
        self._log = log
        self._loop = loop
        self._is_failing = False
        self._lost = 0
        self._said: set[str] = set()
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)
            logging.getLogger(name).propagate = False

    def close(self) -> None:
        """Hear nothing more."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Take what the SDK says, from any thread."""
        values = record.args if isinstance(record.args, tuple) else ()
        kinds = [str(value) for value in values if isinstance(value, int)]
        kinds += [type(value).__name__ for value in values if isinstance(value, Exception)]
        if record.exc_info and record.exc_info[0]:
            kinds.append(record.exc_info[0].__name__)
        if threading.get_ident() == self.exporter:
            self.reason = " ".join(kinds) or self.reason
        else:
            self.trouble(" ".join([str(record.msg)[:120], *kinds]))

    def trouble(self, reason: str) -> None:
        """Tell, once, of what is not the collector's."""
        if reason not in self._said and len(self._said) < TOLD_MAX:
            self._said.add(reason)
            self._later(lambda: self._log.warning("tracing_trouble", reason=reason))

    def sent(self, count: int, *, is_sent: bool) -> None:
        """Tell of a change."""
        if is_sent:
            lost, self._lost = self._lost, 0
            if self._is_failing:
                self._later(lambda: self._log.info("tracing_recovered", lost_spans=lost))
            self._is_failing, self.reason = False, ""
            self._said.clear()
            return
        self._lost += count
        reason = self.reason or "unreachable, too slow or overloaded"
        if not self._is_failing:
            self._later(lambda: self._log.warning("tracing_failed", reason=reason))
        self._is_failing = True

    def _later(self, tell: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads it any more
            self._loop.call_soon_threadsafe(tell)
