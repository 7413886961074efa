"""A collector for each test, and an SDK that sends to it at once."""

from collections.abc import AsyncIterator

import pytest

from tests.web.tracing.collector import Collector, collector


@pytest.fixture
def otel(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The SDK's variables; spans are sent at once, and a collector has a second."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    return monkeypatch


@pytest.fixture
async def spans(otel: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    """A collector that the SDK knows of."""
    async with collector() as taking:
        otel.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", taking.url)
        yield taking
