"""WebSocket: a Responses session over one connection."""
