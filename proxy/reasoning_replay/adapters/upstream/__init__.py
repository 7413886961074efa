"""Upstream: the HTTP client; its interface is in `client`."""
