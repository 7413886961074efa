"""Offloaded work: long inputs are parsed and matched in a thread, with the same result."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from reasoning_replay.adapters.runtime.offload import ON_LOOP_BYTES
from reasoning_replay.core.dialects import base, request_body
from reasoning_replay.core.dialects.responses import dialect

from tests.patience import SOON_S
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import World, world

LONG = {"role": "user", "content": "long " * (ON_LOOP_BYTES // 4)}


async def taught(w: World, **more: object) -> None:
    """Let the proxy capture the response to a long request."""
    w.upstream.answers(whole(as_json(response(RS, CALL) | more)))
    w.upstream.otherwise = whole(b"{}")
    await w.turn(ASK, LONG)


async def test_a_long_request_that_cannot_be_read_goes_out_as_it_came() -> None:
    """An error in the worker thread is handled, and the request is forwarded unchanged."""
    body = b'{"input":"' + b"x" * ON_LOOP_BYTES + b'","input":1}'
    async with world() as w:
        w.upstream.otherwise = whole(b"{}")
        await w.post(body)
        assert w.upstream.received[0].body == body
        assert w.counted("requests_total", result="unreadable") == 1


def waiting(act: Callable[..., Any], goes_on: threading.Event) -> Callable[..., Any]:
    """Return a function that waits until the loop runs on; on the loop itself it would fail."""

    def late(*args: Any, **named: Any) -> Any:
        assert goes_on.wait(SOON_S), "the loop is blocked"
        return act(*args, **named)

    return late


@pytest.mark.parametrize(
    ("where", "name"),
    [(request_body, "read_values"), (base, "match_items"), (dialect, "plan_injection")],
)
async def test_the_loop_goes_on_while_a_long_request_is_worked_on(
    where: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop is not blocked while a long request is processed."""
    goes_on = threading.Event()
    async with world() as w:
        await taught(w)
        monkeypatch.setattr(where, name, waiting(getattr(where, name), goes_on))
        asyncio.get_running_loop().call_later(0.05, goes_on.set)
        await w.turn(ASK, LONG, CALL, RESULT, temperature=1)  # another form
        assert w.sent()["input"] == [ASK, LONG, RS, CALL, RESULT]
