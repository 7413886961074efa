"""Renewals: the keys of a conversation that is used live on, renewed in the background."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from reasoning_replay.adapters.stores.base import Name, StoreError
from reasoning_replay.adapters.stores.redis.commands import Commands, number_of
from reasoning_replay.adapters.stores.redis.scripts import RENEWED

# The keys of a conversation are renewed at most this often within its TTL.
RENEWALS_PER_TTL = 8
# Most conversations whose keys are renewed at once; others are renewed by a later lookup.
RENEWED_AT_ONCE = 2
# Most commands in one round trip of a renewal, so that it does not delay exchanges.
RENEWED_TOGETHER = 256
# Timeout of a renewal.
RENEWS_S = 10.0


class Renewals:
    """
    Renewals of a store.

    Attributes:
        key_ttl_s: TTL of the keys.
        tasks: Renewals that run.
    """

    def __init__(
        self,
        commands: Commands,
        ttl_s: int,
        clock: Callable[[], float],
    ) -> None:
        """
        Renew nothing yet.

        Args:
            commands: Those of the store.
            ttl_s: TTL of a conversation.
            clock: Seconds since the epoch, as replicas share the Redis.
        """
        self._commands = commands
        self._ttl_s = ttl_s
        self._clock = clock
        self._every_s = -(-ttl_s // RENEWALS_PER_TTL)
        self.key_ttl_s = ttl_s + self._every_s
        self.tasks: dict[Name, asyncio.Task[None]] = {}

    def begin_if_due(
        self,
        name: Name,
        place: str,
        renewed: bytes | None,
        index_of: Callable[[Name], Awaitable[Sequence[str]]],
    ) -> None:
        """
        Begin to renew the keys of a conversation, unless that was done a short time ago.

        Args:
            name: The conversation.
            place: Name of its hash.
            renewed: When that was done, as the hash tells.
            index_of: Returns the names of all keys of a conversation, as its records tell.
        """
        # A time in the future, of a clock that is ahead, is as old as one in the past.
        if renewed and abs(self._clock() - number_of(renewed)) < self._every_s:
            return
        if name not in self.tasks and len(self.tasks) < RENEWED_AT_ONCE:
            task = asyncio.ensure_future(self._renew(name, place, index_of))
            self.tasks[name] = task
            task.add_done_callback(lambda _: self.tasks.pop(name))

    async def close(self) -> None:
        """End those that run."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _renew(
        self, name: Name, place: str, index_of: Callable[[Name], Awaitable[Sequence[str]]]
    ) -> None:
        """Renew all keys of a conversation; if that fails, the next lookup begins again."""
        now = int(self._clock())
        try:
            async with asyncio.timeout(RENEWS_S):
                index = await index_of(name)
                for at in range(0, len(index), RENEWED_TOGETHER):
                    together = index[at : at + RENEWED_TOGETHER]
                    await self._commands.all([("EXPIRE", one, self.key_ttl_s) for one in together])
                # HSET creates a conversation that was deleted meanwhile, without a version: no
                # lookup finds it.
                expire = ("EXPIRE", place, self._ttl_s)
                await self._commands.all([("HSET", place, RENEWED, now), expire])
        except (StoreError, TimeoutError):
            return
