"""Tasks in the background: one that lives as long as the process survives its failures."""

import ast
import asyncio
import io
import json
from pathlib import Path

import pytest
import reasoning_replay
from reasoning_replay.adapters.runtime import background
from reasoning_replay.adapters.runtime.background import keep_doing
from reasoning_replay.adapters.telemetry.log import Log

from tests.web.world import eventually

PACKAGE = Path(reasoning_replay.__file__).parent
# The functions that start tasks, and why no failure ends anything for longer than a moment.
STARTED = {
    "adapters/runtime/background.py:keep_doing": "each step is repeated, and its failure logged",
    "adapters/runtime/blocking.py:begin": "one call; all that wait for it get its failure",
    "adapters/resilience/reader.py:_begin": "one look-up; the guard catches all it raises",
    "adapters/resilience/writer.py:_begin": "one save; the guard catches all it raises",
    "adapters/stores/redis/cluster.py:_known": "refreshes; what waits gets each failure",
    "adapters/stores/redis/cluster.py:_look": "awaited there",
    "adapters/stores/redis/connect.py:_master_of": "awaited there",
    "adapters/stores/redis/renewals.py:begin_if_due": "one renewal; the next lookup starts another",
    "adapters/upstream/request_writer.py:begin": "one request, which gets every failure",
    "web/admin/app.py:within": "one call, shared by its requests; the next one starts another",
    "web/admin/inspector/events.py:_welcome": "a step that suppresses every failure",
    "web/websocket/arriving.py:_pass": "one message; the end of its connection cancels it",
    "web/websocket/handler.py:_relay": "one exchange, and awaited there",
    "web/websocket/relay.py:run": "one exchange, and awaited there",
    # Commands, which end with their work.
    "demo/playground.py:playground": "",
    "demo/traffic.py:keep_talking": "",
    "verify/command.py:_ended": "",
    "verify/plugin.py:strict_api": "",
}
STARTS = {"create_task", "ensure_future", "run_coroutine_threadsafe"}


def starters(path: Path) -> set[str]:
    """Return the functions of a file that start a task."""
    found: set[str] = set()

    def walk(node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not function:
            function = node.name
        if isinstance(node, ast.Attribute) and node.attr in STARTS:
            found.add(f"{path.relative_to(PACKAGE).as_posix()}:{function}")
        for inner in ast.iter_child_nodes(node):
            walk(inner, function)

    walk(ast.parse(path.read_text()), "")
    return found


def test_every_task_survives_or_has_a_successor() -> None:
    """A new one belongs into the table, with what its failure ends."""
    assert set().union(*map(starters, PACKAGE.rglob("*.py"))) == STARTED.keys()


async def test_a_loop_survives_its_failures_and_logs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the class of the failure, and not its text, which may quote a secret."""
    monkeypatch.setattr(background, "PAUSE_S", 0.0)
    out, steps = io.StringIO(), 0

    async def step() -> None:
        nonlocal steps
        steps += 1
        await asyncio.sleep(0)
        if steps % 2:
            raise RecursionError("the secret")

    task = keep_doing("counting", step, Log("info", "json", out))
    await eventually(lambda: steps >= 4)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    line = json.loads(out.getvalue().splitlines()[0])
    del line["time"]
    assert line == {
        "level": "warning",
        "event": "background_failed",
        "task": "counting",
        "reason": "RecursionError",
    }


async def test_a_loop_that_fails_at_once_pauses() -> None:
    """It must not take the CPU of the requests."""
    out = io.StringIO()

    async def step() -> None:
        raise OSError

    task = keep_doing("failing", step, Log("info", "json", out))
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    assert out.getvalue().count("\n") == 1
