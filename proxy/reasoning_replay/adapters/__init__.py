"""Adapters: one package for each external system: stores, upstream, telemetry, runtime."""
