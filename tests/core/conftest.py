"""Coverage of the core: measuring it doubles the time of random tests, so some are not measured."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

# Their other tests reach every line, and so coverage does not depend on chance.
UNMEASURED = {Path(__file__).parent / name for name in ("wire", "dialects/responses")}


# pytest-cov has a mark for this, but in a worker of pytest-xdist a second tracer stays on.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Switch the tracer of coverage off while a random test of these folders runs."""
    if item.get_closest_marker("hypothesis") is None or UNMEASURED.isdisjoint(item.path.parents):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
