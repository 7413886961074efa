"""Redis Sentinels: they name the current master."""

import asyncio
from collections.abc import Sequence

from redis.asyncio.sentinel import MasterNotFoundError

from reasoning_replay.adapters.stores.redis.errors import FAILURES
from reasoning_replay.adapters.stores.redis.executor import SingleServer


async def master_of(sentinels: Sequence[SingleServer], service: str) -> tuple[str, int]:
    """
    Return host and port of the master, from the first Sentinel that names one.

    All are asked at the same time, so one that hangs delays nothing.

    Raises:
        MasterNotFoundError: None of them names one.
    """
    asked = [
        asyncio.ensure_future(one.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service))
        for one in sentinels
    ]
    try:
        for answer in asyncio.as_completed(asked):
            try:
                found = await answer
            except FAILURES:
                continue
            if found:
                host, port = found
                return host.decode(), int(port)
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    raise MasterNotFoundError("no Sentinel names a master")
