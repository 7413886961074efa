"""Wire: bytes and syntax, without knowledge of any API."""
