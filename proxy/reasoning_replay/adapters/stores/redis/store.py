"""
Redis store: conversations that replicas share.

    rr:2:{<scope>:<conversation>}   hash: the name of a record -> its value, and
                                    "v" -> version, "b" -> bytes and "t" -> turns written
    rr:2:k:<scope>:<key>            string: the 16-byte ids of conversations, oldest first

One conversation is one hash in one slot with one sliding TTL. A lookup takes at most two round
trips for a request of any length, and one if all local copies are valid. A save takes one, unless
it also trims. Records are only added, so a replica never overwrites the records of another. The
replica that notices that a conversation exceeds its bounds trims it.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    VERSION_BITS,
    Bounds,
    ConversationInfo,
    Page,
    StoredConversation,
    StoreError,
    StoreResult,
)
from reasoning_replay.adapters.stores.codec import Codec, decoded, encoded
from reasoning_replay.adapters.stores.redis.errors import FAILURES, store_error
from reasoning_replay.adapters.stores.redis.executor import Command, RedisExecutor
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.lookup_keys import Lookup, choose, keys_of_turn
from reasoning_replay.core.history.turns import is_head, turn_of_record, turns_of

__all__ = ["RedisStore"]

ID_BYTES = 16
VERSION, BYTES, TURNS = b"v", b"b", b"t"
_COUNTERS = frozenset({VERSION, BYTES, TURNS})
# A conversation has about thirty keys in the index, and SCAN passes over all of them.
_SCANNED_PER_FOUND = 8
_SCANS = 200


class RedisStore:
    """Store in Redis; every failure is a StoreError."""

    is_embedded = False

    def __init__(
        self, link: RedisExecutor, bounds: Bounds, prefix: str = "rr", codec: Codec | None = None
    ) -> None:
        """
        Use an executor; `close` closes it.

        Args:
            link: As returned by `connect.connect`.
            bounds: Limits of each conversation.
            prefix: Prefix of every key in Redis.
            codec: Stored form of values; None: plain.
        """
        self._link = link
        self._bounds = bounds
        self._prefix = prefix
        self.codec = codec

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """Implement `Store.look_up`."""
        keys = list(dict.fromkeys(key for item in lookups for key in item.keys))
        if not (keys or held):
            return StoreResult()
        ttl_s = self._bounds.ttl_s
        names = [self._name(scope, conversation) for conversation in held]
        commands: list[Command] = [("HGET", name, VERSION) for name in names]
        commands += [("EXPIRE", name, ttl_s) for name in names]
        if held and lookups:  # as in `_load`, which may have nothing to load
            commands += [("EXPIRE", self._index_name(scope, k), ttl_s) for k in lookups[0].keys]
        try:
            strings, results = await self._link.read(
                [self._index_name(scope, key) for key in keys], commands
            )
        except FAILURES as error:
            raise store_error(error) from error
        # A read-only Redis rejects EXPIRE. It can still be read, so only errors of HGET count.
        versions = results[: len(held)]
        _raise_first(versions)
        found = {key: _ids(string) for key, string in zip(keys, strings, strict=True)}
        choice = choose(lookups, found.__getitem__)
        kept: dict[bytes, StoredConversation] = {}
        stale: dict[bytes, None] = {}
        for (conversation, ours), version in zip(held.items(), versions, strict=True):
            if version is not None and _number(version) == ours:
                kept[conversation] = StoredConversation(conversation, ours, None)
            elif version is not None:
                stale[conversation] = None
        chosen = {name: None for name in choice.conversations if name not in held}
        newest = next((item for item in lookups if any(found[key] for key in item.keys)), None)
        index = [self._index_name(scope, key) for key in newest.keys] if newest else []
        for one in await self._load(scope, [*chosen, *stale], index):
            kept[one.conversation] = one
        order = dict.fromkeys([*choice.conversations, *held])
        return StoreResult([kept[name] for name in order if name in kept], choice.crowded)

    async def save(
        self,
        scope: bytes,
        conversation: bytes,
        records: Mapping[bytes, bytes],
        keys: Sequence[bytes],
    ) -> int:
        """Implement `Store.save`."""
        name = self._name(scope, conversation)
        ttl_s = self._bounds.ttl_s
        written: list[bytes] = []
        for record in encoded(self.codec, scope, conversation, records).items():
            written += record
        # Records before the version, so that no version is visible without all of its records.
        commands: list[Command] = [("HSET", name, *written)] if written else []
        commands += [
            ("HINCRBY", name, BYTES, sum(map(len, written[1::2]))),
            ("HINCRBY", name, TURNS, sum(map(is_head, records))),
            ("HSETNX", name, VERSION, secrets.randbits(VERSION_BITS)),
            ("HINCRBY", name, VERSION, 1),
            ("EXPIRE", name, ttl_s),
        ]
        index = [self._index_name(scope, key) for key in keys]
        for index_name in index:
            commands += [("APPEND", index_name, conversation), ("EXPIRE", index_name, ttl_s)]
        results = await self._all(commands)
        record_bytes, turns, _, version, _, *lengths = results[bool(written) :]
        if turns > 1 and (record_bytes > self._bounds.max_bytes or turns > self._bounds.max_turns):
            version = await self._trim(name) or version
        for index_name, length in zip(index, lengths[::2], strict=True):
            if length > 2 * CONVERSATIONS_PER_KEY * ID_BYTES:
                await self._trim_key(index_name)
        return int(version)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Implement `Store.survey`; a page may exceed `limit`, as SCAN returns names in batches."""
        begin = f"{self._prefix}:2:{{"
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
            raise StoreError("the cursor is not one of this store", is_local=True) from None
        except FAILURES as error:
            raise store_error(error) from error
        form = re.compile(re.escape(begin.encode()) + rb"([0-9a-f]{32}):([0-9a-f]{32})\}")
        places = [match for match in map(form.fullmatch, names) if match]
        commands: list[Command] = []
        for place in places:
            commands += [("HMGET", place[0], VERSION, BYTES, TURNS), ("TTL", place[0])]
        numbers = await self._run(commands)
        kept = []
        for place, counters, ttl_s in zip(places, numbers[::2], numbers[1::2], strict=True):
            # Skip conversations deleted meanwhile, and values of other programs.
            if isinstance(counters, list) and isinstance(ttl_s, int) and None not in counters:
                _, record_bytes, turns = map(_number, counters)
                ids = [bytes.fromhex(place[n].decode()) for n in (1, 2)]
                kept.append(ConversationInfo(ids[0], ids[1], turns, record_bytes, ttl_s))
        return Page(kept, cursor)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """
        Implement `Store.forget`.

        The index entries are deleted first: only the records show which keys lead here.
        """
        name = self._name(scope, conversation)
        (kept,) = await self._all([("HGETALL", name)])
        turns = turns_of(conversation, self._records(scope, conversation, _hash(kept)))
        keys = dict.fromkeys(key for turn in turns for key in keys_of_turn(turn))
        index = [self._index_name(scope, key) for key in keys]
        try:
            answers, _ = await self._link.read(index, []) if index else ([], [])
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
        # A full Redis rejects SET, but now there is room. If a command is rejected again, its key
        # leads to a conversation that does not exist, which is harmless.
        pairs = zip(commands, results, strict=True)
        await self._run([command for command, result in pairs if isinstance(result, Exception)])
        return bool(deleted)

    async def usage(self) -> None:
        """Implement `Store.usage`."""

    async def check(self) -> None:
        """Implement `Store.check`."""
        try:
            await self._link.check()
        except FAILURES as error:
            raise store_error(error) from error

    async def close(self) -> None:
        """Implement `Store.close`."""
        await self._link.close()

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands; the result of a rejected command is its error."""
        if not commands:
            return []
        try:
            return await self._link.run(commands)
        except FAILURES as error:
            raise store_error(error) from error

    async def _all(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands; raise StoreError if any is rejected."""
        results = await self._run(commands)
        _raise_first(results)
        return results

    async def _load(
        self, scope: bytes, conversations: Sequence[bytes], index: Sequence[str]
    ) -> list[StoredConversation]:
        """
        Return the conversations that exist, and extend their expiry.

        Args:
            scope: Scope of the conversations.
            conversations: Their ids; if empty, no command is sent.
            index: Names of the keys of the newest item that led to a conversation; their expiry
                is extended, too. Keys of older items may expire, as requests also contain newer
                items.
        """
        if not conversations:
            return []
        names = [self._name(scope, conversation) for conversation in conversations]
        commands: list[Command] = [("HGETALL", name) for name in names]
        commands += [("EXPIRE", name, self._bounds.ttl_s) for name in [*names, *index]]
        hashes = (await self._run(commands))[: len(names)]
        _raise_first(hashes)
        return [
            StoredConversation(
                conversation, _number(kept[VERSION]), self._records(scope, conversation, kept)
            )
            for conversation, kept in zip(conversations, map(_hash, hashes), strict=True)
            if VERSION in kept
        ]

    def _records(
        self, scope: bytes, conversation: bytes, kept: Mapping[bytes, bytes]
    ) -> dict[bytes, bytes]:
        """Return the records of a hash that can be decoded."""
        records = {field: value for field, value in kept.items() if field not in _COUNTERS}
        return decoded(self.codec, scope, conversation, records)

    async def _trim(self, name: str) -> int | None:
        """Trim a conversation and correct its counters; return the version if turns are dropped."""
        (answer,) = await self._all([("HGETALL", name)])
        sizes = {
            field: len(value) for field, value in _hash(answer).items() if field not in _COUNTERS
        }
        drop = what_to_drop(sizes, self._bounds)
        for field in drop:
            del sizes[field]
        turns = len(set(map(turn_of_record, sizes)))
        commands: list[Command] = [
            ("HSET", name, BYTES, sum(sizes.values()), TURNS, turns),
            ("EXPIRE", name, self._bounds.ttl_s),  # HSET creates one that was deleted meanwhile
        ]
        if not drop:
            await self._all(commands)
            return None
        commands += [("HDEL", name, *drop), ("HINCRBY", name, VERSION, 1)]
        return int((await self._all(commands))[-1])

    async def _trim_key(self, name: str) -> None:
        """Reduce a key to its newest CONVERSATIONS_PER_KEY conversations."""
        (kept,) = await self._all([("GET", name)])
        # A conversation that appears several times counts once, and displaces no other.
        newest = list(dict.fromkeys(reversed(_ids(kept))))[:CONVERSATIONS_PER_KEY]
        left = b"".join(reversed(newest))
        await self._all([("SET", name, left, "EX", self._bounds.ttl_s)])

    def _name(self, scope: bytes, conversation: bytes) -> str:
        return f"{self._prefix}:2:{{{scope.hex()}:{conversation.hex()}}}"

    def _index_name(self, scope: bytes, key: bytes) -> str:
        return f"{self._prefix}:2:k:{scope.hex()}:{key.hex()}"


def _ids(answer: bytes | str | None) -> list[bytes]:
    value = answer if isinstance(answer, bytes) else b""
    return [value[at : at + ID_BYTES] for at in range(0, len(value), ID_BYTES)]


def _hash(answer: object) -> dict[bytes, bytes]:
    """Return a result of HGETALL; raise StoreError if it has the form of another protocol."""
    if not isinstance(answer, dict):
        raise StoreError("it answers in another protocol version than requested")
    return answer


def _number(value: bytes) -> int:
    """Return a counter; raise StoreError if another program has written something else there."""
    try:
        return int(value)
    except ValueError:
        raise StoreError("a counter of a conversation is not a number", is_local=True) from None


def _literally(text: str) -> str:
    """Escape a text so that SCAN matches it literally."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)


def _raise_first(results: Sequence[Any]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise store_error(result) from result
