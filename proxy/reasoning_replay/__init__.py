"""
Reasoning Replay: a reverse proxy for APIs with reasoning, such as `POST /v1/responses`.

It captures the `reasoning` items that the API emits, and injects them into the next request if a
stateless client dropped them.
"""

__version__ = "0.1.0"
