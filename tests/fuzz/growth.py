"""
Growth of the cost of a parser with its input.

`pumped` repeats a part of an input; `growth` measures. Four times the input may cost four times as
much, not sixteen times.
"""

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.fuzz.inputs import HEAD_BYTES

__all__ = ["SIZES", "SUPERLINEAR", "Pump", "growth", "pumped"]

# Bytes of an input, each four times the one before.
SIZES = (32 * 1024, 128 * 1024, 512 * 1024)
# Shortest measurement that counts, in seconds.
_NOTICEABLE_S = 0.02
# Sixteen is quadratic, four is linear; memory beyond the CPU caches costs more than that.
SUPERLINEAR = 9.0


class Pump(NamedTuple):
    """
    A scheme to make an input longer: `before`, `middle` many times, `after`.

    Attributes:
        closing: Repeated as often, after `inner`: closing brackets, for example.
    """

    before: bytes
    middle: bytes
    inner: bytes = b""
    closing: bytes = b""
    after: bytes = b""

    def of(self, size: int) -> bytes:
        """Return an input of about this size in bytes."""
        unit = max(1, len(self.middle) + len(self.closing))
        times = max(1, (size - len(self.before) - len(self.inner) - len(self.after)) // unit)
        opened, closed = self.middle * times, self.closing * times
        return self.before + opened + self.inner + closed + self.after


def pumped(data: bytes, dice: random.Random) -> Pump:
    """Choose the part of an input to repeat: an item, a member, an event, or any bytes."""
    tokens = [n for n, byte in enumerate(data) if n >= HEAD_BYTES and byte in b'{}[],:"\n\r\\\x1e']
    if len(tokens) > 1 and dice.random() < 0.8:
        a, b = sorted((dice.choice(tokens), dice.choice(tokens)))
        a = a + dice.choice((0, 1))
        b = max(a, b + dice.choice((0, 1)))
    else:
        a = dice.randint(min(HEAD_BYTES, len(data)), len(data))
        b = a + dice.choice((1, 2, 8, 64))
    middle = data[a:b] or dice.choice((b"[", b'{"a":', b"\\", b'"', b"\n", b"\r", b","))
    closing = {b"[": b"]", b'{"a":': b"}"}.get(middle, b"")
    return Pump(data[:a], middle, b"1" if closing else b"", closing, data[b:])


def growth(
    work: Callable[[bytes], None], pump: Pump, clock: Callable[[], float] = time.process_time
) -> float:
    """
    Return how much the cost grows with four times the input: about 4 if it is linear.

    Returns 0.0 if the cost is too small to measure. A suspicious cost is measured again, with a
    larger input too.
    """
    small, large = (_cost(work, pump.of(size), 1, clock) for size in SIZES[:2])
    if large < _NOTICEABLE_S or large < SUPERLINEAR * small:
        return 0.0 if large < _NOTICEABLE_S else large / small
    costs = [_cost(work, pump.of(size), 3, clock) for size in SIZES]
    return min(costs[1] / costs[0], costs[2] / costs[1])


def _cost(
    work: Callable[[bytes], None], data: bytes, times: int, clock: Callable[[], float]
) -> float:
    """Return the CPU seconds of the quickest run."""
    costs: list[float] = []
    for _ in range(times):
        began = clock()
        work(data)
        costs.append(max(clock() - began, 1e-6))
    return min(costs)
