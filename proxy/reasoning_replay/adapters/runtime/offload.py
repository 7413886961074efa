"""Thread offload: runs long pure functions in a thread, so that the event loop is not blocked."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from reasoning_replay.adapters.runtime.fair_semaphore import FairSemaphore
from reasoning_replay.adapters.runtime.frames import clear_frames

# Work of a few milliseconds stays on the event loop, because a handover costs about 0.1 ms. The
# estimate counts bytes and JSON values. A value costs 1 to 2 microseconds, and there are about as
# many commas as values.
ON_LOOP_BYTES = 384 * 1024
ON_LOOP_VALUES = 8192
# More threads would not be faster, because Python runs one at a time. With two, a long task does
# not block a shorter one.
AT_ONCE = 2
# Longest wait for a thread. It is long because the wait always ends: the threads work, and a tenant
# waits only for its share.
WAIT_S = 30.0
# Most bytes of documents that are processed at once.
DOCUMENT_BYTES = 16 << 20
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


class Busy(Exception):
    """Long work was not begun, because the threads were busy for too long."""


class Offloader:
    """
    Pool of two threads for all long work of one process, shared fairly by its tenants.

    A document that takes several steps is processed under `document`. Parsed, it takes up to eight
    times its size, so this bounds the memory of processing.
    """

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._threads = FairSemaphore(AT_ONCE)
        self._documents = FairSemaphore(DOCUMENT_BYTES)
        self._executor = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="work")

    async def run(
        self, work: Callable[[], _Result], tenant: bytes | None, *, is_long: bool = True
    ) -> _Result:
        """
        Return the result of a pure function; run it on the event loop unless it `is_long`.

        If the caller is cancelled, it still runs to its end and occupies its thread until then.
        An exception of the function arrives without what its frames held.

        Raises:
            Busy: No thread was free in time.
        """
        if not is_long:
            return work()
        tenant = tenant or b""
        if not await self._threads.acquire(tenant, 1, self._wait_s):
            raise Busy
        try:
            running = asyncio.get_running_loop().run_in_executor(
                self._executor, partial(_run, work)
            )
        except BaseException:  # the process ends
            self._threads.release(tenant, 1)
            raise
        running.add_done_callback(partial(self._done, tenant))
        try:
            return await asyncio.shield(running)
        finally:
            # The future keeps the exception, which holds this frame and those of the callers.
            del running, work

    @contextlib.asynccontextmanager
    async def document(self, tenant: bytes | None, size: int) -> AsyncGenerator[None]:
        """
        Process a document of `size` bytes; 16 MiB at once, or one document that is larger.

        Raises:
            Busy: Other documents were processed for too long.
        """
        tenant, size = tenant or b"", min(size, DOCUMENT_BYTES)
        if not await self._documents.acquire(tenant, size, self._wait_s):
            raise Busy
        try:
            yield
        finally:
            self._documents.release(tenant, size)

    def _done(self, tenant: bytes, running: asyncio.Future[_Result]) -> None:
        self._threads.release(tenant, 1)
        if not running.cancelled():
            running.exception()  # marks it as retrieved: the caller may have been cancelled


def _run(work: Callable[[], _Result]) -> _Result:
    """Run a function in a thread; free what its frames hold before an exception is passed on."""
    try:
        return work()
    except BaseException as error:
        clear_frames(error)
        raise
    finally:
        del work
