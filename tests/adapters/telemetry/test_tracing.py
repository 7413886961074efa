"""Spans say whose they are and what they are part of; one that cannot be made is none."""

import io
import os

import pytest
from opentelemetry.context import Context
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.tracing import CLIENT, Live, Tracing
from reasoning_replay.core.wire.trace_context import Parent

PARENT = Parent(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0xF067AA0BA902B7, 1)


@pytest.fixture
async def tracing(monkeypatch: pytest.MonkeyPatch) -> Tracing:
    """One that sends nothing within the test."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=mine,team=a")
    return Tracing(Log("info", "json", io.StringIO()))


async def test_the_environment_says_whose_they_are(tracing: Tracing) -> None:
    """Ours is what it does not say."""
    got = tracing._provider.resource.attributes
    assert got["service.name"] == "reasoning-replay"
    assert (got["service.version"], got["team"]) == ("mine", "a")
    assert str(got["service.instance.id"]).endswith(f"/{os.getpid()}")
    await tracing.close(0)


async def test_a_span_is_part_of_what_it_is_told(tracing: Tracing) -> None:
    """The client's span, ours, and a call of ours: one trace."""
    root = tracing.root("a", PARENT, {})
    call = root.child("b", {})
    assert root.trace_id == call.trace_id == f"{PARENT.trace_id:032x}"
    assert root.is_recording
    assert root.parent(PARENT) != call.parent(PARENT)
    assert root.parent()[:36] == b"00-4bf92f3577b34da6a3ce929d0e0e4736-"
    await tracing.close(0)


async def test_a_span_that_is_none_takes_everything(tracing: Tracing) -> None:
    """Who has it need not ask, and one that has ended is one."""
    ended = tracing.begin("a", CLIENT, Context(), {})
    ended.end()
    for live in (Live(tracing, None), ended):
        live.note({"a": 1})
        live.event("b", {}, 0)
        live.rename("c")
        live.fail("d")
        live.end()
        assert (live.trace_id, live.parent(), live.is_recording) == ("", b"", False)
        assert live.child("e", {}) is live
    await tracing.close(0)
