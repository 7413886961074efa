"""Thread offload: long, pure work runs in a thread, so that the event loop serves the others."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Offloader", "is_long", "shorten_switch_interval"]

# Work of a few milliseconds stays on the loop: to hand it over costs a tenth of one. The estimate
# goes by bytes and by values, of which each costs a microsecond or two; commas are nearly as many.
ON_LOOP_BYTES = 384 * 1024
ON_LOOP_VALUES = 8192
# More threads would not be faster, as Python runs one at a time. With two, long work does not hold
# up work that is less long.
AT_ONCE = 2
# How long the loop waits for the interpreter while a thread works, in place of the usual 5 ms.
SWITCH_S = 0.0005

_Result = TypeVar("_Result")


def is_long(document: bytes) -> bool:
    """Tell whether a JSON document is to be worked on in a thread."""
    size = len(document)
    return size > ON_LOOP_BYTES or (
        size > 2 * ON_LOOP_VALUES and document.count(b",") > ON_LOOP_VALUES
    )


def shorten_switch_interval() -> None:
    """Let the threads of this process take turns more often; called once, when it starts."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))


class Offloader:
    """Runner of pure functions, in at most two threads at once."""

    def __init__(self) -> None:
        """Begin with no thread in use."""
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self, work: Callable[[], _Result], *, is_long: bool = True) -> _Result:
        """
        Return the result of a function, or raise its error.

        Args:
            work: Changes nothing that others use. If the caller is cancelled, it still runs to its
                end, and occupies its thread until then.
            is_long: False runs it here and now.
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
            running.exception()  # retrieved here, as the caller may have been cancelled
