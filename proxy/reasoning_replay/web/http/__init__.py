"""HTTP: the listener and the clients' connections."""
