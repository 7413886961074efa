"""Tracing failures: exchanges succeed whatever the collector and the SDK do."""

import asyncio
import re
from typing import Any

import pytest

from tests.patience import SOON_S
from tests.web.tracing.collector import Collector
from tests.web.tracing.world import DONE, answers, logged, traced
from tests.web.wire import ASK, LOST, PAIRING, error, whole


def hang(taking: Collector) -> None:
    """Leave requests without a response."""
    taking.hangs = True


def refuse(taking: Collector) -> None:
    """Require a credential."""
    taking.status = 401


def fail(taking: Collector) -> None:
    """Fail permanently."""
    taking.status = 500


def gone(taking: Collector) -> None:
    """Change nothing here; the test sets an address where no collector listens."""


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param(hang, None, id="hangs"),
        pytest.param(refuse, "401", id="refuses"),
        pytest.param(fail, "500", id="fails"),
        pytest.param(gone, "Connection|unreachable", id="is-not-there"),
    ],
)
async def test_a_collector_that_fails_is_logged_once(
    otel: pytest.MonkeyPatch,
    spans: Collector,
    capfd: pytest.CaptureFixture[str],
    how: Any,
    reason: str | None,
) -> None:
    """
    A collector that fails is logged once, with the reason, and nothing goes to standard error.

    No exchange waits for it.
    """
    how(spans)
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")  # the exporter tries for this long
    if how is gone:
        otel.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/x?key=hunter2")
    out = ""
    async with traced() as w:
        for _ in range(3):
            await answers(w)
        async with asyncio.timeout(SOON_S):
            while not logged(out, "tracing_failed"):
                await asyncio.sleep(0.05)
                out += capfd.readouterr().out
        await answers(w)
        await w.app.stop(30.0)
    ended = capfd.readouterr()
    (line,) = logged(out + ended.out, "tracing_failed")
    assert line["level"] == "warning"
    assert reason is None or re.search(reason, line["reason"])
    assert ended.err == ""
    assert "hunter2" not in out + ended.out


async def test_a_collector_that_recovers_is_logged(
    spans: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """A collector that recovers is logged, with the number of lost spans."""
    spans.status = 500
    async with traced() as w:
        await answers(w)
        out = ""
        async with asyncio.timeout(SOON_S):
            while not logged(out, "tracing_failed"):
                await asyncio.sleep(0.02)
                out += capsys.readouterr().out
            spans.status = 200
            await answers(w)
            while not logged(out, "tracing_recovered"):
                await asyncio.sleep(0.02)
                out += capsys.readouterr().out
    assert logged(out, "tracing_recovered")[0]["lost_spans"] >= 1


@pytest.mark.parametrize(
    "broken",
    [
        *("start_span", "set_attributes", "add_event", "end"),
        *("get_span_context", "is_recording", "set_status", "update_name"),
    ],
)
async def test_an_sdk_that_raises_costs_no_exchange(
    otel: pytest.MonkeyPatch,
    spans: Collector,
    capsys: pytest.CaptureFixture[str],
    broken: str,
) -> None:
    """An SDK that raises anywhere costs no exchange, and is logged once."""

    def raises(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    otel.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")  # a successful export would allow a second line
    owner = "opentelemetry.sdk.trace." + ("Tracer" if broken == "start_span" else "Span")
    otel.setattr(f"{owner}.{broken}", raises)
    async with traced() as w:
        w.upstream.answers(error(PAIRING), DONE, whole(b"{}", status="500 Broken"))
        assert (await w.turn(*LOST)).head.status == 200
        assert (await w.turn(ASK)).head.status == 500
        await answers(w)
        await asyncio.sleep(0)
        assert w.counted("exchanges_total") == 3
        out = capsys.readouterr().out  # before the stop, which may log that spans were dropped
    # On a busy machine, the exporter of an earlier test may report its end here.
    reasons = [line["reason"] for line in logged(out, "tracing_trouble")]
    assert reasons.count("ZeroDivisionError") == 1
    assert len(logged(out, "exchange")) == 3


async def test_the_last_spans_are_exported_at_the_end(
    otel: pytest.MonkeyPatch, spans: Collector
) -> None:
    """A stop exports the last spans in the remaining time of the drain."""
    otel.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    async with traced() as w:
        await answers(w)
        assert spans.spans == []
        await w.app.stop(30.0)
        assert len(spans.spans) == 2


async def test_a_stop_does_not_wait_for_a_collector_that_hangs(
    otel: pytest.MonkeyPatch, spans: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stop drops the last spans if the collector hangs until the end of the drain."""
    otel.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")  # longer than a test may last
    spans.hangs = True
    async with traced() as w:
        await answers(w)
        await w.app.stop(0.2)
    assert logged(capsys.readouterr().out, "tracing_trouble")
