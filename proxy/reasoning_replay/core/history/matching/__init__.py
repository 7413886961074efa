"""Matching: which captured turn each item of a request came from."""
