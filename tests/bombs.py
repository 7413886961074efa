"""
Bombs: small bodies that decode to large ones, and a process that has to free them by itself.

The process runs without Python's cyclic collector, so that nothing hides what is kept.
"""

import asyncio
import contextlib
import gzip
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial

import brotli
import zstandard

from tests.web.line import line_to
from tests.web.scripted import Upstream, scripted
from tests.web.served import Served, served
from tests.web.world import eventually

__all__ = ["CODINGS", "MIB", "asked_at_once", "bomb", "uncollected"]

MIB = 1 << 20
# docs/operations.md: what processing takes in addition to the budget.
PROCESSING_BYTES = 192 * MIB
# The memory afterwards, in parts of that at the start.
BACK_AT = 2.0
CODINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": partial(gzip.compress, mtime=0),
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=5),
    "zstd": zstandard.compress,
}


def bomb(coding: str, size: int) -> bytes:
    """Return a JSON document of about this size, mostly blanks, in a content coding."""
    return CODINGS[coding](b'{"model":"m","input":"x"' + b" " * size + b"}")


@contextlib.asynccontextmanager
async def uncollected(
    budget_bytes: int, **settings: object
) -> AsyncIterator[tuple[Served, Upstream]]:
    """
    Run a proxy without a cyclic collector in front of a scripted upstream.

    At the end, its peak must be within the documented formula, and its memory back at the start.
    """
    async with (
        scripted() as upstream,
        served(
            under=(sys.executable, "-m", "tests.web.uncollected"),
            upstream_url=upstream.url + "/v1",
            inspect_total_max_bytes=budget_bytes,
            **settings,
        ) as proxy,
    ):
        await proxy.started()
        logging = asyncio.ensure_future(proxy.rest())
        before_bytes = proxy.resident_bytes
        try:
            yield proxy, upstream
            assert proxy.peak_bytes - before_bytes < budget_bytes + PROCESSING_BYTES
            await eventually(lambda: proxy.resident_bytes < BACK_AT * before_bytes)
        finally:
            logging.cancel()
            await asyncio.gather(logging, return_exceptions=True)


async def asked_at_once(url: str, requests: Iterable[bytes]) -> Counter[str | None]:
    """Send requests at once, each on its own connection; count what the proxy says of them."""

    async def ask(data: bytes) -> str | None:
        async with line_to(url) as line:
            return (await line.ask(data)).mark

    return Counter(await asyncio.gather(*map(ask, requests)))
