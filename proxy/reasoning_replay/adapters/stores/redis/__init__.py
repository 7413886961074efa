"""Redis: one server, Sentinel or a cluster."""
