"""Body decoder: removes the content coding of a request body, within limits."""

import contextlib
from functools import partial

from reasoning_replay.adapters.runtime.offload import Busy, Offloader
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.wire.content_coding import TooLarge, Undecodable, decode, is_encoded
from reasoning_replay.web.memory_budget import MemoryLease

__all__ = ["NotDecoded", "decode_body"]

# Bodies up to these sizes are decoded on the event loop, in 1 to 2 ms; larger ones in a thread.
ON_LOOP_ENCODED_BYTES = 64 * 1024
ON_LOOP_DECODED_BYTES = 1024 * 1024
# Repetitive text may shrink a hundred times; a decompression bomb, a thousand times. A body may
# grow by this ratio, or to this size.
DECODED_RATIO = 100
DECODED_FREE_BYTES = 8 * 1024 * 1024


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


async def decode_body(
    body: bytes, coding: str, max_bytes: int, lease: MemoryLease, offloader: Offloader
) -> bytes:
    """
    Return a body without its content coding; the same object if it has none.

    A large one is decoded in a thread.

    Args:
        body: Complete body.
        coding: Value of Content-Encoding.
        max_bytes: Limit on the decoded size.
        lease: Memory lease; it is extended by the decoded size.
        offloader: Threads for large bodies.

    Raises:
        NotDecoded: The body is damaged, too large or in an unknown coding, or the memory budget
            or the threads are used up.
    """
    if not is_encoded(coding):
        return body
    limit = min(max_bytes, max(DECODED_FREE_BYTES, DECODED_RATIO * len(body)))
    try:
        if len(body) <= ON_LOOP_ENCODED_BYTES:
            with contextlib.suppress(TooLarge):
                plain = decode(body, coding, min(limit, ON_LOOP_DECODED_BYTES))
                if lease.reserve(len(plain)):
                    return plain
                raise NotDecoded(RequestState.BUSY)
        return await _decode_in_thread(body, coding, limit, lease, offloader)
    except TooLarge:
        raise NotDecoded(RequestState.TOO_LARGE) from None
    except Undecodable:
        raise NotDecoded(RequestState.ENCODED) from None
    except Busy:
        raise NotDecoded(RequestState.BUSY) from None


async def _decode_in_thread(
    body: bytes, coding: str, limit: int, lease: MemoryLease, offloader: Offloader
) -> bytes:
    """Decode in a thread; the limit stays reserved until the decoded size is known."""
    before = lease.held
    if not await lease.reserve_in_turn(limit):
        raise Busy
    allowed = lease.held - before
    try:
        plain = await offloader.run(partial(decode, body, coding, allowed), lease.tenant)
    except BaseException as error:
        lease.shrink(before)
        if isinstance(error, TooLarge) and allowed < limit:
            raise Busy from None
        raise
    lease.shrink(before + len(plain))
    return plain
