"""The thread offload: long work runs in a few threads, short work on the event loop."""

import asyncio
import sys
import threading

import pytest
from reasoning_replay.adapters.runtime.offload import (
    AT_ONCE,
    ON_LOOP_BYTES,
    ON_LOOP_VALUES,
    SWITCH_S,
    Offloader,
    is_long,
    shorten_switch_interval,
)

SOON_S = 10.0

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

    assert await offloader.run(threading.get_ident, is_long=False) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await offloader.run(lambda: 1 // 0, is_long=False)


async def test_long_work_runs_in_a_thread() -> None:
    """The event loop runs while the work waits for it, and an exception of the work is raised."""
    offloader, goes_on = Offloader(), threading.Event()
    asyncio.get_running_loop().call_soon(goes_on.set)

    assert await offloader.run(lambda: goes_on.wait(SOON_S), is_long=True)
    assert await offloader.run(threading.get_ident, is_long=True) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await offloader.run(lambda: 1 // 0, is_long=True)


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
        asyncio.ensure_future(offloader.run(lambda: ends.wait(SOON_S), is_long=True))
        for _ in range(AT_ONCE)
    ]
    await asyncio.sleep(0)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    began = threading.Event()
    next_one = asyncio.ensure_future(offloader.run(began.set, is_long=True))
    for _ in range(20):
        await asyncio.sleep(0)
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

    task = asyncio.ensure_future(offloader.run(fails, is_long=True))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ends.set()
    for _ in range(AT_ONCE):
        await offloader.run(int, is_long=True)
    await asyncio.sleep(0)
    assert heard == []
