"""Turns to save, and the lookups that find them again."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

from reasoning_replay.adapters.stores.base import Bounds, ConversationInfo, Store
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.records import records_of, turns_of
from reasoning_replay.core.history.turns import Context, Emitted, Reasoning, Turn

SCOPE = b"s" * 16
DAY = 86_400
WIDE = Bounds(ttl_s=DAY, max_turns=100, max_bytes=1 << 20)
BRIEF = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)


class Clock:
    """A clock that a test moves by hand."""

    now_s = 1e9

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s


def bytes_of(name: str) -> bytes:
    """Return the 16 bytes of an id, a scope or a key that has this name."""
    return blake2b(name.encode(), digest_size=16).digest()


key = bytes_of
OTHER = bytes_of("another scope")


def turn(name: str, conversation: str = "c", created_ms: int = 0, size: int = 10) -> Turn:
    """Return a turn of one call, with `size` bytes of reasoning before it."""
    part = Reasoning(f"rs_{name}", b"x" * size, (b"b" * 16,), has_blob=True)
    call = Emitted("function_call", f"fc_{name}", f"call_{name}", "f", b"d" * 16, (part,))
    return Turn(
        id=bytes_of(name),
        conversation=bytes_of(conversation),
        parent=b"",
        models=("gpt-5.4",),
        is_stored=True,
        created_ms=created_ms,
        context=Context(chain=b"c" * 16, tail=b"t" * 8, depth=1, is_known=True),
        items=(call,),
    )


def asked(*keys: bytes) -> list[Lookup]:
    """Return a lookup for each of several items that have one key each."""
    return [Lookup(place, [key]) for place, key in enumerate(keys)]


async def save(store: Store, one: Turn, keys: Collection[bytes], scope: bytes = SCOPE) -> int:
    """Save every record of a turn; return the version."""
    return (await store.save((scope, one.conversation), records_of(one), keys)).after


async def looked_up(
    store: Store,
    lookups: Sequence[Lookup],
    scope: bytes = SCOPE,
    held: Mapping[bytes, int] | None = None,
) -> LookupResult:
    """Look up items; return the turns of all conversations that the store finds."""
    result = await store.look_up(scope, lookups, held or {})
    turns = [one for kept in result.conversations for one in turns_of(kept[0], kept.records or {})]
    return LookupResult(turns, result.crowded)


async def found(store: Store, *names: str, scope: bytes = SCOPE) -> list[str]:
    """Look up the keys of these names; return the names of all turns found, oldest first."""
    return names_of(await looked_up(store, asked(*map(key, names)), scope))


def names_of(result: LookupResult) -> list[str]:
    """Return the names of the turns that were found, oldest first."""
    by_age = sorted(result.turns, key=lambda one: (one.created_ms, one.items[0].id))
    return [one.items[0].id.removeprefix("fc_") for one in by_age]


async def surveyed(
    store: Store, scope: bytes | None = None, limit: int = 100
) -> list[ConversationInfo]:
    """Return all stored conversations, page by page, in order of their names."""
    cursor = ""
    kept: list[ConversationInfo] = []
    for _ in range(200):
        page = await store.survey(scope, cursor, limit)
        kept += page.conversations
        cursor = page.next_cursor
        if not cursor:
            return sorted(kept, key=lambda one: (one.scope, one.conversation))
    raise AssertionError("the survey does not end")
