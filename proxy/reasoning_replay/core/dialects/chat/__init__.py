"""Dialect of the Chat Completions API."""
