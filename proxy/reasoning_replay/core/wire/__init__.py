"""Wire: bytes and syntax, with no knowledge of any API."""
