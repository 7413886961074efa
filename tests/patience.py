"""Patience of the tests: limits that only end a test that fails anyway, on any machine."""

__all__ = ["LONG_S", "SOON_S"]

# Far more than anything takes on a busy machine, and less than pytest's own limit for a test.
SOON_S = 60.0
# For a timeout of the product that a test must never meet.
LONG_S = 600.0
