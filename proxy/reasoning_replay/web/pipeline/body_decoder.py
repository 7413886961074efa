"""Body decoder: undoes the content coding of a request's body, within bounds."""

import asyncio
import contextlib

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.wire.content_coding import TooLarge, Undecodable, decode, is_encoded
from reasoning_replay.web.memory_budget import MemoryLease

__all__ = ["BodyDecoder", "NotDecoded"]

# Decoded on the loop, encoded and decoded size: a millisecond or two. The rest, in a thread.
ON_LOOP_ENCODED_BYTES = 64 * 1024
ON_LOOP_DECODED_BYTES = 1024 * 1024
# Text that repeats itself may shrink a hundred times; a bomb, a thousand times. A body may grow by
# this ratio, or to this size, and so many are decoded at once.
DECODED_RATIO = 100
DECODED_FREE_BYTES = 8 * 1024 * 1024
DECODED_AT_ONCE = 2


class NotDecoded(Exception):
    """
    A body is forwarded without being read.

    Attributes:
        state: Why.
    """

    def __init__(self, state: RequestState) -> None:
        """Carry the reason."""
        super().__init__(state)
        self.state = state


class BodyDecoder:
    """Decodes bodies, a few at once."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` bounds one decoded body."""
        self._max_bytes = max_bytes
        self._slots = asyncio.Semaphore(DECODED_AT_ONCE)

    async def decode(self, body: bytes, coding: str, lease: MemoryLease) -> bytes:
        """
        Return a body without its coding; the same object where it has none.

        Args:
            body: Whole.
            coding: As in Content-Encoding.
            lease: The decoded size is reserved from it.

        Raises:
            NotDecoded: It is damaged, too large, or of an unknown coding, or memory is used up.
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
    """Decode off the loop; the bound counts as held until the size is known."""
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
