"""The text format writes each event on one line, whatever text its values contain."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.telemetry.log import NAME_MAX, Value, called
from reasoning_replay.adapters.telemetry.log_text import is_coloured, text_line

from tests.adapters.telemetry.test_log import Terminal

WELL: dict[str, Value] = {
    "route": "responses",
    "status": 200,
    "outcome": "ok",
    "model": "gpt-5.4",
    "asked": "planned",
    "captured": "saved",
    "injected": 2,
    "injected_bytes": 3100,
    "captured_items": 0,
    "before_ms": 0.31,
    "total_ms": 3211.0,
    "received_bytes": 999,
    "sent_bytes": 1_200_000,
    "scope": "5f0c" * 8,
    "conversation": "a81e" * 8,
    "request_id": "0123456789abcdef",
}

texts = st.text(st.characters(codec="utf-8") | st.sampled_from('\x1b\x07\x7f\x9b\n\r\u2028 ="\\'))


def told(level: str, event: str, fields: dict[str, Value], *, coloured: bool = False) -> str:
    """Return a log line without its time."""
    return text_line(0.0, level, event, fields, coloured=coloured).partition(" ")[2]


def test_the_line_of_a_successful_exchange_is_short() -> None:
    """The line has columns, and omits fields that are usual, 0 or for programs only."""
    assert told("info", "exchange", WELL) == (
        "info    responses    200 ok             3.2s    model=gpt-5.4 captured=saved injected=2 "
        f"before=0.31ms received=999B sent=1.2MB conversation={'5f0c' * 8}:{'a81e' * 8} "
        "request_id=0123456789abcdef"
    )


def test_the_line_of_a_failed_exchange_has_all_fields() -> None:
    """The line has every field that may help to find the cause, with whole ids."""
    line = told("warning", "exchange", WELL | {"asked": "store_failed", "status": None})
    assert line.startswith("warning responses    -   ok ")
    assert "asked=store_failed" in line
    assert "injected_bytes=3.1kB" in line
    assert f"conversation={'5f0c' * 8}:{'a81e' * 8}" in line
    assert "request_id=0123456789abcdef" in line


def test_the_line_of_another_event_has_all_fields() -> None:
    """A field that is 0 is written, too."""
    line = told("info", "draining", {"in_flight": 0, "ok": True, "off": False, "why": None})
    assert line == "info    draining in_flight=0 ok=yes off=no"


@pytest.mark.parametrize(
    ("size", "want"),
    [(0, "0B"), (999, "999B"), (1000, "1.0kB"), (2_500_000, "2.5MB"), (7e12, "7000.0GB")],
)
def test_sizes_have_decimal_units(size: float, want: str) -> None:
    """Sizes use powers of 1,000."""
    assert told("info", "e", {"sent_bytes": size}) == f"info    e sent={want}"


@given(value=texts, key=st.sampled_from(["model", "scope", "reason", "outcome"]))
def test_no_value_breaks_the_line_or_controls_the_terminal(value: str, key: str) -> None:
    """Any text in a value is printed as one quoted value, without control characters."""
    for level in ("info", "error"):
        for event in ("exchange", "store_failed"):
            line = told(level, event, WELL | {key: value})
            assert re.fullmatch(r"[ -~]+", line)
            unquoted = re.sub(r'"(\\.|[^"\\])*"', "Q", line)
            assert '"' not in unquoted
            assert unquoted.count("=") <= len(WELL) + 1


@given(texts)
def test_received_names_are_bounded(name: str) -> None:
    """A name from a request is cut, and reduced to printable ASCII characters."""
    got = called(name * 40)
    assert got is None or re.fullmatch(rf"[ -~]{{1,{NAME_MAX}}}", got)
    assert called("openai/gpt-5.4:free") == "openai/gpt-5.4:free"
    assert called("") is None


@pytest.mark.parametrize(
    ("stream", "env", "want"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals_only(
    stream: io.StringIO, env: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, want: bool
) -> None:
    """A terminal gets colours unless NO_COLOR is set (no-color.org) or TERM is `dumb`."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert is_coloured(stream) is want


def test_a_colour_does_not_change_the_text() -> None:
    """Only the level is coloured."""
    line = text_line(0.0, "error", "e", {"reason": "x"}, coloured=True)
    assert "\x1b[31merror  \x1b[0m e reason=x" in line
    plain = text_line(0.0, "error", "e", {"reason": "x"}, coloured=False)
    assert re.sub(r"\x1b\[\d+m", "", line) == plain
