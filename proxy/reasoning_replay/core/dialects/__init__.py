"""Dialects: the wire formats of the APIs, one package each."""
