"""Dialect of OpenAI's Chat Completions API, and of the vendors that speak it."""
