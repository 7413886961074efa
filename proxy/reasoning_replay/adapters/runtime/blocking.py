"""
Blocking calls that may hang, such as a look-up of a name: each in a daemon thread of its own.

A shared pool of threads is no place for them. uvloop resolves names in four threads, of which two
at most at once: two that hang hold up every other name of the process. The guard of an operation
ends the wait, but not the thread. So equal calls share one thread, the number of threads is
bounded, and a process that ends does not wait for them.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

# Most threads. Further calls wait for one; only calls that hang keep it for long.
AT_ONCE = 8


class RunningCall(NamedTuple, Generic[T]):
    """A call that runs, or waits for a thread: its result, and when it began by the loop's time."""

    task: "asyncio.Task[T]"
    began_s: float


class BlockingCalls:
    """Runner of blocking calls, for one event loop; a call that runs is not begun again."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, RunningCall[Any]] = {}
        self._threads = asyncio.Semaphore(AT_ONCE)

    def begin(self, name: Hashable, call: Callable[[], T]) -> RunningCall[T]:
        """Return the running call of this name, or begin it; a caller must not cancel its task."""
        begun = self._begun.get(name)
        if begun is None:
            loop = asyncio.get_running_loop()
            begun = RunningCall(loop.create_task(self._in_thread(call)), loop.time())
            self._begun[name] = begun
            begun.task.add_done_callback(lambda task: self._end(name, task))
        return begun

    async def run(self, name: Hashable, call: Callable[[], T]) -> T:
        """Return the result of the running call of this name, or of a new one."""
        return await asyncio.shield(self.begin(name, call).task)

    def _end(self, name: Hashable, task: "asyncio.Task[Any]") -> None:
        del self._begun[name]
        if not task.cancelled():
            task.exception()  # perhaps no caller waits for it any more

    async def _in_thread(self, call: Callable[[], T]) -> T:
        async with self._threads:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[T] = loop.create_future()

            def settle(act: Callable[[], None]) -> None:
                if not ended.done():
                    act()

            def work() -> None:
                try:
                    got = call()
                except Exception as error:  # noqa: BLE001 - the caller gets it
                    failed = error
                    tell = lambda: ended.set_exception(failed)  # noqa: E731
                else:
                    tell = lambda: ended.set_result(got)  # noqa: E731
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(settle, tell)

            threading.Thread(target=work, name="blocking-call", daemon=True).start()
            return await ended
