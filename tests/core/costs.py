"""Laws of cost: CPU time of a function, relative to that of a smaller input; never in seconds."""

import gc
import sys
import time
from collections.abc import Callable
from typing import TypeVar

# Most CPU of twice the input, relative to the CPU of the input. A cost that is quadratic has 4; a
# linear one has up to 2.7 if neighbours on the machine take the caches.
GROWTH_MAX = 3.0
# A run is repeated until it takes this long, because the clock is coarse and the machine is noisy.
LEAST_S = 0.004
CLOCK_S = 0.0001
ROUNDS = 3
ATTEMPTS = 4

_Input = TypeVar("_Input")


def assert_linear(
    make: Callable[[int], _Input], run: Callable[[_Input], object], size: int
) -> None:
    """
    Fail if twice the input costs more than GROWTH_MAX times the CPU.

    Args:
        make: Returns a new input of a size; its cost does not count.
        run: The function under test. It is called several times with the same input.
        size: Size of the smaller input, large enough that fixed costs do not matter.
    """
    # A busy machine may disturb one attempt; a cost that grows faster exceeds the limit in all.
    ratios = []
    for _ in range(ATTEMPTS):
        ratios.append(growth(make, run, size))
        if ratios[-1] <= GROWTH_MAX:
            return
    raise AssertionError(f"twice the input costs {min(ratios):.1f} times the CPU: {ratios}")


# Most CPU of a call at eight times the state, relative to the CPU at the state.
CONSTANT_MAX = 3.0
TIMES = 8


def assert_constant(
    make: Callable[[int], Callable[[], object]], size: int, *, once: bool = False
) -> None:
    """
    Fail if a call costs more than CONSTANT_MAX times the CPU when there is TIMES as much state.

    Args:
        make: Returns a call about state of a size; its cost does not count.
        size: Size of the smaller state.
        once: Whether a call changes what the next one costs; then each is made once.
    """
    ratios = []
    for _ in range(ATTEMPTS):
        if once:
            pairs = [(_once_s(make(size)), _once_s(make(TIMES * size))) for _ in range(ROUNDS)]
            ratios.append(min(b for _, b in pairs) / max(min(a for a, _ in pairs), CLOCK_S))
        else:
            ratios.append(relative(_call, make(size), make(TIMES * size)))
        if ratios[-1] <= CONSTANT_MAX:
            return
    raise AssertionError(f"{TIMES} times the state costs {min(ratios):.1f} times the CPU: {ratios}")


def _call(run: Callable[[], object]) -> None:
    run()


def _once_s(run: Callable[[], object]) -> float:
    gc.disable()
    try:
        began_s = time.thread_time()
        run()
        return time.thread_time() - began_s
    finally:
        gc.enable()


def growth(make: Callable[[int], _Input], run: Callable[[_Input], object], size: int) -> float:
    """Return the CPU of twice the input, relative to that of the input."""
    return relative(run, make(size), make(2 * size))


def relative(run: Callable[[_Input], object], small: _Input, large: _Input) -> float:
    """Return the CPU of one input, relative to that of another."""
    tracer = sys.gettrace()  # of coverage: it would multiply the time of Python code only
    sys.settrace(None)
    gc.disable()
    try:
        run(small)
        calls = _calls(run, small)
        # In turn, so that a change of the machine's speed affects both.
        times = [(_cpu_s(run, small, calls), _cpu_s(run, large, calls)) for _ in range(ROUNDS)]
        return min(of_large for _, of_large in times) / min(of_small for of_small, _ in times)
    finally:
        gc.enable()
        sys.settrace(tracer)


def _calls(run: Callable[[_Input], object], given: _Input) -> int:
    """Return the number of calls that together take LEAST_S."""
    calls = 1
    while _cpu_s(run, given, calls) < LEAST_S:
        calls *= 2
    return calls


def _cpu_s(run: Callable[[_Input], object], given: _Input, calls: int) -> float:
    began_s = time.thread_time()
    for _ in range(calls):
        run(given)
    return time.thread_time() - began_s
