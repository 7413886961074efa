"""A request's parent is read as W3C says, named without touching another header, and bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.headers import Headers
from reasoning_replay.core.wire.trace_context import (
    Parent,
    fit_id,
    fit_method,
    fit_model,
    naming,
    parent_of,
    spelled,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()
KNOWN = Parent(int(TRACE, 16), int(SPAN, 16), 1)
OURS = b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        pytest.param([(b"Traceparent", GOOD)], KNOWN, id="whatever-its-case"),
        pytest.param([(b"traceparent", GOOD[:-1] + b"0")], KNOWN._replace(flags=0), id="unsampled"),
        pytest.param([(b"traceparent", b"01" + GOOD[2:] + b"-x")], KNOWN, id="a-later-version"),
        pytest.param(
            [(b"tracestate", b"a=1"), (b"traceparent", GOOD), (b"Tracestate", b"b=2")],
            KNOWN,
            id="whatever-its-state",
        ),
        pytest.param([], None, id="none"),
        pytest.param([(b"tracestate", b"a=1")], None, id="a-state-alone"),
        pytest.param([(b"traceparent", GOOD), (b"traceparent", GOOD)], None, id="two"),
        pytest.param([(b"traceparent", GOOD + b"-x")], None, id="longer-than-its-version"),
        pytest.param([(b"traceparent", b"ff" + GOOD[2:])], None, id="no-version"),
        pytest.param([(b"traceparent", GOOD.upper())], None, id="upper-case"),
        pytest.param([(b"traceparent", b"00-" + b"0" * 32 + GOOD[35:])], None, id="no-trace"),
        pytest.param([(b"traceparent", GOOD[:36] + b"0" * 16 + b"-01")], None, id="no-span"),
        pytest.param([(b"traceparent", b"")], None, id="empty"),
    ],
)
def test_a_parent_is_what_w3c_says(headers: Headers, want: Parent | None) -> None:
    """One header, lower case, no zeros; else there is none."""
    assert parent_of(headers) == want


@pytest.mark.parametrize(
    ("headers", "goes_on", "want"),
    [
        pytest.param([(b"A", b"1")], False, [(b"A", b"1"), (b"traceparent", OURS)], id="behind"),
        pytest.param(
            [(b"A", b"1"), (b"TraceParent", GOOD), (b"tracestate", b"a=1"), (b"B", b"2")],
            True,
            [(b"A", b"1"), (b"TraceParent", OURS), (b"tracestate", b"a=1"), (b"B", b"2")],
            id="in-its-place",
        ),
        pytest.param(
            [(b"traceparent", b"x"), (b"A", b"1"), (b"traceparent", b"y"), (b"Tracestate", b"a=1")],
            False,
            [(b"traceparent", OURS), (b"A", b"1")],
            id="in-place-of-a-wrong-one",
        ),
    ],
)
def test_no_other_header_is_touched(headers: Headers, goes_on: bool, want: Headers) -> None:
    """Only a state goes that is said of another trace."""
    assert naming(headers, OURS, goes_on=goes_on) == want


@given(
    st.integers(1, (1 << 128) - 1),
    st.integers(1, (1 << 64) - 1),
    st.integers(0, 255),
    st.booleans(),
)
def test_what_is_spelled_is_read(trace: int, span: int, flags: int, goes_on: bool) -> None:
    """Whoever comes next finds the parent that was named."""
    named = naming([(b"Host", b"a")], spelled(trace, span, flags), goes_on=goes_on)
    assert parent_of(named) == Parent(trace, span, flags)


@given(st.text())
def test_words_are_bounded(text: str) -> None:
    """Whatever a client or an upstream writes: short, of plain letters, or nothing."""
    for fit, most in ((fit_model, 128), (fit_id, 256)):
        got = fit(text)
        assert got in {"", text}
        assert len(got) <= most
        assert got.isascii()
        assert not set(got) & set(" \n\"'{}<>")


def test_usual_names_stand() -> None:
    """As they are."""
    for name in ("gpt-5.4", "openai/gpt-5.4:free", "ft:gpt-4o:acme::a1B2", "us.anthropic@1+x"):
        assert fit_model(name) == name
    assert fit_id("resp_0c1d2e3f4a5b6071==") == "resp_0c1d2e3f4a5b6071=="
    assert [fit_method(method) for method in ("GET", "QUERY", "get", "A" * 99)] == [
        "GET",
        "QUERY",
        "_OTHER",
        "_OTHER",
    ]
