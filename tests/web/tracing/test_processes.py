"""Tracing in a process: its resource attributes, its start and its end."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.web.served import ROOT, served
from tests.web.tracing.collector import Collector
from tests.web.tracing.world import answers, traced
from tests.web.world import eventually, world


async def test_a_process_names_itself(spans: Collector) -> None:
    """Spans name the service, its version, and the host and process id of the instance."""
    async with traced() as w:
        await answers(w)
        (ours, _) = await spans.came(2)
        assert ours.resource["service.name"] == "reasoning-replay"
        assert ours.resource["service.version"]
        assert str(ours.resource["service.instance.id"]).endswith(f"/{os.getpid()}")


async def test_the_environment_names_the_service(
    otel: pytest.MonkeyPatch, spans: Collector
) -> None:
    """`OTEL_SERVICE_NAME` overrides the proxy's own service name."""
    otel.setenv("OTEL_SERVICE_NAME", "mine")
    async with traced() as w:
        await answers(w)
        (ours, _) = await spans.came(2)
        assert ours.resource["service.name"] == "mine"


async def test_a_process_ends_while_its_collector_hangs(
    otel: pytest.MonkeyPatch, spans: Collector
) -> None:
    """A collector that hangs does not keep the process from ending."""
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    spans.hangs = True
    async with world() as w:
        settings: dict[str, Any] = {"upstream_url": w.upstream.url + "/v1", "drain_s": 0.5}
        async with served(tracing="otlp", **settings) as process:
            await process.started()
            w.app.url = process.url
            await answers(w)
            await eventually(lambda: spans.asked == 1)
            process.signal(signal.SIGTERM)
            assert await process.exit_code() == 0
            await process.rest()
            assert process.log[-1]["event"] == "stopped"


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
        "               or name in ('reasoning_replay.web.tracing.otel_tracer', 'requests')],\n"
        "              file=sys.stderr)\n"
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


async def test_an_invalid_variable_fails_the_start(
    otel: pytest.MonkeyPatch,
) -> None:
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
