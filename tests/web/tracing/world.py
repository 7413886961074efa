"""A proxy that traces, in front of a scripted upstream."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.web.wire import ASK, CALL, MESSAGE, RS, response, whole
from tests.web.wire import as_json as spelled
from tests.web.world import World, world

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
KEY = "Authorization: Bearer sk-a"
GIVEN = (KEY, "Content-Type: application/json")
ANSWER = whole(spelled(response(RS, CALL)))
USED = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
}
LAST = spelled(response(MESSAGE, rid="resp_2", usage=USED))
DONE = whole(LAST)


@contextlib.asynccontextmanager
async def traced(**settings: Any) -> AsyncIterator[World]:
    """Run a proxy that traces, in front of a scripted upstream."""
    async with world(tracing="otlp", **settings) as w:
        yield w


def logged(out: str, event: str) -> list[dict[str, Any]]:
    """Return the log lines of one event."""
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if line["event"] == event]


async def answers(w: World) -> None:
    """Assert that an exchange succeeds."""
    w.upstream.answers(DONE)
    assert (await w.turn(ASK)).head.status == 200
