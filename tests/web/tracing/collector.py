"""OTLP collector over HTTP, for tests: it accepts spans, fails, or hangs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from tests.web.world import eventually

CLIENT, SERVER = Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_SERVER


@dataclass(frozen=True)
class Seen:
    """
    One received span.

    Attributes:
        trace, id, parent: In hex; "" for no parent.
        known: Its attributes.
    """

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    known: dict[str, Any]
    is_error: bool
    start_ns: int
    end_ns: int


class Collector:
    """
    An OTLP endpoint.

    Attributes:
        url: Its base URL, for `OTEL_EXPORTER_OTLP_ENDPOINT`.
        spans: All received spans.
        status: The status of its responses.
        hangs: Whether it leaves requests without a response.
        raw: The bodies of all accepted requests.
        asked: The number of requests.
    """

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Seen] = []
        self.status = 200
        self.hangs = False
        self.raw: list[bytes] = []
        self.asked = 0

    async def take(self, request: web.Request) -> web.Response:
        """Handle one request."""
        self.asked += 1
        assert request.path == "/v1/traces"
        assert request.content_type == "application/x-protobuf"
        body = await request.read()
        if self.hangs:
            await asyncio.Event().wait()
        if self.status == 200:
            self.raw.append(body)
            self.spans += _read(body)
        return web.Response(status=self.status)

    async def came(self, count: int) -> list[Seen]:
        """Wait for this number of spans in total; return them by their start."""
        await eventually(lambda: len(self.spans) >= count)
        assert len(self.spans) == count, [span.name for span in self.spans]
        return sorted(self.spans, key=lambda span: (span.start_ns, span.parent != ""))


def _read(body: bytes) -> list[Seen]:
    processes = ExportTraceServiceRequest.FromString(body).resource_spans
    return [_seen(span) for one in processes for scope in one.scope_spans for span in scope.spans]


def _seen(span: Span) -> Seen:
    return Seen(
        name=span.name,
        kind=span.kind,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        known={pair.key: _plain(pair.value) for pair in span.attributes},
        is_error=span.status.code == SpanStatus.STATUS_CODE_ERROR,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
    )


def _plain(value: AnyValue) -> Any:
    return getattr(value, str(value.WhichOneof("value")))


@contextlib.asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """Run a collector on a free loopback port."""
    taking = Collector()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/traces", taking.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    taking.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield taking
    finally:
        await runner.cleanup()
