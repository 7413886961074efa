"""The Redis store that replicas share: few round trips, and each failure is a StoreError."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, NoReturn

import pytest
from msgspec.structs import replace
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.base import CONVERSATIONS_PER_KEY, Bounds, StoreError
from reasoning_replay.adapters.stores.contract.turns import (
    SCOPE,
    asked,
    bytes_of,
    found,
    key,
    looked_up,
    save,
    turn,
)
from reasoning_replay.adapters.stores.redis import executor
from reasoning_replay.adapters.stores.redis.connect import Credentials
from reasoning_replay.adapters.stores.redis.connections import Tcp
from reasoning_replay.adapters.stores.redis.executor import Command, SingleServer
from reasoning_replay.adapters.stores.redis.pool import Pool
from reasoning_replay.adapters.stores.redis.store import LOADS_AT_ONCE, RedisStore
from reasoning_replay.core.history.lookup_keys import id_keys_of_turn, keys_of_turn
from reasoning_replay.core.history.records import records_of
from redis.asyncio import Redis

from tests.adapters.stores.kinds import ALLOWED, link_to
from tests.patience import SOON_S
from tests.redis_server import RedisServer

TTL_S = 1000
BOUNDS = Bounds(ttl_s=TTL_S, max_turns=10, max_bytes=1 << 20)


class Counting(Tcp):
    """A connection that counts writes; a pipeline is one write."""

    sent: ClassVar[int] = 0
    sent_bytes: ClassVar[int] = 0

    async def send_packed_command(self, command: Any, *args: Any, **kwargs: Any) -> None:
        """Count, and send as the base class does."""
        Counting.sent += 1
        Counting.sent_bytes += sum(map(len, [command] if isinstance(command, bytes) else command))
        await super().send_packed_command(command, *args, **kwargs)


@pytest.fixture
async def counted(shared_redis: RedisServer) -> AsyncIterator[RedisStore]:
    """Yield a store on a real, connected Redis, with the counter of round trips at 0."""

    async def counting() -> Counting:
        return Counting(host="127.0.0.1", port=shared_redis.port, protocol=2, resolver=Resolver())

    shared_redis.do("FLUSHALL")
    store = RedisStore(SingleServer(Pool(counting, 16, SOON_S)), BOUNDS)
    await store.check()
    Counting.sent = 0
    yield store
    await store.close()


@pytest.fixture
async def redis(shared_redis: RedisServer) -> AsyncIterator[Redis]:
    """Yield a client of an empty Redis."""
    redis = Redis.from_url(shared_redis.url)
    await redis.flushall()
    yield redis
    await redis.aclose()


@pytest.fixture
async def store(redis: Redis, shared_redis: RedisServer) -> AsyncIterator[RedisStore]:
    """Yield a store on this Redis."""
    store = RedisStore(link_to(shared_redis.url)(), BOUNDS)
    yield store
    await store.close()


async def test_a_save_is_one_round_trip(counted: RedisStore) -> None:
    """The number of keys that lead to a turn does not matter."""
    await save(counted, turn("a"), [key(f"{n}") for n in range(100)])
    assert Counting.sent == 1


async def test_a_save_that_trims_takes_two_more_round_trips(counted: RedisStore) -> None:
    """A trim leaves enough room for the next saves to take one round trip again."""
    for n in range(10):
        await save(counted, turn(f"{n}", created_ms=n), [])
    Counting.sent = 0
    await save(counted, turn("10", created_ms=10), [])
    assert Counting.sent == 3
    await save(counted, turn("11", created_ms=11), [])
    assert Counting.sent == 4


async def test_a_lookup_is_at_most_two_round_trips(counted: RedisStore) -> None:
    """A lookup takes one round trip if it finds nothing, and none if it asks nothing."""
    for n in range(5):
        await save(counted, turn(f"{n}", f"conversation {n}"), [key(f"{n}")])
    Counting.sent = 0
    await counted.look_up(SCOPE, asked(*(key(f"{n}") for n in range(300))), {})
    assert Counting.sent == 2
    await counted.look_up(SCOPE, asked(key("unknown")), {})
    assert Counting.sent == 3
    await counted.look_up(SCOPE, [], {})
    assert Counting.sent == 3


async def test_a_lookup_with_valid_copies_is_one_round_trip(counted: RedisStore) -> None:
    """Valid local copies take one round trip, and a second one loads outdated conversations."""
    held = {
        bytes_of(f"{n}"): await save(counted, turn(f"{n}", f"{n}"), [key(f"{n}")]) for n in range(3)
    }
    Counting.sent = 0
    await counted.look_up(SCOPE, asked(*(key(f"{n}") for n in range(3))), held)
    assert Counting.sent == 1
    await counted.look_up(SCOPE, asked(key("0")), held | {bytes_of("1"): 0})
    assert Counting.sent == 3


async def test_a_save_sends_the_new_records_and_little_else(counted: RedisStore) -> None:
    """A turn of 32 items, saved after each of them, sends at most 1.2 times its size in total."""
    begun = turn("a", size=20_000)
    whole = replace(begun, items=begun.items * 32)
    known: dict[bytes, bytes] = {}
    Counting.sent_bytes = 0
    for n in range(1, 33):
        snapshot = replace(whole, items=whole.items[:n])
        new = dict(records_of(snapshot).items() - known.items())
        await counted.save((SCOPE, whole.conversation), new, [key(f"{n} {m}") for m in range(7)])
        known |= new
    assert Counting.sent_bytes < 1.2 * sum(len(part.raw) for i in whole.items for part in i.run)


async def test_the_names_in_redis_have_the_documented_form(redis: Redis, store: RedisStore) -> None:
    """Names have a version and contain nothing that a client has written."""
    await save(store, turn("a"), [key("1")])
    conversation = f"rr:2:{{{SCOPE.hex()}:{bytes_of('c').hex()}}}"
    index = f"rr:2:k:{SCOPE.hex()}:{key('1').hex()}"
    assert sorted(await redis.keys()) == sorted([conversation.encode(), index.encode()])
    fields = [*records_of(turn("a")), b"v", b"b", b"t", b"r"]
    assert sorted(await redis.hkeys(conversation)) == sorted(fields)
    assert await redis.get(index) == bytes_of("c")


async def test_everything_has_a_ttl(redis: Redis, store: RedisStore) -> None:
    """Every key expires, also after it was trimmed."""
    for n in range(3 * CONVERSATIONS_PER_KEY):
        await save(store, turn(f"{n}", f"{n}"), [key("hi")])
    for n in range(30):
        await save(store, turn(f"{n}", created_ms=n), [key(f"{n}")])
    for name in await redis.keys():
        longest_s = TTL_S if b"{" in name else TTL_S * 9 // 8
        assert longest_s - 5 <= await redis.ttl(name) <= longest_s


async def test_an_error_does_not_contain_the_address() -> None:
    """Errors are logged, and a URL may contain a password."""
    store = RedisStore(link_to("redis://user:hunter2@127.0.0.1:1/0")(), BOUNDS)
    with pytest.raises(StoreError) as caught:
        await store.check()
    assert "hunter2" not in str(caught.value)
    await store.close()


async def test_a_value_of_another_program_is_a_store_error(redis: Redis, store: RedisStore) -> None:
    """A key of another type is a failure of the store, and is not overwritten."""
    await save(store, turn("a"), [key("1")])
    (name,) = await redis.keys("rr:2:{*")
    await redis.set(name, b"theirs")
    with pytest.raises(StoreError):
        await found(store, "1")
    with pytest.raises(StoreError):
        await save(store, turn("a"), [])
    assert await redis.get(name) == b"theirs"
    await redis.delete(name)


async def test_a_damaged_counter_is_a_store_error(redis: Redis, store: RedisStore) -> None:
    """The failure is local to its conversation, which can still be deleted."""
    await save(store, turn("a"), [key("1")])
    await redis.hset(f"rr:2:{{{SCOPE.hex()}:{bytes_of('c').hex()}}}", "v", "theirs")
    for held in ({}, {bytes_of("c"): 1}):
        with pytest.raises(StoreError) as caught:
            await store.look_up(SCOPE, asked(key("1")), held)
        assert caught.value.is_local
    with pytest.raises(StoreError):
        await save(store, turn("b"), [])
    assert await store.forget(SCOPE, bytes_of("c"))
    assert await found(store, "1") == []


async def test_a_damaged_index_entry_is_ignored(redis: Redis, store: RedisStore) -> None:
    """An index entry with an incomplete id leads to no conversation."""
    await redis.set(f"rr:2:k:{SCOPE.hex()}:{key('1').hex()}", b"half an")
    assert await found(store, "1") == []


async def test_a_conversation_can_be_deleted_when_redis_is_full(own_redis: RedisServer) -> None:
    """Deletion works without free memory, also if two conversations share a key."""
    store = RedisStore(link_to(own_redis.url)(), BOUNDS)
    for name in "ab":
        kept = turn(name, name)  # both say the same
        await save(store, kept, keys_of_turn(kept))
    own_redis.do("CONFIG", "SET", "maxmemory", "1")
    assert [await store.forget(SCOPE, bytes_of(name)) for name in "ab"] == [True, True]
    assert (await store.survey(None, "", 10)).conversations == []
    await store.close()


async def test_a_trim_does_not_create_a_deleted_conversation_again(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that is deleted between the reads and the writes of a trim stays deleted."""
    shared_redis.do("FLUSHALL")
    store, other = (RedisStore(link_to(shared_redis.url)(), BOUNDS) for _ in range(2))
    for n in range(BOUNDS.max_turns):
        await save(store, turn(f"{n}", created_ms=n), [])
    run = store._link.run

    async def runs(commands: Sequence[Command]) -> list[Any]:
        results = await run(commands)
        if commands[0][0] == "HGETALL":
            assert await other.forget(SCOPE, bytes_of("c"))
        return results

    monkeypatch.setattr(store._link, "run", runs)
    await save(store, turn("newest", created_ms=100), [])
    assert shared_redis.do("KEYS", "*") == []
    await store.close()
    await other.close()


