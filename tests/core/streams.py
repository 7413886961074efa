"""Streams in OpenAI's format, event by event, and how a capture hears any response."""

import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from reasoning_replay.core.dialects.captures import Capture

from tests.core.world import MODEL, Item

CaptureT = TypeVar("CaptureT", bound=Capture)
_IS_STREAM = re.compile(rb"\s*(?:data|event)?:")
RESPONSE = {"id": "resp_1", "model": MODEL, "status": "completed"}


def event(kind: str, **fields: Any) -> bytes:
    """Return one event in OpenAI's format."""
    data = json.dumps({"type": kind, "sequence_number": 1, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def added(index: int, item: Item) -> bytes:
    """Return the event that starts an item."""
    return event("response.output_item.added", output_index=index, item=item)


def done(index: object, item: object) -> bytes:
    """Return the event of a finished item."""
    return event("response.output_item.done", output_index=index, item=item)


def began(**more: Any) -> bytes:
    """Return the first event of a stream."""
    response = RESPONSE | {"status": "in_progress", "output": [], **more}
    return event("response.created", response=response)


def ended(output: object, status: str = "completed", **more: Any) -> bytes:
    """Return the last event of a stream."""
    response = RESPONSE | {"status": status, "output": output, **more}
    return event(f"response.{status}", response=response)


def stream_of(items: list[Item], **more: Any) -> bytes:
    """Return the whole stream of a response with these items."""
    blobless = [item | {"encrypted_content": None} for item in items]
    each = [added(n, blobless[n]) + done(n, item) for n, item in enumerate(items)]
    return began(**more) + b"".join(each) + ended(items, **more)


def heard(capture: CaptureT, response: bytes | Iterable[bytes]) -> CaptureT:
    """Return a capture that has heard a response: JSON, or a stream in these pieces."""
    pieces = [response] if isinstance(response, bytes) else [*response]
    whole = b"".join(pieces)
    if _IS_STREAM.match(whole) is None:
        capture.read(whole)
        return capture
    for piece in pieces:
        capture.feed(piece)
    capture.close()
    return capture
