"""Stores: where turns are kept."""
