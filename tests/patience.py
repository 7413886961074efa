"""
Patience of the tests: limits that only end a test that fails anyway, on any machine.

They are longer than a busy machine needs. A hang is found earlier, by `tests.hang`.
"""

__all__ = ["LONG_S", "SOON_S"]

# For what the test waits for.
SOON_S = 600.0
# For a timeout of the product that a test must never meet.
LONG_S = 3600.0
