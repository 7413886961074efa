"""Coverage of the core: by examples alone, so that it does not depend on chance, and is fast."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

# Many conversations at once: their rules have examples elsewhere.
UNMEASURED = {Path(__file__).parent / name for name in ("worlds", "test_behaviours.py")}
# Words in the names of tests that measure cost.
OF_COST = ("linear", "swells")


# pytest-cov has a mark for this, but in a worker of pytest-xdist a second tracer stays on.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Switch the tracer of coverage off while a test runs that has random input or many of them."""
    is_random = item.get_closest_marker("hypothesis") is not None
    is_of_cost = any(word in item.name for word in OF_COST)
    if not (is_random or is_of_cost) and UNMEASURED.isdisjoint([item.path, *item.path.parents]):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
