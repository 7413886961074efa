"""Verification of a client: it runs against the strict API, which judges each request."""
