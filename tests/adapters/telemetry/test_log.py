"""The log writes one line for each event, and a failed write does not fail a request."""

import io
import json
import re

import pytest
from reasoning_replay.adapters.telemetry.log import Log


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Return that it is a terminal."""
        return True


class Broken(io.StringIO):
    """A pipe that its reader has closed."""

    def write(self, _: str) -> int:
        """Fail as a closed pipe does."""
        raise BrokenPipeError


def test_json_is_one_object_on_one_line() -> None:
    """UTC time, level and event precede the fields; a field without a value is left out."""
    stream = io.StringIO()
    Log("info", "json", stream).info("exchange", status=200, route="a\nb", asked=None, ok=True)
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("time"))
    assert list(entry.items()) == [
        ("level", "info"),
        ("event", "exchange"),
        ("status", 200),
        ("route", "a\nb"),
        ("ok", True),
    ]


@pytest.mark.parametrize(
    ("naming", "own", "others"),
    [
        (
            "gcp",
            {"severity": "WARNING", "message": "exchange"},
            {"client": "::1", "error": "dns", "error_detail": "x", "trace_id": "t", "status": 502},
        ),
        (
            "ecs",
            {"log.level": "warning", "message": "exchange", "ecs.version": "8.11.0"},
            {
                "client.ip": "::1",
                "error.type": "dns",
                "error.message": "x",
                "trace.id": "t",
                "status": 502,
            },
        ),
    ],
)
def test_json_has_the_names_of_a_collector(
    naming: str, own: dict[str, object], others: dict[str, object]
) -> None:
    """Each collector finds time, level and event under its own names; other fields stay."""
    stream = io.StringIO()
    log = Log("info", "json", stream, fields=naming)
    log.warning(
        "exchange",
        client="::1",
        error="dns",
        error_detail="x",
        trace_id="t",
        status=502,
        model=None,
    )
    entry = json.loads(stream.getvalue())
    time = entry.pop({"gcp": "time", "ecs": "@timestamp"}[naming])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert list(entry.items()) == [*own.items(), *others.items()]


def test_text_has_its_own_names() -> None:
    """The text format has the names of the documentation, whatever the mapping."""
    stream = io.StringIO()
    Log("info", "text", stream, fields="ecs").info("stopped", cut_off=0)
    assert re.fullmatch(r"\d\d:\d\d:\d\d info    stopped cut_off=0\n", stream.getvalue())


@pytest.mark.parametrize(("stream", "is_json"), [(io.StringIO(), True), (Terminal(), False)])
def test_auto_is_text_on_a_terminal_only(stream: io.StringIO, *, is_json: bool) -> None:
    """A program reads any other output, so that is JSON."""
    Log("info", "auto", stream).info("started")
    assert stream.getvalue().startswith("{") is is_json


@pytest.mark.parametrize(
    ("level", "want"),
    [
        ("debug", ["one", "two", "three"]),
        ("info", ["one", "two", "three"]),
        ("warning", ["two", "three"]),
        ("error", ["three"]),
    ],
)
def test_lines_below_the_level_are_left_out(level: str, want: list[str]) -> None:
    """Each level includes the more severe ones."""
    stream = io.StringIO()
    log = Log(level, "json", stream)
    assert log.takes("info") is ("one" in want)
    log.info("one")
    log.warning("two")
    log.error("three")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == want


def test_a_failed_write_raises_nothing() -> None:
    """A full disk or a closed pipe must not fail a request."""
    Log("info", "json", Broken()).info("exchange")
    closed = io.StringIO()
    log = Log("info", "json", closed)
    closed.close()
    log.error("exchange")


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Orchestrators read standard output."""
    Log("info", "auto").info("started")
    assert json.loads(capsys.readouterr().out)["event"] == "started"
