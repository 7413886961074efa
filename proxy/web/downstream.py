"""The client's side of an answer: upstream's head and bytes, and nothing of aiohttp's own."""

import aiohttp
from aiohttp import hdrs, web

from proxy.adapters.upstream import left_over
from proxy.web.exchange import Exchange
from proxy.web.reader import Reader

__all__ = ["Passed", "pump"]

_DEFAULTS = (hdrs.CONTENT_TYPE, hdrs.DATE, hdrs.SERVER)


class Passed(web.StreamResponse):
    """A response whose headers are upstream's and ours: aiohttp's own defaults are taken back."""

    async def _prepare_headers(self) -> None:
        absent = [name for name in _DEFAULTS if name not in self.headers]
        await super()._prepare_headers()
        for name in absent:
            self.headers.popall(name, None)


async def pump(
    exchange: Exchange,
    response: aiohttp.ClientResponse,
    downstream: web.StreamResponse,
    reader: Reader | None,
    read: bytes,
) -> bool:
    """
    Pass an answer's body on.

    Args:
        exchange: Counts the bytes.
        response: Upstream's.
        downstream: The client's; its head is out.
        reader: Learns from it; None when there is nothing to learn.
        read: What was read of the body already.

    Returns:
        False when upstream broke it off.
    """
    is_whole = True
    while True:
        try:
            chunk = read or await response.content.readany()
            read = b""
        except (TimeoutError, aiohttp.ClientError, OSError):
            is_whole = False
            chunk = left_over(response)
        if not chunk:
            break
        if reader is not None:
            await reader.feed(chunk)
        await downstream.write(chunk)
        exchange.sent_bytes += len(chunk)
    if reader is not None and is_whole:
        await reader.close()
    return is_whole
