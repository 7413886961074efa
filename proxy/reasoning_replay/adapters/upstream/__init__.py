"""Upstream: the HTTP client."""
