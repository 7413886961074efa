"""Trace context: the headers that upstream receives."""

import pytest

from tests.web.tracing.collector import Collector
from tests.web.tracing.world import DONE, GIVEN, PARENT, SPAN, TRACE, traced
from tests.web.world import world


@pytest.mark.parametrize(
    ("given", "is_parent"),
    [
        pytest.param([f"Traceparent: {PARENT}"], True, id="header-in-any-case"),
        pytest.param([f"traceparent: 01{PARENT[2:]}-x"], True, id="a-later-version"),
        pytest.param(
            ["tracestate: a=1", f"traceparent: {PARENT}", "Tracestate: b=2"],
            True,
            id="with-two-states",
        ),
        pytest.param(
            [f"traceparent: {PARENT}", "tracestate: A=hunter2,,=", "baggage: b=hunter2"],
            True,
            id="with-others",
        ),
        pytest.param([], False, id="none"),
        pytest.param(["traceparent: nonsense", "baggage: b=2"], False, id="nonsense"),
        pytest.param(["tracestate: a=1"], False, id="only-a-state"),
        pytest.param([f"traceparent: {PARENT}"] * 2, False, id="two"),
        pytest.param([f"traceparent: 01{PARENT[2:]}-{'x' * 999}"], False, id="too-long"),
        pytest.param([f"traceparent: 00-{'0' * 32}-{SPAN}-01"], False, id="no-trace"),
        pytest.param(["traceparent:"], False, id="empty"),
    ],
)
async def test_a_valid_parent_is_continued(
    spans: Collector, capsys: pytest.CaptureFixture[str], given: list[str], is_parent: bool
) -> None:
    """
    A valid parent is one header, in lower case, without zero ids, as W3C Trace Context requires.

    Any other value begins a new trace, without the old `tracestate`. Every other header, and the
    body, passes unchanged, and only the trace id goes to the collector.
    """
    body = b'{ "model":"gpt-5.4", "input": "hi" }'
    async with traced() as w:
        w.upstream.answers(DONE)
        await w.post(body, *GIVEN, *given)
        ours, attempt = await spans.came(2)
        assert (ours.trace == TRACE, ours.parent == SPAN) == (is_parent, is_parent)
        (got,) = w.upstream.received
        (parent,) = got.values("traceparent")
        assert parent[:-2] == f"00-{ours.trace}-{attempt.id}-"
        kept = [one for one in given if not one.lower().startswith("traceparent")]
        kept = [one for one in kept if is_parent or "tracestate" not in one]
        others = [f"{key}: {value}" for key, value in got.headers if key.lower() != "traceparent"]
        added = ("Host", "Content-Len")
        assert [one for one in others if not one.startswith(added)] == [*GIVEN, *kept]
        assert got.body == body
    assert b"hunter2" not in b"".join(spans.raw)
    assert "tracing_trouble" not in capsys.readouterr().out


async def test_an_unsampled_trace_is_not_exported(spans: Collector) -> None:
    """A trace that is not sampled is not exported, and upstream gets the same flag."""
    async with traced() as w:
        w.upstream.answers(DONE, DONE)
        await w.post({"input": "hi"}, *GIVEN, f"traceparent: 00-{TRACE}-{SPAN}-00")
        await w.post({"input": "hi"}, *GIVEN)
        await spans.came(2)
        (parent,) = w.upstream.received[0].values("traceparent")
        assert parent[:36] == f"00-{TRACE}-"
        assert parent[-3:] == "-00"


async def test_the_sdk_can_be_switched_off_alone(
    otel: pytest.MonkeyPatch, spans: Collector
) -> None:
    """With `OTEL_SDK_DISABLED`, the client's `traceparent` passes unchanged."""
    otel.setenv("OTEL_SDK_DISABLED", "true")
    async with traced() as w:
        w.upstream.answers(DONE, DONE)
        await w.post({"input": "hi"}, *GIVEN, f"traceparent: {PARENT}")
        await w.post({"input": "hi"}, *GIVEN)
        got = [received.values("traceparent") for received in w.upstream.received]
        assert got == [[PARENT], []]
    assert spans.asked == 0


async def test_without_tracing_all_headers_pass() -> None:
    """Without tracing, all trace headers pass unread."""
    given = ["TraceParent: nonsense", "tracestate: a=1", "baggage: b=2", f"traceparent: {PARENT}"]
    async with world() as w:
        w.upstream.answers(DONE)
        await w.post({"input": "hi"}, *GIVEN, *given)
        got = [f"{key}: {value}" for key, value in w.upstream.received[0].headers]
        assert [field for field in got if "trace" in field.lower() or "baggage" in field] == given
