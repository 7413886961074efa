"""Body decoder: removes the content coding of a request body, within limits."""

import asyncio
import contextlib

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.wire.content_coding import TooLarge, Undecodable, decode, is_encoded
from reasoning_replay.web.memory_budget import MemoryLease

__all__ = ["BodyDecoder", "NotDecoded"]

# Bodies up to these sizes are decoded on the event loop, in 1 to 2 ms; larger ones in a thread.
ON_LOOP_ENCODED_BYTES = 64 * 1024
ON_LOOP_DECODED_BYTES = 1024 * 1024
# Repetitive text may shrink a hundred times; a decompression bomb, a thousand times. A body may
# grow by this ratio, or to this size. The last figure is the number of bodies decoded in parallel.
DECODED_RATIO = 100
DECODED_FREE_BYTES = 8 * 1024 * 1024
DECODED_AT_ONCE = 2


class NotDecoded(Exception):
    """
    A body is forwarded unread.

    Attributes:
        state: Reason for it.
    """

    def __init__(self, state: RequestState) -> None:
        """Keep the reason in `state`."""
        super().__init__(state)
        self.state = state


class BodyDecoder:
    """Decoder of request bodies, a few in parallel."""

    def __init__(self, max_bytes: int) -> None:
        """Limit each decoded body to `max_bytes`."""
        self._max_bytes = max_bytes
        self._slots = asyncio.Semaphore(DECODED_AT_ONCE)

    async def decode(self, body: bytes, coding: str, lease: MemoryLease) -> bytes:
        """
        Return a body without its content coding; the same object if it has none.

        Args:
            body: Complete body.
            coding: Value of Content-Encoding.
            lease: Memory lease; it is extended by the decoded size.

        Raises:
            NotDecoded: The body is damaged, too large or in an unknown coding, or the memory budget
                is used up.
        """
        if not is_encoded(coding):
            return body
        limit = min(self._max_bytes, max(DECODED_FREE_BYTES, DECODED_RATIO * len(body)))
        try:
            if len(body) <= ON_LOOP_ENCODED_BYTES:
                with contextlib.suppress(TooLarge):
                    plain = decode(body, coding, min(limit, ON_LOOP_DECODED_BYTES))
                    if lease.reserve(len(plain)):
                        return plain
                    raise NotDecoded(RequestState.BUSY)
            async with self._slots:
                return await _decode_in_thread(body, coding, limit, lease)
        except TooLarge:
            raise NotDecoded(RequestState.TOO_LARGE) from None
        except Undecodable:
            raise NotDecoded(RequestState.ENCODED) from None


async def _decode_in_thread(body: bytes, coding: str, limit: int, lease: MemoryLease) -> bytes:
    """Decode in a thread; the limit stays reserved until the decoded size is known."""
    allowed = lease.reserve_up_to(limit)
    size = 0
    try:
        plain = await asyncio.to_thread(decode, body, coding, allowed)
    except TooLarge:
        if allowed == limit:
            raise
        raise NotDecoded(RequestState.BUSY) from None
    else:
        size = len(plain)
        return plain
    finally:
        lease.release(allowed - size)
