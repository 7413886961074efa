"""
Core: every decision of the product, as pure functions.

No I/O, no event loop, no clock, no environment, no logging.
Read in this order: `wire`, `tenancy`, `history`, `dialects`.
"""
