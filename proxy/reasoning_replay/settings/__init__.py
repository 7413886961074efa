"""Settings: every setting of the proxy, and where it is read from."""
