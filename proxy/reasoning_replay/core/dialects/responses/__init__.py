"""Responses: the dialect of OpenAI's Responses API."""
