"""Coverage of the core: by examples alone, so that it does not depend on chance, and is fast."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

# Many conversations at once: their rules have examples elsewhere.
UNMEASURED = Path(__file__).parent / "worlds"
# Words in the names of tests with very long input.
LONG = ("linear", "swells", "each_character")


# pytest-cov has a mark for this, but in a worker of pytest-xdist a second tracer stays on.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Switch the tracer of coverage off while a test runs that has random or very long input."""
    is_random = item.get_closest_marker("hypothesis") is not None
    is_long = any(word in item.name for word in LONG)
    if not (is_random or is_long or UNMEASURED in item.path.parents):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
