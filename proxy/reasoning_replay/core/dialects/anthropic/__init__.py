"""Dialect of the Anthropic Messages API."""
