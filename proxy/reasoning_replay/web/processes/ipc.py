"""
The line between a worker and its parent: a socket, and each line on it one JSON object.

    parent -> worker    {"drain": seconds of grace}         finish what runs, and end
                        {"watch": true or false}            say what passes, or no longer
                        {"drop": [scope, conversation]}     deleted: keep no copy of it (hex)
                        {"probe": number}                   does your loop turn?
    worker -> parent    {"serving": url}                    it takes requests
                        {"failed": reason}                  it cannot, and ends
                        {"alive": number}                   a probe's; what came before is done
                        {"seen": […]}                       what has passed, for those who watch

When the parent is gone, however it went, the socket says so, and its workers drain.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Final

__all__ = ["LINE_MAX", "Message", "messages", "written"]

# Of a line, in bytes: far more than a worker ever says at once.
LINE_MAX: Final = 1 << 20

Message = Mapping[str, object]


def written(message: Message) -> bytes:
    """Spell a message."""
    return json.dumps(message).encode() + b"\n"


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, object]]:
    """Yield what the other side says, until it is gone."""
    with contextlib.suppress(ConnectionError):
        async for line in reader:
            if line.endswith(b"\n"):
                yield json.loads(line)
