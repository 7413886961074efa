"""Trace context: sets the parent span of a request and changes no other header."""

import pytest
from reasoning_replay.core.wire.headers import Headers
from reasoning_replay.core.wire.trace_context import with_parent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()
OURS = b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"


@pytest.mark.parametrize(
    ("headers", "goes_on", "want"),
    [
        pytest.param([(b"A", b"1")], False, [(b"A", b"1"), (b"traceparent", OURS)], id="appended"),
        pytest.param(
            [(b"A", b"1"), (b"TraceParent", GOOD), (b"tracestate", b"a=1"), (b"B", b"2")],
            True,
            [(b"A", b"1"), (b"TraceParent", OURS), (b"tracestate", b"a=1"), (b"B", b"2")],
            id="replaced",
        ),
        pytest.param(
            [(b"traceparent", b"x"), (b"A", b"1"), (b"traceparent", b"y"), (b"Tracestate", b"a=1")],
            False,
            [(b"traceparent", OURS), (b"A", b"1")],
            id="invalid-one-replaced",
        ),
    ],
)
def test_no_other_header_is_touched(headers: Headers, goes_on: bool, want: Headers) -> None:
    """Only the `tracestate` of another trace is removed."""
    assert with_parent(headers, OURS, goes_on=goes_on) == want
