"""Adapters: one package for each outside thing: stores, the upstream, telemetry, the runtime."""
