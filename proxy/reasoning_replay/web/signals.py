"""What every process of a proxy has: an event loop, and a way to be told to stop."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["INTERRUPTED", "STOPPING", "StopSignals", "on_loop"]

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
# What a shell says of a program that a signal ended: so much, and the signal's number.
SIGNALLED: Final = 128
INTERRUPTED: Final = SIGNALLED + signal.SIGINT


def on_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run a process's main function on the loop that it shall have; return its exit code."""
    try:
        import uvloop  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


class StopSignals:
    """Waits for the first signal to stop; the second one ends the process."""

    def __init__(self) -> None:
        """Watch from here on; needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[int] = self._loop.create_future()
        for number in STOPPING:
            self._loop.add_signal_handler(number, self._note, number)

    async def grace_s(self, most_s: float) -> float:
        """Return how long new requests shall still be taken, once told to stop; Ctrl-C: not."""
        return most_s if await self._first == signal.SIGTERM else 0.0

    def then_end(self, clear_up: Callable[[], None]) -> None:
        """End the process at the next signal, whatever it is about; not without clearing up."""

        def end(number: int, *_: object) -> None:
            # By ourselves: what the system does by default, it does not do to the first process
            # of a container.
            try:
                clear_up()
            finally:
                os._exit(SIGNALLED + number)

        for number in STOPPING:
            self._loop.add_signal_handler(number, end, number)
            signal.signal(number, end)  # also when the loop does not turn

    def _note(self, number: int) -> None:
        if not self._first.done():
            self._first.set_result(number)
