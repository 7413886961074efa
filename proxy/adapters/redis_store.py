"""
Redis, as the store that replicas share.

    rr:1:{<scope>:<conversation>}   hash: turn id -> encoded turn, and "b" -> bytes written
    rr:1:k:<scope>:<key>            string: the 16-byte ids of conversations, oldest first

One conversation is one hash in one slot with one sliding TTL. A recall is two round trips
whatever a request's length, a save is one. Appending is atomic, so replicas never overwrite
what another has found; what grows too long is cut back by whoever notices.
"""

from collections.abc import Awaitable, Sequence
from typing import cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from proxy.adapters.store import CONVERSATIONS_PER_KEY, Bounds, StoreError
from proxy.core.keys import Asked, Recalled, choose
from proxy.core.turns import Turn, decode_turn, encode_turn

__all__ = ["RedisStore"]

ID_BYTES = 16
WRITTEN = b"b"
# Cut back to nine tenths, so that a full conversation is not cut back on every save.
_KEEP = 0.9
_FAILURES = (RedisError, OSError, TimeoutError)


class RedisStore:
    """Turns in Redis; every failure is a StoreError."""

    def __init__(self, redis: "Redis", bounds: Bounds) -> None:
        """Use an open client that returns bytes; `close` closes it."""
        self._redis = redis
        self._bounds = bounds

    @classmethod
    def from_url(
        cls, url: str, bounds: Bounds, timeout_s: float, max_connections: int
    ) -> "RedisStore":
        """
        Connect on first use.

        Args:
            url: `redis://`, `rediss://` or `unix://`, with user, password and database.
            bounds: Of one conversation.
            timeout_s: To connect, and to wait for each answer.
            max_connections: Of this process.
        """
        # One that waits for a connection: a burst is not a failure of the store.
        pool = BlockingConnectionPool.from_url(
            url,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            max_connections=max_connections,
            # A stale connection is found out by the command itself: one more try costs less
            # than asking before each.
            retry=Retry(NoBackoff(), 1),
        )
        redis = Redis.from_pool(pool)
        return cls(redis, bounds)

    async def recall(self, scope: bytes, asked: Sequence[Asked]) -> Recalled:
        """As `Store.recall`."""
        keys = list(dict.fromkeys(key for item in asked for key in item.keys))
        if not keys:
            return Recalled()
        try:
            answers = await self._redis.mget([_index_name(scope, key) for key in keys])
            found = {key: _ids(answer) for key, answer in zip(keys, answers, strict=True)}
            choice = choose(asked, found.__getitem__)
            if not choice.conversations:
                return Recalled((), choice.crowded)
            names = [_name(scope, conversation) for conversation in choice.conversations]
            # The keys of the newest item that led anywhere live on with its conversation. Older
            # items' may expire: whoever still sends them sends a newer one too.
            newest = next(item for item in asked if any(found[key] for key in item.keys))
            index = [_index_name(scope, key) for key in newest.keys if found[key]]
            async with self._redis.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.hgetall(name)
                for name in [*names, *index]:
                    pipe.expire(name, self._bounds.ttl_s)
                # That a store which can only be read refuses EXPIRE is no reason not to read it.
                results = await pipe.execute(raise_on_error=False)
            hashes = results[: len(names)]
            for broken in hashes:
                if isinstance(broken, Exception):
                    raise broken
        except _FAILURES as error:
            raise _store_error(error) from error
        values = (value for kept in hashes for field, value in kept.items() if field != WRITTEN)
        turns = [turn for turn in map(decode_turn, values) if turn is not None]
        return Recalled(turns, choice.crowded)

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """As `Store.save`."""
        name = _name(scope, turn.conversation)
        value = encode_turn(turn)
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.hset(name, turn.id.hex(), value)
                pipe.hincrby(name, WRITTEN.decode(), len(value))
                pipe.hlen(name)
                pipe.expire(name, self._bounds.ttl_s)
                for key in keys:
                    pipe.append(_index_name(scope, key), turn.conversation)
                    pipe.expire(_index_name(scope, key), self._bounds.ttl_s)
                _, written, fields, _, *index = await pipe.execute()
            if written > self._bounds.max_bytes or fields - 1 > self._bounds.max_turns:
                await self._cut_back(name)
            for key, length in zip(keys, index[::2], strict=True):
                if length > 2 * CONVERSATIONS_PER_KEY * ID_BYTES:
                    await self._cut_back_key(_index_name(scope, key))
        except _FAILURES as error:
            raise _store_error(error) from error

    async def check(self) -> None:
        """As `Store.check`."""
        try:
            await self._redis.ping()
        except _FAILURES as error:
            raise _store_error(error) from error

    async def close(self) -> None:
        """As `Store.close`."""
        await self._redis.aclose()

    async def _cut_back(self, name: str) -> None:
        """Remove the oldest turns of a conversation until it is well inside its bounds."""
        found = await cast("Awaitable[dict[bytes, bytes]]", self._redis.hgetall(name))
        found.pop(WRITTEN, None)
        decoded = {field: decode_turn(value) for field, value in found.items()}
        by_age = sorted(
            found,
            key=lambda field: turn.created_ms if (turn := decoded[field]) else 0,
            reverse=True,
        )
        kept_bytes, kept = 0, 0
        for field in by_age:
            size = kept_bytes + len(found[field])
            is_full = (
                kept >= _KEEP * self._bounds.max_turns or size > _KEEP * self._bounds.max_bytes
            )
            if kept and is_full:
                break
            kept_bytes, kept = size, kept + 1
        drop = by_age[kept:]
        async with self._redis.pipeline(transaction=False) as pipe:
            if drop:
                pipe.hdel(name, *drop)
            pipe.hset(name, WRITTEN.decode(), kept_bytes)
            await pipe.execute()

    async def _cut_back_key(self, name: str) -> None:
        """Keep the newest conversations that a key leads to."""
        newest = await self._redis.getrange(name, -CONVERSATIONS_PER_KEY * ID_BYTES, -1)
        await self._redis.set(name, newest, ex=self._bounds.ttl_s)


def _name(scope: bytes, conversation: bytes) -> str:
    return f"rr:1:{{{scope.hex()}:{conversation.hex()}}}"


def _index_name(scope: bytes, key: bytes) -> str:
    return f"rr:1:k:{scope.hex()}:{key.hex()}"


def _ids(answer: bytes | str | None) -> list[bytes]:
    value = answer if isinstance(answer, bytes) else b""
    return [value[at : at + ID_BYTES] for at in range(0, len(value), ID_BYTES)]


def _store_error(error: Exception) -> StoreError:
    """Name an error without what a URL or a key in it might give away."""
    # The class itself, not those derived from it (READONLY, OOM, NOAUTH): a key of another type.
    return StoreError(type(error).__name__, is_local=type(error) is ResponseError)
