"""Work that takes long, done beside the event loop, so that no other exchange is held up by it."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Offloader", "is_long"]

# What takes the loop some milliseconds is done on it: to hand it over costs a tenth of one. That
# goes by bytes, and by values, of which each costs a microsecond or two; commas are nearly as many.
ON_LOOP_BYTES = 384 * 1024
ON_LOOP_VALUES = 8192
# More would not be faster: they take turns, as Python runs one thread at a time. With two, what
# takes long does not hold up what takes less.
AT_ONCE = 2
# How long the loop waits for its turn while other work is done, instead of the usual 5 ms.
SWITCH_S = 0.0005

_Got = TypeVar("_Got")


def is_long(document: bytes) -> bool:
    """Tell whether a JSON document is to be worked on beside the loop."""
    size = len(document)
    return size > ON_LOOP_BYTES or (
        size > 2 * ON_LOOP_VALUES and document.count(b",") > ON_LOOP_VALUES
    )


class Offloader:
    """Runs what is pure, a little of it at once."""

    def __init__(self) -> None:
        """Have this process's threads take turns more often, from now on."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self, work: Callable[[], _Got], *, is_long: bool) -> _Got:
        """
        Return what some work gives, or raise what it raises.

        Args:
            work: Touches nothing that others change. It goes on to its end where nobody waits for
                it any more, and counts as under way until then.
            is_long: If it is not, it is done at once.
        """
        if not is_long:
            return work()
        await self._turns.acquire()
        under_way = asyncio.get_running_loop().run_in_executor(None, work)
        under_way.add_done_callback(self._done)
        return await asyncio.shield(under_way)

    def _done(self, under_way: asyncio.Future[_Got]) -> None:
        self._turns.release()
        if not under_way.cancelled():
            under_way.exception()  # which nobody may be there to hear of
