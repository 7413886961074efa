"""Tenancy: whose request it is."""
