"""Resilience: protection of the request path from a store that is slow, full or unreachable."""