async def test_without_scripts_nothing_is_hidden_and_nothing_grows(
    shared_redis: RedisServer,
) -> None:
    """A user without +eval deletes and saves; ids of deleted conversations lead to nothing."""
    shared_redis.do("FLUSHALL")
    shared_redis.do(
        "ACL", "SETUSER", "plain", "reset", "on", ">x", *ALLOWED.replace("+eval ", "").split()
    )
    store = RedisStore(link_to(shared_redis.url, Credentials("plain", "x"))(), BOUNDS)
    for name in "ab":
        said = turn(name, name)
        await save(store, said, [*keys_of_turn(said), key("both")])
    assert await store.forget(SCOPE, bytes_of("a"))
    assert await found(store, "both") == ["b"]

    for n in range(4 * CONVERSATIONS_PER_KEY):
        await save(store, turn(f"{n}", "polling", n), [key("polled")])
        await save(store, turn(f"{n}", f"{n}"), [key("hi")])
    assert await found(store, "polled")
    assert (await looked_up(store, asked(key("hi")))).crowded == {0}
    index = f"rr:2:k:{SCOPE.hex()}:{key('hi').hex()}"
    assert shared_redis.do("STRLEN", index) <= 2 * CONVERSATIONS_PER_KEY * 16
    (polling,) = [
        one
        for one in (await store.survey(SCOPE, "", 1000)).conversations
        if one.conversation == bytes_of("polling")
    ]
    assert polling.turns <= BOUNDS.max_turns
    await store.close()


