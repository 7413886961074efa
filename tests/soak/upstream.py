"""
Upstream of the soak, in a separate process: stand-ins, the relay before them, and the judge.

The first line of its output is its port. Each line of its input is the report of a client's
response; after the last one it prints the judgement.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.programs import ends_with_tests
from tests.soak.claims import Told
from tests.soak.judge import Judge
from tests.soak.relay import Relay, dice
from tests.strict import LOOPS, StrictResponses

ROOT = Path(__file__).parents[2]
LINE_BYTES_MAX = 1 << 20
STARTS_S = 30.0
ENDS_S = 30.0


class Upstream:
    """
    The running process.

    Attributes:
        base_url: The upstream URL for the proxy.
    """

    def __init__(self, process: asyncio.subprocess.Process, base_url: str) -> None:
        self._process = process
        self.base_url = base_url

    def tell(self, told: Told) -> None:
        """Report a response that a client received."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(told) + b"\n")

    async def judgement(self) -> tuple[dict[str, int], list[str]]:
        """End the process, and return its counters and faults."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        async with asyncio.timeout(ENDS_S):
            said: dict[str, Any] = json.loads(await self._process.stdout.readline())
            await self._process.wait()
        return said["counts"], said["wrong"]


@contextlib.asynccontextmanager
async def upstream(seed: str, share: float) -> AsyncIterator[Upstream]:
    """Run the process; this share of its responses has a fault."""
    process = await asyncio.create_subprocess_exec(
        *(*ends_with_tests(), sys.executable, "-m", "tests.soak.upstream", seed, str(share)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(STARTS_S):
            port = int(await process.stdout.readline())
        yield Upstream(process, f"http://127.0.0.1:{port}/v1")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def _run(seed: str, share: float) -> None:
    logging.disable()  # logs of reset connections, which are intended
    thrown = dice(seed, "standins")
    judge = Judge()
    async with contextlib.AsyncExitStack() as stack:
        standins: Mapping[str, StrictResponses] = {
            loop: await stack.enter_async_context(
                StrictResponses(
                    loop,
                    chunk_bytes=thrown.choice([None, None, 300, 5_000]),
                )
            )
            for loop in LOOPS
        }
        relay = Relay(judge, standins, seed, share)
        server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, limit=1 << 24)
        print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - its parent reads it
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async for line in reader:
            judge.told(msgspec.json.decode(line, type=Told))
        server.close()
    print(json.dumps({"counts": judge.counts, "wrong": judge.wrong}), flush=True)  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seed")
    parser.add_argument("share", type=float)
    given = parser.parse_args()
    asyncio.run(_run(given.seed, given.share))
