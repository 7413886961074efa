"""Upstream: the HTTP client; `client` has its interface."""