async def test_few_lookups_load_conversations_at_once(
    counted: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may load many megabytes; further lookups wait for their turn."""
    said = turn("a")
    await save(counted, said, keys_of_turn(said))
    run = counted._link.run
    loading = most = 0

    async def runs(commands: Sequence[Command]) -> list[Any]:
        nonlocal loading, most
        is_load = commands[0][0] == "HGETALL"
        loading += is_load
        most = max(most, loading)
        try:
            await asyncio.sleep(0)
            return await run(commands)
        finally:
            loading -= is_load

    monkeypatch.setattr(counted._link, "run", runs)
    lookups = [counted.look_up(SCOPE, asked(id_keys_of_turn(said)[0]), {}) for _ in range(12)]
    assert all(result.conversations for result in await asyncio.gather(*lookups))
    assert most == LOADS_AT_ONCE


async def test_a_renewal_is_rare_and_in_the_background(counted: RedisStore) -> None:
    """Within an eighth of the TTL no lookup renews; a lookup takes one round trip in any case."""
    now = 0.0
    counted._clock = counted._renewals._clock = lambda: now
    said = turn("a")
    held = {said.conversation: await save(counted, said, keys_of_turn(said))}
    for now in (0.0, TTL_S / 8 - 2, TTL_S / 8 + 2, TTL_S / 4 - 2, -TTL_S):
        Counting.sent = 0
        await counted.look_up(SCOPE, asked(id_keys_of_turn(said)[0]), held)
        assert Counting.sent == 1
        renewing = list(counted._renewals.tasks.values())
        assert len(renewing) == (now in (TTL_S / 8 + 2, -TTL_S))
        await asyncio.gather(*renewing)


async def test_a_reply_of_another_protocol_is_a_store_error(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply in the form of another protocol is never read as a turn."""
    shared_redis.do("FLUSHALL")
    monkeypatch.setattr(executor, "_as_dict", list)
    store = RedisStore(link_to(shared_redis.url)(), BOUNDS)
    await save(store, turn("a"), [key("a")])
    with pytest.raises(StoreError, match="another protocol"):
        await found(store, "a")
    with pytest.raises(StoreError, match="another protocol"):
        await store.forget(SCOPE, turn("a").conversation)
    await store.close()


async def test_a_damaged_conversation_does_not_hide_the_others(
    store: RedisStore, redis: Redis
) -> None:
    """It is listed as damaged if another program has overwritten a counter, and can be deleted."""
    for name in "abc":
        await save(store, turn(name, conversation=name), [key(name)])
    await redis.hset(f"rr:2:{{{SCOPE.hex()}:{bytes_of('b').hex()}}}", "t", "junk")
    page = await store.survey(None, "", 100)
    damaged = {one.conversation: (one.is_damaged, one.turns) for one in page.conversations}
    assert damaged == {
        bytes_of("a"): (False, 1),
        bytes_of("b"): (True, 0),
        bytes_of("c"): (False, 1),
    }
    assert await store.forget(SCOPE, bytes_of("b"))


async def test_a_survey_that_fails_does_not_blame_the_cursor() -> None:
    """An error of the connection is none of the cursor, whatever its type is."""

    class Broken(SingleServer):
        async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
            raise ValueError("negative file descriptor")

    async def unused() -> NoReturn:
        raise AssertionError

    broken = RedisStore(Broken(Pool(unused, 1, SOON_S)), BOUNDS)
    with pytest.raises(ValueError, match="negative"):  # the safe store makes it a StoreError
        await broken.survey(None, "", 10)
