"""
Background loop: a step that is repeated as long as the process runs, and survives its failures.

Every task that has to live as long as the process is started here. All other tasks are about one
exchange, one connection or one operation, and the next of these starts a new one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.telemetry.log import Log

# Pause after a failure, so that a step that fails at once does not take all of the CPU.
PAUSE_S = 1.0


def keep_doing(name: str, step: Callable[[], Awaitable[None]], log: Log) -> asyncio.Task[None]:
    """
    Repeat a step, which waits by itself, until the returned task is cancelled.

    A step that raises is logged as `background_failed`, with this name, and repeated.
    """

    def tell(task: str, error: Exception) -> None:
        # Not its text, which may quote a setting.
        log.warning("background_failed", task=task, reason=type(error).__name__)

    async def run() -> None:
        running = FailOpen(name, tell)
        while True:
            with running:
                await step()
            if running.has_failed:
                await asyncio.sleep(PAUSE_S)

    return asyncio.create_task(run(), name=name)
