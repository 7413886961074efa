"""
Redis, as the store that replicas share.

    rr:1:{<scope>:<conversation>}   hash: turn id -> encoded turn, and "b" -> bytes written
    rr:1:k:<scope>:<key>            string: the 16-byte ids of conversations, oldest first

One conversation is one hash in one slot with one sliding TTL. A recall is two round trips
whatever a request's length, a save is one. Appending is atomic, so replicas never overwrite
what another has found; what grows too long is cut back by whoever notices.
"""

import re
from collections.abc import Sequence
from typing import Any

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    Bounds,
    ConversationInfo,
    Page,
    StoreError,
)
from reasoning_replay.adapters.stores.codec import Codec, PlainCodec
from reasoning_replay.adapters.stores.redis.errors import FAILURES, store_error
from reasoning_replay.adapters.stores.redis.executor import Command, RedisExecutor
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult, choose, keys_of_turn
from reasoning_replay.core.history.turns import Turn

__all__ = ["RedisStore"]

ID_BYTES = 16
WRITTEN = b"b"
# Cut back to nine tenths, so that a full conversation is not cut back on every save.
_KEEP = 0.9
# A conversation has some thirty keys in the index, and SCAN passes over all of them.
_SCANNED_PER_FOUND = 8
_SCANS = 200


