"""Stores: captured turns in memory, in a SQLite file or in Redis."""
