"""Resilience: a store that can be slow, full or away, made safe for the request path."""
