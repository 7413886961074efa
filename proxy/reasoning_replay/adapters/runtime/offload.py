"""Thread offload: runs long pure functions in a thread, so that the event loop is not blocked."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Offloader", "is_long", "shorten_switch_interval"]

# Work of a few milliseconds stays on the event loop, because a handover costs about 0.1 ms. The
# estimate counts bytes and JSON values. A value costs 1 to 2 microseconds, and there are about as
# many commas as values.
ON_LOOP_BYTES = 384 * 1024
ON_LOOP_VALUES = 8192
# More threads would not be faster, because Python runs one at a time. With two, a long task does
# not block a shorter one.
AT_ONCE = 2
# Wait of the event loop for the interpreter lock while a thread works; Python's default is 5 ms.
SWITCH_S = 0.0005

_Result = TypeVar("_Result")


def is_long(document: bytes) -> bool:
    """Return whether a JSON document is long enough to be processed in a thread."""
    size = len(document)
    return size > ON_LOOP_BYTES or (
        size > 2 * ON_LOOP_VALUES and document.count(b",") > ON_LOOP_VALUES
    )


def shorten_switch_interval() -> None:
    """Reduce Python's thread switch interval to SWITCH_S; called once, at the process start."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))


class Offloader:
    """Runner of pure functions, in at most two threads at once."""

    def __init__(self) -> None:
        """Start with no thread in use."""
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self, work: Callable[[], _Result], *, is_long: bool = True) -> _Result:
        """
        Return the result of a function, or raise its error.

        Args:
            work: Pure function. If the caller is cancelled, it still runs to its end and occupies
                its thread until then.
            is_long: False: run it on the event loop.
        """
        if not is_long:
            return work()
        await self._turns.acquire()
        running = asyncio.get_running_loop().run_in_executor(None, work)
        running.add_done_callback(self._done)
        return await asyncio.shield(running)

    def _done(self, running: asyncio.Future[_Result]) -> None:
        self._turns.release()
        if not running.cancelled():
            running.exception()  # marks it as retrieved: the caller may have been cancelled