class RedisStore:
    """Turns in Redis; every failure is a StoreError."""

    def __init__(
        self, link: RedisExecutor, bounds: Bounds, prefix: str = "rr", codec: Codec | None = None
    ) -> None:
        """
        Use a way to a Redis; `close` closes it.

        Args:
            link: As `redis_clients.connect` gives it.
            bounds: Of one conversation.
            prefix: What every key begins with.
            codec: How turns are written; None: as they are.
        """
        self._link = link
        self._bounds = bounds
        self._prefix = prefix
        self._codec = codec or PlainCodec()

    async def recall(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult:
        """As `Store.recall`."""
        keys = list(dict.fromkeys(key for item in asked for key in item.keys))
        if not keys:
            return LookupResult()
        try:
            answers = await self._link.get_all([self._index_name(scope, key) for key in keys])
            found = {key: _ids(answer) for key, answer in zip(keys, answers, strict=True)}
            choice = choose(asked, found.__getitem__)
            if not choice.conversations:
                return LookupResult((), choice.crowded)
            names = [self._name(scope, conversation) for conversation in choice.conversations]
            # The keys of the newest item that led anywhere live on with its conversation. Older
            # items' may expire: whoever still sends them sends a newer one too.
            newest = next(item for item in asked if any(found[key] for key in item.keys))
            index = [self._index_name(scope, key) for key in newest.keys if found[key]]
            commands: list[Command] = [("HGETALL", name) for name in names]
            commands += [("EXPIRE", name, self._bounds.ttl_s) for name in [*names, *index]]
            # That a store which can only be read refuses EXPIRE is no reason not to read it.
            hashes = (await self._link.run(commands))[: len(names)]
        except FAILURES as error:
            raise store_error(error) from error
        _raise_first(hashes)
        turns = [
            turn
            for conversation, kept in zip(choice.conversations, hashes, strict=True)
            for turn in self._decoded(scope, conversation, _hash(kept)).values()
            if turn is not None
        ]
        return LookupResult(turns, choice.crowded)

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """As `Store.save`."""
        name = self._name(scope, turn.conversation)
        value = self._codec.encode(scope, turn)
        ttl_s = self._bounds.ttl_s
        commands: list[Command] = [
            ("HSET", name, turn.id.hex(), value),
            ("HINCRBY", name, WRITTEN, len(value)),
            ("HLEN", name),
            ("EXPIRE", name, ttl_s),
        ]
        index = [self._index_name(scope, key) for key in keys]
        for index_name in index:
            commands += [("APPEND", index_name, turn.conversation), ("EXPIRE", index_name, ttl_s)]
        _, written, fields, _, *lengths = await self._all(commands)
        if written > self._bounds.max_bytes or fields - 1 > self._bounds.max_turns:
            await self._cut_back(scope, turn.conversation)
        for index_name, length in zip(index, lengths[::2], strict=True):
            if length > 2 * CONVERSATIONS_PER_KEY * ID_BYTES:
                await self._cut_back_key(index_name)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `Store.survey`; a page may have some more than `limit`, as SCAN gives them."""
        begin = f"{self._prefix}:1:{{"
        pattern = f"{_literally(begin)}{scope.hex() + ':' if scope is not None else ''}*"
        count = min(max(limit * _SCANNED_PER_FOUND, 10), 10_000)
        names: dict[bytes, None] = {}
        try:
            for _ in range(_SCANS):
                cursor, found = await self._link.scan(cursor, pattern, count)
                names |= dict.fromkeys(found)
                if not cursor or len(names) >= limit:
                    break
        except ValueError:
            raise StoreError("the cursor is none of this store's", is_local=True) from None
        except FAILURES as error:
            raise store_error(error) from error
        form = re.compile(re.escape(begin.encode()) + rb"([0-9a-f]{32}):([0-9a-f]{32})\}")
        places = [match for match in map(form.fullmatch, names) if match]
        commands: list[Command] = []
        for place in places:
            commands += [("HLEN", place[0]), ("HGET", place[0], WRITTEN), ("TTL", place[0])]
        numbers = await self._run(commands)
        kept = []
        for place, fields, written, ttl_s in zip(
            places, numbers[::3], numbers[1::3], numbers[2::3], strict=True
        ):
            # One that is gone meanwhile, or another's value, is no conversation.
            if isinstance(fields, int) and fields > 0 and isinstance(ttl_s, int):
                ids = [bytes.fromhex(place[n].decode()) for n in (1, 2)]
                size = int(written) if isinstance(written, bytes) else 0
                kept.append(
                    ConversationInfo(ids[0], ids[1], fields - (written is not None), size, ttl_s)
                )
        return Page(kept, cursor)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """
        As `Store.forget`.

        The index goes first: what leads to a conversation is only known from what is kept of it.
        """
        name = self._name(scope, conversation)
        (kept,) = await self._all([("HGETALL", name)])
        turns = self._decoded(scope, conversation, _hash(kept)).values()
        keys = dict.fromkeys(key for turn in turns if turn for key in keys_of_turn(turn))
        index = [self._index_name(scope, key) for key in keys]
        try:
            answers = await self._link.get_all(index) if index else []
        except FAILURES as error:
            raise store_error(error) from error
        commands: list[Command] = []
        for index_name, answer in zip(index, answers, strict=True):
            others = [one for one in _ids(answer) if one != conversation]
            if others:
                commands.append(("SET", index_name, b"".join(others), "EX", self._bounds.ttl_s))
            elif answer is not None:
                commands.append(("DEL", index_name))
        results = await self._run(commands)
        (deleted,) = await self._all([("DEL", name)])
        # A full memory refuses SET, but now there is room. What is refused all the same leads to a
        # conversation that is gone.
        pairs = zip(commands, results, strict=True)
        await self._run([command for command, result in pairs if isinstance(result, Exception)])
        return bool(deleted)

    async def check(self) -> None:
        """As `Store.check`."""
        try:
            await self._link.check()
        except FAILURES as error:
            raise store_error(error) from error

    async def close(self) -> None:
        """As `Store.close`."""
        await self._link.close()

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands; what is refused leaves its error among the results."""
        if not commands:
            return []
        try:
            return await self._link.run(commands)
        except FAILURES as error:
            raise store_error(error) from error

    async def _all(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands, none of which may be refused."""
        results = await self._run(commands)
        _raise_first(results)
        return results

    def _decoded(
        self, scope: bytes, conversation: bytes, kept: dict[bytes, bytes]
    ) -> dict[bytes, Turn | None]:
        """Return the turns of a hash by field; None for what cannot be read."""
        return {
            field: self._codec.decode(scope, conversation, turn_id, value)
            for field, value in kept.items()
            if (turn_id := _id_of(field))
        }

    async def _cut_back(self, scope: bytes, conversation: bytes) -> None:
        """Remove the oldest turns of a conversation until it is well inside its bounds."""
        name = self._name(scope, conversation)
        (answer,) = await self._all([("HGETALL", name)])
        found = _hash(answer)
        found.pop(WRITTEN, None)
        decoded = self._decoded(scope, conversation, found)
        by_age = sorted(
            found,
            key=lambda field: turn.created_ms if (turn := decoded.get(field)) else 0,
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
        commands: list[Command] = [("HSET", name, WRITTEN, kept_bytes)]
        if drop := by_age[kept:]:
            commands.insert(0, ("HDEL", name, *drop))
        await self._all(commands)

    async def _cut_back_key(self, name: str) -> None:
        """Keep the newest conversations that a key leads to."""
        (kept,) = await self._all([("GET", name)])
        # One that says the same again and again is one of them, and pushes no other out.
        newest = list(dict.fromkeys(reversed(_ids(kept))))[:CONVERSATIONS_PER_KEY]
        left = b"".join(reversed(newest))
        await self._all([("SET", name, left, "EX", self._bounds.ttl_s)])

    def _name(self, scope: bytes, conversation: bytes) -> str:
        return f"{self._prefix}:1:{{{scope.hex()}:{conversation.hex()}}}"

    def _index_name(self, scope: bytes, key: bytes) -> str:
        return f"{self._prefix}:1:k:{scope.hex()}:{key.hex()}"


def _ids(answer: bytes | str | None) -> list[bytes]:
    value = answer if isinstance(answer, bytes) else b""
    return [value[at : at + ID_BYTES] for at in range(0, len(value), ID_BYTES)]


def _hash(answer: object) -> dict[bytes, bytes]:
    """Return what HGETALL gave; a connection that speaks otherwise than agreed gives no dict."""
    if not isinstance(answer, dict):
        raise StoreError("it answers in another protocol than agreed")
    return answer


def _id_of(field: bytes) -> bytes:
    """Return the id of the turn that a field is named after; b"" for what is none."""
    return bytes.fromhex(field.decode()) if re.fullmatch(rb"(?:[0-9a-f]{2}){2,}", field) else b""


def _literally(text: str) -> str:
    """Write a text so that SCAN matches it as it is."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)


def _raise_first(results: Sequence[Any]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise store_error(result) from result
