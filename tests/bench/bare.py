"""
Bare pass-through with aiohttp: `python -m tests.bench.bare PORT UPSTREAM_PORT`.

It forwards bytes, and reads and stores nothing. The product is compared with it, so it is written
to be fast: the low-level server, small bodies in one piece, chunks as they arrive.
"""

import asyncio
import sys
from collections.abc import Mapping

import aiohttp
import uvloop
from aiohttp import hdrs, web
from multidict import CIMultiDict

HOP_BY_HOP = (hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.TRANSFER_ENCODING, hdrs.TE, hdrs.UPGRADE)
READ_WHOLE_BYTES = 1 << 20
OURS_TO_SAY = frozenset(("Accept", "Accept-Encoding", "Content-Type", "User-Agent"))


async def main(port: int, upstream: str) -> None:
    """Serve until killed."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        skip_auto_headers=OURS_TO_SAY,
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
    )

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        size = request.content_length
        is_small = size is not None and size <= READ_WHOLE_BYTES
        body = await request.read() if is_small else request.content
        async with session.request(
            request.method,
            upstream + request.raw_path,
            headers=passed_on(request.headers),  # with the length, which is the body's
            data=body if request.body_exists else None,
            allow_redirects=False,
        ) as answer:
            headers = passed_on(answer.headers)
            headers.popall(hdrs.CONTENT_LENGTH, None)  # aiohttp sets it from the bytes written
            if answer.content_length is not None:
                return web.Response(status=answer.status, headers=headers, body=await answer.read())
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    server = web.Server(handle, access_log=None)
    await asyncio.get_running_loop().create_server(server, "127.0.0.1", port, backlog=4096)
    await asyncio.Event().wait()


def passed_on(headers: Mapping[str, str]) -> "CIMultiDict[str]":
    """Copy headers, except those of one connection."""
    passed = CIMultiDict(headers)
    for name in HOP_BY_HOP:
        passed.popall(name, None)
    return passed


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), f"http://127.0.0.1:{sys.argv[2]}"))
