"""Fixtures of the tracing tests: a collector for each test, and an SDK that exports at once."""

from collections.abc import AsyncIterator

import pytest
from reasoning_replay.web import app

from tests.patience import SOON_S
from tests.web.tracing.collector import Collector, collector


@pytest.fixture
def otel(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of the SDK: it exports at once, with a timeout of one second."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    return monkeypatch


@pytest.fixture
async def spans(otel: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    """A collector that the SDK exports to. It gets the last spans, however busy the machine is."""
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(SOON_S))
    otel.setattr(app, "TRACES_LEAST_S", SOON_S)
    async with collector() as taking:
        otel.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", taking.url)
        yield taking
