"""Messages of the SDK become a few log lines that quote no value."""

import io
import json
import logging
import os
from collections.abc import Iterator

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.tracing import (
    MESSAGE_MAX_CHARS,
    MESSAGES_MAX,
    Tracing,
    _Messages,
)

SDK = logging.getLogger("opentelemetry.sdk.trace")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log that the messages go to, until the end of the test."""
    stream = io.StringIO()
    messages = _Messages(Log("info", "json", stream))
    yield stream
    messages.close()
    SDK.warning("too late")
    assert "too late" not in stream.getvalue()


def reasons(log: io.StringIO) -> list[str]:
    """Return the reason of each line."""
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {line["event"] for line in lines} == {"tracing_trouble"}
    return [line["reason"] for line in lines]


def test_the_arguments_of_a_message_are_not_logged(
    log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the template and exception types are logged, as an argument may be a header's value."""
    SDK.warning("Header format invalid: %s", "authorization=hunter2")
    SDK.warning("%s", ValueError("hunter2"))
    SDK.info("not worth a line")
    SDK.warning("Header format invalid: %s", "again")
    SDK.error("it failed: %s", 401, exc_info=OSError("hunter2"))
    assert reasons(log) == [
        "Header format invalid: %s",
        "%s ValueError",
        "it failed: %s 401 OSError",
    ]
    assert capfd.readouterr().err == ""


def test_lines_are_bounded(log: io.StringIO) -> None:
    """The number and the length of the lines are bounded for any messages of the SDK."""
    for number in range(MESSAGES_MAX * 2):
        SDK.warning("x" * number * 100)
    assert len(reasons(log)) <= MESSAGES_MAX
    assert max(map(len, reasons(log))) <= MESSAGE_MAX_CHARS


async def test_the_environment_describes_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy adds only the resource attributes that the environment does not set."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=mine,team=a")
    tracing = Tracing(Log("info", "json", io.StringIO()))
    got = tracing._provider.resource.attributes
    assert got["service.name"] == "reasoning-replay"
    assert (got["service.version"], got["team"]) == ("mine", "a")
    assert str(got["service.instance.id"]).endswith(f"/{os.getpid()}")
    await tracing.close(1)
