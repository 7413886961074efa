"""Send a refused request once more, without the edit of ours that may be the cause."""

import contextlib
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import hdrs

from proxy.adapters.upstream import ending_with_connection
from proxy.core.coding import Undecodable, decoder_for
from proxy.core.heal import Refusal, diagnose, is_refusal
from proxy.web.account import Account
from proxy.web.errors import ProxyError
from proxy.web.exchange import Exchange
from proxy.web.replay import Prepared, Replay

__all__ = ["heal"]

# An error body longer than this is not one that anything could be read from.
REFUSAL_MAX_BYTES = 256 * 1024

Send = Callable[[bytes], Awaitable[aiohttp.ClientResponse]]


async def heal(  # noqa: PLR0913, PLR0917 (all that takes part in it)
    exchange: Exchange,
    response: aiohttp.ClientResponse,
    prepared: Prepared,
    send: Send,
    replay: Replay,
    account: Account,
) -> tuple[aiohttp.ClientResponse, bytes]:
    """
    Look into a refusal of a request that we edited; send it again, once, if the edit may be why.

    Args:
        exchange: Its outcomes are corrected.
        response: The refusal; closed when another answer takes its place.
        prepared: What was sent, and what it would be with less of ours.
        send: Sends a body as the first was sent; raises ProxyError.
        replay: Remembers models that refuse `include`.
        account: Counts.

    Returns:
        The answer to forward, and what was read of its body already.
    """
    read = await _up_to(response, REFUSAL_MAX_BYTES)
    diagnosis = _diagnose(response, read, account)
    if diagnosis is Refusal.INCLUDE and prepared.without_include is not None:
        body = prepared.without_include
    elif diagnosis is Refusal.INPUT:
        body = prepared.original  # the client gets the answer to its own bytes
    else:
        return response, read
    try:
        again = await send(body)
    except ProxyError:
        return response, read
    response.close()
    is_cured = not is_refusal(again.status)
    exchange.healed = diagnosis.value
    if diagnosis is Refusal.INPUT:
        exchange.take_back()
    elif is_cured:
        replay.remember_refusal(exchange, prepared.model)
    account.metrics.heals.labels(diagnosis.value, "cured" if is_cured else "refused").inc()
    return again, b""


def _diagnose(response: aiohttp.ClientResponse, read: bytes, account: Account) -> Refusal:
    try:
        encoding = response.headers.get(hdrs.CONTENT_ENCODING, "")
        return diagnose(response.status, decoder_for(encoding, REFUSAL_MAX_BYTES).feed(read))
    except Undecodable:
        return Refusal.OTHER
    except Exception as error:  # noqa: BLE001 (fail open: the refusal goes to the client)
        account.log.warning("heal_failed", reason=type(error).__name__)
        return Refusal.OTHER


async def _up_to(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read the beginning of an answer's body; the rest, or a broken end, stays where it is."""
    pieces: list[bytes] = []
    size = 0
    broken = contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError)
    with broken, ending_with_connection(response):
        while size < limit and (chunk := await response.content.readany()):
            pieces.append(chunk)
            size += len(chunk)
    return b"".join(pieces)
