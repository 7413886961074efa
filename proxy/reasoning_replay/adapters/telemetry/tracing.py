"""
Spans, and their way to a collector. Nobody ever waits for it, and nothing fails with it.

This module brings OpenTelemetry in: it is brought in itself only where tracing is on.
"""

import asyncio
import contextlib
import functools
import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final, ParamSpec, TypeVar

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from reasoning_replay import __version__
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.otlp_exporter import Told, Watched
from reasoning_replay.core.wire.trace_context import Parent, spelled

__all__ = ["CLIENT", "SERVER", "Facts", "Live", "Tracing"]

CLIENT: Final = SpanKind.CLIENT
SERVER: Final = SpanKind.SERVER
NAME: Final = "reasoning-replay"

Facts = Mapping[str, str | int | float | bool]
_Given = ParamSpec("_Given")
_Got = TypeVar("_Got")


class Live:
    """A span under way; whatever goes wrong with it is told once, and the exchange goes on."""

    __slots__ = ("_span", "_tracing")

    def __init__(self, tracing: "Tracing", span: Span | None) -> None:
        """Stand for a span; for none where it could not be made."""
        self._tracing = tracing
        self._span = span

    @property
    def is_recording(self) -> bool:
        """Whether anybody will see what is noted of it."""
        return self._span is not None and bool(self._tracing.harmless(self._span.is_recording))

    @property
    def trace_id(self) -> str:
        """32 hex digits; "" when there is no trace."""
        context = self._context
        return "" if context is None else f"{context.trace_id:032x}"

    def parent(self, given: Parent | None = None) -> bytes:
        """
        Return what names it as a parent, as the header has it.

        Args:
            given: What the request itself named; b"" is returned where that is still true, as it
                is when the SDK is switched off by its own variable.
        """
        context = self._context
        if context is None or (given is not None and context.span_id == given.span_id):
            return b""
        return spelled(context.trace_id, context.span_id, context.trace_flags)

    def child(self, name: str, facts: Facts, start_ns: int | None = None) -> "Live":
        """Begin a call to upstream that is part of it."""
        if self._span is None:
            return self
        return self._tracing.begin(name, CLIENT, set_span_in_context(self._span), facts, start_ns)

    def note(self, facts: Facts) -> None:
        """Note what is known of it."""
        if self._span is not None:
            self._tracing.harmless(self._span.set_attributes, facts)

    def event(self, name: str, facts: Facts, at_ns: int) -> None:
        """Note what happened at one moment of it."""
        if self._span is not None:
            self._tracing.harmless(self._span.add_event, name, facts, at_ns)

    def rename(self, name: str) -> None:
        """Call it otherwise, now that more is known of it."""
        if self._span is not None:
            self._tracing.harmless(self._span.update_name, name)

    def fail(self, error: str) -> None:
        """Note that it failed, with a word for programs."""
        if self._span is not None:
            self._tracing.harmless(self._span.set_status, Status(StatusCode.ERROR))
            self.note({"error.type": error})

    def end(self) -> None:
        """Hand it to the exporter, which does not wait; a second end is none."""
        span, self._span = self._span, None
        if span is not None:
            self._tracing.harmless(span.end)

    @property
    def _context(self) -> SpanContext | None:
        if self._span is None:
            return None
        context = self._tracing.harmless(self._span.get_span_context)
        return context if context is not None and context.is_valid else None


class Tracing:
    """
    Makes spans and sends them off, in a thread of its own, as the variables `OTEL_*` say.

    What is not sent yet is bounded by the SDK's own queue; what comes besides is lost, and told.
    """

    def __init__(self, log: Log) -> None:
        """
        Begin to send; needs a running loop.

        Args:
            log: Told when the collector fails and when it is back, and of nothing twice.

        Raises:
            OSError: A variable of the SDK's makes no sense to it.
        """
        self._told = Told(log, asyncio.get_running_loop())
        try:
            # The provider keeps out of the way of whoever else may have one in this process.
            self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            self._exporter = Watched(OTLPSpanExporter(), self._told)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
            self._tracer = self._provider.get_tracer(NAME, __version__)
        except Exception as error:
            self._told.close()
            reason = f"{type(error).__name__}: {error}" if isinstance(error, ValueError) else error
            raise OSError(f"tracing cannot begin: {reason}; look at the OTEL_ variables") from error

    def root(self, name: str, parent: Parent | None, facts: Facts) -> Live:
        """Begin what a client asked for; `parent` is the client's own span, if it named one."""
        context = self.harmless(_context_of, parent)
        return self.begin(name, SERVER, Context() if context is None else context, facts)

    def begin(
        self, name: str, kind: SpanKind, context: Context, facts: Facts, start_ns: int | None = None
    ) -> Live:
        """Begin a span; one that cannot be made is none."""
        start = functools.partial(self._tracer.start_span, start_time=start_ns)
        return Live(self, self.harmless(start, name, context, kind, facts))

    def harmless(
        self, call: Callable[_Given, _Got], *args: _Given.args, **named: _Given.kwargs
    ) -> _Got | None:
        """Return what a call of the SDK's returns; None when it raises."""
        try:
            return call(*args, **named)
        except Exception as error:  # noqa: BLE001 (fail open: a trace is not worth an exchange)
            self._told.trouble(type(error).__name__)
            return None

    async def close(self, within_s: float) -> None:
        """
        Send what is left, and give up what is not sent in time.

        The SDK's own end waits for the collector, and cannot be told for how long. It does so in a
        thread that no process waits for.
        """
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            self.harmless(self._provider.shutdown)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, name="tracing-ends", daemon=True).start()
        try:
            async with asyncio.timeout(within_s):
                await done.wait()
        except TimeoutError:
            self._exporter.shutdown()
            self._told.trouble("what was left could not be sent in time")
        await asyncio.sleep(0)  # what the thread has said is told
        self._told.close()


def _resource() -> Resource:
    """Say whose spans these are; what the environment says of it counts."""
    instance = f"{socket.gethostname()}/{os.getpid()}"
    ours = {
        "service.name": NAME,
        "service.version": __version__,
        "service.instance.id": instance,
    }
    return Resource.create(ours).merge(OTELResourceDetector().detect())


def _context_of(parent: Parent | None) -> Context:
    if parent is None:
        return Context()
    # Not with its `tracestate`: that goes upstream as it came, and a collector would be sent it.
    flags = TraceFlags(parent.flags)
    context = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(context), Context())
