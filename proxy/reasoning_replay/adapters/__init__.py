"""Floor 1: one outside thing each. Stores, the upstream's connections, metrics, logs."""
