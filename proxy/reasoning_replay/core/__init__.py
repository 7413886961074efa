"""
Core: what the product decides, as pure functions. No I/O, no event loop, no clock.

No I/O, no event loop, no clock, no environment, no logging.
Read in this order: spans, items, turns, request, sse, capture, identity, inject.
"""
