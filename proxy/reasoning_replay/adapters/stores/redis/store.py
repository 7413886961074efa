"""
Redis store: conversations that replicas share.

    rr:2:{<scope>:<conversation>}   hash: the name of a record -> its value, and
                                    "v" -> version, "b" -> bytes and "t" -> turns written,
                                    "r" -> when its keys were last renewed; or, once an operator has
                                    deleted it, "d": then no lookup finds it, whatever is added
    rr:2:k:<scope>:<key>            string: the 16-byte ids of conversations, oldest first
    rr:2:d:<scope>                  string: the mark of the last deletion of the whole scope
    rr:2:s                          hash: the mark of a process -> when it was noted last

One conversation is one hash in one slot with one sliding TTL. A lookup takes at most two round
trips for a request of any length, and one if all local copies are valid. A save takes one, unless
it also trims. Records are only added, so a replica never overwrites the records of another. The
replica that notices that a conversation exceeds its bounds trims it.

A key lives longer than the last use of its conversations: it has the TTL and an eighth of it, and
a lookup of a conversation whose keys were not renewed for that eighth renews all of them, in the
background.

A conversation that may be new is written without its version, so that no lookup finds it. It gets
the version once the mark of its scope was read. A deletion of the scope writes the mark, and then
walks over all conversations: one of the two sees the other.

What removes something is a script, so nothing that another replica adds in between is lost. A
server that refuses scripts keeps ids of deleted conversations in its keys; they lead to nothing.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from redis.exceptions import OutOfMemoryError
from typing_extensions import override

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    MET_S,
    VERSION_BITS,
    Bounds,
    Codec,
    Deleted,
    Name,
    Page,
    Store,
    StoredConversation,
    StoreResult,
    VersionChange,
    decoded,
    encoded,
)
from reasoning_replay.adapters.stores.redis.commands import (
    ID_BYTES,
    Commands,
    fault_when_full,
    hash_of,
    ids_of,
    number_of,
    raise_first,
)
from reasoning_replay.adapters.stores.redis.errors import FAILURES, store_error
from reasoning_replay.adapters.stores.redis.executor import Command, RedisExecutor
from reasoning_replay.adapters.stores.redis.pages import page_of
from reasoning_replay.adapters.stores.redis.renewals import Renewals
from reasoning_replay.adapters.stores.redis.scripts import (
    BYTES,
    DELETED,
    NUMBERS,
    RENEWED,
    TURNS,
    VERSION,
    remove_ids,
    trim,
    trim_key,
    version_step,
)
from reasoning_replay.core.history.lookup_keys import Lookup, choose, keys_of_turn
from reasoning_replay.core.history.records import is_head, turns_of

# Lookups that load conversations at once. Each may load six of `max_bytes`, which no memory budget
# counts; with local copies, few lookups load any.
LOADS_AT_ONCE = 4


class RedisStore(Store):
    """Store in Redis; every failure is a StoreError."""

    def __init__(
        self,
        link: RedisExecutor,
        bounds: Bounds,
        prefix: str = "rr",
        codec: Codec | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Use an executor; `close` closes it.

        Args:
            link: As returned by `connect.connect`.
            bounds: Limits of each conversation.
            prefix: Prefix of every key in Redis.
            codec: Stored form of values; None: plain.
            clock: Seconds since the epoch, as replicas share the Redis.
        """
        self._link = link
        self._commands = Commands(link)
        self._run, self._all = self._commands.run, self._commands.all
        self._bounds = bounds
        self._prefix = prefix
        self._clock = clock
        self._renewals = Renewals(self._commands, bounds.ttl_s, clock)
        self._key_ttl_s = self._renewals.key_ttl_s
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self.codec = codec

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        keys = list(dict.fromkeys(key for item in lookups for key in item.keys))
        if not (keys or held):
            return StoreResult()
        ttl_s = self._bounds.ttl_s
        before = dict(held)
        names = [self._place((scope, conversation)) for conversation in before]
        commands: list[Command] = [("HMGET", name, VERSION, RENEWED, DELETED) for name in names]
        commands += [("EXPIRE", name, ttl_s) for name in names]
        try:
            (mark, *strings), results = await self._link.read(
                [self._mark_name(scope), *(self._index_name(scope, key) for key in keys)], commands
            )
        except FAILURES as error:
            raise store_error(error) from error
        # A read-only Redis rejects EXPIRE. It can still be read, so only errors of HMGET count.
        numbers = results[: len(before)]
        raise_first(numbers)
        found = {key: ids_of(string) for key, string in zip(keys, strings, strict=True)}
        choice = choose(lookups, found.__getitem__)
        kept: dict[bytes, StoredConversation] = {}
        stale: dict[bytes, None] = {}
        deleted: set[bytes] = set()
        for (conversation, ours), found_there in zip(before.items(), numbers, strict=True):
            version, renewed, is_deleted = found_there
            if is_deleted:
                deleted.add(conversation)
            elif version is not None and (now := number_of(version)) in (ours, held[conversation]):
                kept[conversation] = StoredConversation(conversation, now, None)
                self._renew_if_due((scope, conversation), renewed)
            elif version is not None:
                stale[conversation] = None
        chosen = {name: None for name in choice.conversations if name not in held}
        for one in await self._load(scope, [*chosen, *stale]):
            kept[one.conversation] = one
        order = dict.fromkeys([*choice.conversations, *held])
        found_all = [kept[name] for name in order if name in kept]
        return StoreResult(found_all, choice.crowded, deleted, mark or b"")

    @override
    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        place, step = self._place(name), version_step()
        written: list[bytes] = []
        for record in encoded(self.codec, name, records).items():
            written += record
        # Records before the version, so that no version is visible without all of its records.
        commands: list[Command] = [("HSET", place, *written)] if written else []
        commands += [
            ("HINCRBY", place, BYTES, sum(map(len, written[1::2]))),
            ("HINCRBY", place, TURNS, sum(map(is_head, records))),
            ("HSETNX", place, RENEWED, int(self._clock())),
        ]
        begun: list[Any] = []
        if mark is not None and not is_stored:
            begun = await self._begin(name, commands, mark)
            commands.clear()
        commands += [
            ("HSETNX", place, VERSION, secrets.randbits(VERSION_BITS)),
            ("HINCRBY", place, VERSION, step),
            ("EXPIRE", place, self._bounds.ttl_s),
            ("HGET", place, DELETED),
        ]
        index = [self._index_name(name[0], key) for key in keys]
        for index_name in index:
            commands += [("APPEND", index_name, name[1]), ("EXPIRE", index_name, self._key_ttl_s)]
        results = begun + await self._all(commands)
        record_bytes, turns, _, is_new, version, _, is_deleted, *lengths = results[bool(written) :]
        if is_deleted:
            await self._take_back(name, written[::2], index)
            raise Deleted
        if is_new and mark is not None and not begun:  # it has expired, or was evicted
            await self._refuse_deleted(name, mark, await self._all([self._ask_mark(name[0])]))
        change = VersionChange(int(version) - step, int(version))
        if turns > 1 and (record_bytes > self._bounds.max_bytes or turns > self._bounds.max_turns):
            trimmed = await trim(self._commands, place, self._bounds)
            if trimmed is not None and trimmed != change.after:
                change = VersionChange(None, trimmed)
        for index_name, length in zip(index, lengths[::2], strict=True):
            if length > 2 * CONVERSATIONS_PER_KEY * ID_BYTES:
                await trim_key(self._commands, index_name, self._key_ttl_s)
        return change

    @override
    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        return await page_of(self._link, self._prefix, scope, cursor, limit)

    @override
    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        # It is marked first: a save that comes later takes itself back, and what an earlier one has
        # written is read here. The index entries are deleted next: only the records show which keys
        # lead here.
        name = (scope, conversation)
        place = self._place(name)
        mark: list[Command] = [
            ("HSET", place, DELETED, 1),
            ("EXPIRE", place, self._bounds.marked_s),
        ]
        *marked, answer = await self._run([*(mark if is_final else ()), ("HGETALL", place)])
        # A full Redis refuses to write. Then there is room for the mark after the deletion.
        raise_first([answer, *(one for one in marked if not isinstance(one, OutOfMemoryError))])
        kept = hash_of(answer)
        # If the server refuses a script, its key leads to a conversation that does not exist.
        await self._run(await self._removed_from_index(name, kept))
        fields = [field for field in kept if field != DELETED]
        if DELETED not in kept:
            await self._all([("DEL", place), *(mark if is_final else ())])
        elif fields:
            await self._all([("HDEL", place, *fields)])
        return BYTES in kept

    @override
    async def mark(self, scope: bytes) -> bytes:
        made = secrets.token_bytes(ID_BYTES)
        name = self._mark_name(scope)
        await self._all([("SET", name, made, "EX", self._bounds.marked_s)])
        return made

    @override
    async def meet(self, own: bytes) -> Sequence[bytes]:
        name, now = f"{self._prefix}:2:s", int(self._clock())
        *_, answer = await self._all(
            [("HSET", name, own, now), ("EXPIRE", name, MET_S), ("HGETALL", name)]
        )
        met = {mark: number_of(seen) for mark, seen in hash_of(answer).items()}
        if gone := [mark for mark, seen in met.items() if seen < now - MET_S]:
            await self._all([("HDEL", name, *gone)])
        return [mark for mark in met if mark not in gone]

    @override
    async def when_full(self) -> str:
        (told,) = await self._all([("INFO", "memory")])
        return fault_when_full(told)

    @override
    async def usage(self) -> None:
        pass

    @override
    async def check(self) -> None:
        try:
            await self._link.check()
        except FAILURES as error:
            raise store_error(error) from error

    @override
    async def close(self) -> None:
        try:
            await self._renewals.close()
        finally:
            await self._link.close()

    async def _begin(self, name: Name, commands: Sequence[Command], mark: bytes) -> list[Any]:
        """Write a conversation that may be new, without its version; return the results."""
        first = [*commands, ("EXPIRE", self._place(name), self._bounds.ttl_s)]
        ask = self._ask_mark(name[0])
        if self._link.is_in_order:
            *results, now = await self._all([*first, ask])
        else:
            results = await self._all(first)
            (now,) = await self._all([ask])
        await self._refuse_deleted(name, mark, [now])
        return results[: len(commands)]

    async def _refuse_deleted(self, name: Name, mark: bytes, now: Sequence[bytes | None]) -> None:
        """Delete a conversation again, and raise Deleted, if its scope has another mark now."""
        if now[0] and now[0] != mark:
            await self.forget(*name)
            raise Deleted(now[0])

    async def _take_back(self, name: Name, fields: Sequence[bytes], index: Sequence[str]) -> None:
        """Remove what a save has written to a conversation that was deleted."""
        place = self._place(name)
        await self._run([remove_ids(one, name[1], self._key_ttl_s) for one in index])
        expire = ("EXPIRE", place, self._bounds.marked_s)
        numbers = (VERSION, BYTES, TURNS, RENEWED)
        await self._all([("HDEL", place, *fields, *numbers), expire])

    async def _load(self, scope: bytes, conversations: Sequence[bytes]) -> list[StoredConversation]:
        """Return the conversations that exist, and extend their expiry; one round trip if any."""
        if not conversations:
            return []
        names = [self._place((scope, conversation)) for conversation in conversations]
        commands: list[Command] = [("HGETALL", name) for name in names]
        commands += [("EXPIRE", name, self._bounds.ttl_s) for name in names]
        async with self._loads:
            hashes = (await self._run(commands))[: len(names)]
        raise_first(hashes)
        loaded = []
        for conversation, kept in zip(conversations, map(hash_of, hashes), strict=True):
            if VERSION in kept and DELETED not in kept:
                name = (scope, conversation)
                records = self._records(name, kept)
                loaded.append(StoredConversation(conversation, number_of(kept[VERSION]), records))
                self._renew_if_due(name, kept.get(RENEWED))
        return loaded

    def _records(self, name: Name, kept: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the records of a hash that can be decoded."""
        records = {field: value for field, value in kept.items() if field not in NUMBERS}
        return decoded(self.codec, name, records)

    async def _removed_from_index(self, name: Name, kept: Mapping[bytes, bytes]) -> list[Command]:
        """Return the commands that remove a conversation from all its keys."""
        index = await self._keys_of(name, kept)
        return [remove_ids(one, name[1], self._key_ttl_s) for one in index]

    def _renew_if_due(self, name: Name, renewed: bytes | None) -> None:
        self._renewals.begin_if_due(name, self._place(name), renewed, self._index_of)

    async def _index_of(self, name: Name) -> list[str]:
        """Return the names of all keys of a conversation, as its records tell; [] without any."""
        (answer,) = await self._all([("HGETALL", self._place(name))])
        return await self._keys_of(name, hash_of(answer))

    async def _keys_of(self, name: Name, kept: Mapping[bytes, bytes]) -> list[str]:
        """Return the names of all keys of a conversation, given its hash."""

        def names() -> list[str]:
            turns = turns_of(name[1], self._records(name, kept))
            keys = dict.fromkeys(key for turn in turns for key in keys_of_turn(turn))
            return [self._index_name(name[0], key) for key in keys]

        return await asyncio.to_thread(names)

    def _place(self, name: Name) -> str:
        return f"{self._prefix}:2:{{{name[0].hex()}:{name[1].hex()}}}"

    def _mark_name(self, scope: bytes) -> str:
        return f"{self._prefix}:2:d:{scope.hex()}"

    def _ask_mark(self, scope: bytes) -> Command:
        return ("GET", self._mark_name(scope))

    def _index_name(self, scope: bytes, key: bytes) -> str:
        return f"{self._prefix}:2:k:{scope.hex()}:{key.hex()}"
