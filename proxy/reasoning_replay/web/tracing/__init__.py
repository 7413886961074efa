"""Tracing: spans of exchanges."""
