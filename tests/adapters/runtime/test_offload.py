"""The thread offload: long work runs in a few threads, short work on the event loop."""

import asyncio
import gc
import sys
import threading
import weakref
from functools import partial

import pytest
from reasoning_replay.adapters.runtime.offload import (
    AT_ONCE,
    DOCUMENT_BYTES,
    ON_LOOP_BYTES,
    ON_LOOP_VALUES,
    SWITCH_S,
    Busy,
    Offloader,
    is_long,
    shorten_switch_interval,
)

from tests.adapters.runtime.test_fair_semaphore import settled
from tests.patience import SOON_S

A, B = b"a", b"b"

LENGTHS = [
    pytest.param(b"{}", False, id="short"),
    pytest.param(b"x" * ON_LOOP_BYTES, False, id="long-text"),
    pytest.param(b"x" * (ON_LOOP_BYTES + 1), True, id="longer-text"),
    pytest.param(b"1," * ON_LOOP_VALUES, False, id="many-values"),
    pytest.param(b"1," * (ON_LOOP_VALUES + 1), True, id="more-values"),
    pytest.param(b" " + b"1," * ON_LOOP_VALUES, False, id="many-values-and-a-space"),
]


@pytest.mark.parametrize(("document", "long"), LENGTHS)
def test_bytes_and_values_make_a_document_long(document: bytes, *, long: bool) -> None:
    """A short document with many values takes as long as a much larger text."""
    assert is_long(document) is long


async def test_short_work_runs_on_the_event_loop() -> None:
    """Short work runs in the caller's thread, and its exception is raised."""
    offloader = Offloader()

    assert await offloader.run(threading.get_ident, A, is_long=False) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await offloader.run(lambda: 1 // 0, A, is_long=False)


async def test_long_work_runs_in_a_thread() -> None:
    """The event loop runs while the work waits for it, and an exception of the work is raised."""
    offloader, goes_on = Offloader(), threading.Event()
    asyncio.get_running_loop().call_soon(goes_on.set)

    assert await offloader.run(lambda: goes_on.wait(SOON_S), A, is_long=True)
    assert await offloader.run(threading.get_ident, A, is_long=True) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await offloader.run(lambda: 1 // 0, A, is_long=True)


async def test_the_switch_interval_is_shortened_on_request() -> None:
    """A shorter interval is kept, and an offloader alone changes nothing."""
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.005)
        Offloader()
        assert sys.getswitchinterval() == pytest.approx(0.005)
        shorten_switch_interval()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        sys.setswitchinterval(SWITCH_S / 2)
        shorten_switch_interval()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S / 2)
    finally:
        sys.setswitchinterval(before)


async def test_cancelled_work_still_occupies_its_thread() -> None:
    """Work whose caller is cancelled runs to its end, and counts against the limit until then."""
    offloader, ends = Offloader(), threading.Event()
    under_way = [
        asyncio.ensure_future(offloader.run(lambda: ends.wait(SOON_S), A, is_long=True))
        for _ in range(AT_ONCE)
    ]
    await asyncio.sleep(0)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    began = threading.Event()
    next_one = asyncio.ensure_future(offloader.run(began.set, A, is_long=True))
    await settled()
    assert not began.is_set()
    ends.set()
    await asyncio.wait_for(next_one, SOON_S)
    assert began.is_set()


async def test_an_error_of_cancelled_work_is_not_reported() -> None:
    """The event loop does not report an exception of work whose caller is cancelled."""
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    offloader, ends = Offloader(), threading.Event()

    def fails() -> None:
        ends.wait(SOON_S)
        raise ZeroDivisionError

    task = asyncio.ensure_future(offloader.run(fails, A, is_long=True))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ends.set()
    for _ in range(AT_ONCE):
        await offloader.run(int, A, is_long=True)
    await asyncio.sleep(0)
    assert heard == []


async def test_the_work_of_another_tenant_is_next() -> None:
    """However much work of one tenant is queued, that of another one is next."""
    offloader, began = Offloader(), asyncio.Queue[str]()
    loop = asyncio.get_running_loop()
    ends = {f"a{n}": threading.Event() for n in range(4)} | {"b": threading.Event()}

    def work(name: str) -> bool:
        loop.call_soon_threadsafe(began.put_nowait, name)
        return ends[name].wait(SOON_S)

    running = []
    for name in ends:
        tenant = name[:1].encode()
        running.append(asyncio.ensure_future(offloader.run(partial(work, name), tenant)))
        await settled()
    assert {await began.get(), await began.get()} == {"a0", "a1"}
    ends["a1"].set()
    assert await began.get() == "b"
    for event in ends.values():
        event.set()
    assert all(await asyncio.gather(*running))


async def test_work_that_waits_too_long_is_not_begun() -> None:
    """A bounded wait ends with Busy; later work finds the threads free again."""
    offloader, ends = Offloader(wait_s=0.01), threading.Event()
    running = [
        asyncio.ensure_future(offloader.run(lambda: ends.wait(SOON_S), A)) for _ in range(AT_ONCE)
    ]
    await settled()
    began = threading.Event()
    with pytest.raises(Busy):
        await offloader.run(began.set, B)
    ends.set()
    assert all(await asyncio.gather(*running))
    assert not began.is_set()
    assert await offloader.run(lambda: 1, B) == 1


async def test_documents_are_bounded_by_their_bytes() -> None:
    """Small documents are processed together, and one that exceeds the bound alone."""
    offloader = Offloader(wait_s=0.01)
    async with offloader.document(A, DOCUMENT_BYTES // 2):
        async with offloader.document(A, DOCUMENT_BYTES // 2):
            with pytest.raises(Busy):
                async with offloader.document(B, 1):
                    pytest.fail("there is no room")
        with pytest.raises(Busy):
            async with offloader.document(B, 3 * DOCUMENT_BYTES):
                pytest.fail("it must be alone")
    async with offloader.document(None, 3 * DOCUMENT_BYTES):
        pass


class Bulk(set[int]):
    """Data that can be watched."""


async def test_an_exception_frees_what_the_work_held() -> None:
    """Reference counting alone frees it, even while the caller keeps the exception."""
    offloader = Offloader()
    held: list[weakref.ref[Bulk]] = []

    def inner(given: Bulk) -> None:
        made = Bulk({1, 2, 3, 4})
        held.extend([weakref.ref(given), weakref.ref(made)])
        try:
            {}.popitem()
        except KeyError:
            raise ValueError(len(made)) from None

    async def outer() -> ValueError:
        with pytest.raises(ValueError, match="4") as caught:
            await offloader.run(partial(inner, Bulk()), A)
        return caught.value

    gc.disable()
    try:
        kept = await outer()
        await offloader.run(int, A)  # the thread has let go of the work
        assert [one() for one in held] == [None, None]
        assert str(kept) == "4"
    finally:
        gc.enable()
