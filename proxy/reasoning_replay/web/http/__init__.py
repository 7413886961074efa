"""HTTP: the listener and the client connections."""
