"""Short run of `make fuzz` within the tests: all targets, some inputs each."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.drivers import inputs
from tests.fuzz.targets import TARGETS

EXAMPLES = 40
SEEDS = 8


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_passes(name: str) -> None:
    """Every target passes for its seeds, unchanged and mutated."""
    target = TARGETS[name]
    every = list(target.seeds())
    seeds = every[:: max(1, len(every) // SEEDS)]
    for data in seeds:
        target.check(data)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(inputs(seeds))
    def check(data: bytes) -> None:
        target.check(data)

    check()


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=10, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_an_input(name: str, data: bytes) -> None:
    """Any bytes are a valid input: neither the check nor the work raises an error."""
    target = TARGETS[name]
    target.check(data)
    target.work(data)
