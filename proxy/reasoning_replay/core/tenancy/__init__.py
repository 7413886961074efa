"""Tenancy: the tenant that a request belongs to."""
