"""Tracing failures: exchanges succeed whatever the collector and the SDK do."""

import asyncio
import re
import subprocess
import sys
from typing import Any

import pytest
from reasoning_replay.web import app

from tests.patience import SOON_S
from tests.web.served import ROOT, served
from tests.web.tracing.collector import Collector
from tests.web.tracing.world import DONE, answers, logged, traced
from tests.web.wire import ASK, LOST, PAIRING, error, whole


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param({"hangs": True}, None, id="hangs"),
        pytest.param({"status": 401}, "401", id="refuses"),
        pytest.param({"status": 500}, "500", id="fails"),
        pytest.param({}, "Connection|unreachable", id="is-not-there"),
    ],
)
async def test_a_collector_that_fails_is_logged_once(
    otel: pytest.MonkeyPatch,
    spans: Collector,
    capfd: pytest.CaptureFixture[str],
    fault: dict[str, Any],
    reason: str | None,
) -> None:
    """
    A collector that fails is logged once, with the reason, and nothing goes to standard error.

    No exchange waits for it.
    """
    vars(spans).update(fault)
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")  # the exporter tries for this long
    if not fault:
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
        *("start_span", "set_attribute", "set_attributes", "end"),
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
    otel.setattr(app, "TRACES_LEAST_S", 0.1)
    spans.hangs = True
    async with traced() as w:
        await answers(w)
        await w.app.stop(0.2)
    assert logged(capsys.readouterr().out, "tracing_trouble")


async def test_without_tracing_nothing_is_imported() -> None:
    """A process without tracing imports nothing of OpenTelemetry."""
    probe = (
        "import asyncio, sys\n"
        "from reasoning_replay.settings.model import Settings\n"
        "from reasoning_replay.web import serve\n"
        "from reasoning_replay.web.app import running\n"
        "async def main():\n"
        "    async with running(Settings(listen='127.0.0.1:0', admin_listen='127.0.0.1:0')):\n"
        "        print([name for name in sys.modules if 'opentelemetry' in name\n"
        "               or name == 'requests'], file=sys.stderr)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", probe],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "[]\n"


async def test_an_invalid_variable_fails_the_start(otel: pytest.MonkeyPatch) -> None:
    """An invalid `OTEL_` variable fails the start, and not the first span."""
    otel.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with pytest.raises(OSError, match=r"tracing cannot start.*max_queue_size.*OTEL_"):
        async with traced():
            pass


async def test_an_invalid_variable_that_is_read_on_import_fails_the_start(
    otel: pytest.MonkeyPatch,
) -> None:
    """An invalid variable that is read on import is reported in one line as well."""
    otel.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")
    async with served(tracing="otlp") as process:
        line = await process.until("cannot_start")
        assert "check the OTEL_ variables" in line["reason"]
        assert await process.exit_code() == 1
