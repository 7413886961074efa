"""Planted faults: a target finds the fault made for it, so it is not blind."""

import re
from typing import Any

import msgspec
import pytest
from reasoning_replay.core.dialects import error_texts
from reasoning_replay.core.wire import sse

from tests.fuzz.growth import SUPERLINEAR, Pump, growth
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS

INPUTS = 1000

# (the target that must find it, the object, the replaced attribute, the replacement)
FAULTS: list[Any] = [
    pytest.param("sse", sse, "_END", re.compile(rb"\n\n|\r\n\r\n|\r\r"), id="no-mixed-line-ends"),
    pytest.param("refusal", error_texts, "value_of", msgspec.json.decode, id="refusal-raises"),
]


@pytest.mark.parametrize(("name", "where", "what", "fault"), FAULTS)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, where: object, what: str, fault: object
) -> None:
    """The target finds the fault within a thousand inputs; without the fault the input passes."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    found: bytes | None = None
    with monkeypatch.context() as planted:
        planted.setattr(where, what, fault)
        for n in range(INPUTS):
            data = mutated(seeds[n % len(seeds)], n, 1 << 16)
            try:
                target.check(data)
            except Exception:  # noqa: BLE001 (a fault may raise any error)
                found = data
                break
    assert found is not None
    target.check(found)


@pytest.mark.parametrize(("power", "is_found"), [(1.0, False), (1.2, False), (2.0, True)])
def test_growth_separates_linear_from_quadratic_cost(power: float, is_found: bool) -> None:
    """Linear cost passes, also n to the 1.2 as with overflowing caches; n squared does not."""
    cost = [0.0]

    def work(data: bytes) -> None:
        cost[0] += (len(data) / 1000) ** power

    found = growth(work, Pump(b"[", b"1,", after=b"1]"), clock=lambda: cost[0])
    assert (found >= SUPERLINEAR) is is_found
