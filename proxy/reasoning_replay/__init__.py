"""
Put reasoning back where a stateless client dropped it.

A reverse proxy in front of `POST /v1/responses`: it keeps the `reasoning` items that the API
emits and gives them back when the next request comes without them.
"""

__version__ = "0.1.0"
