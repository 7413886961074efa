"""Redis store: one server, Sentinel or a Cluster."""
