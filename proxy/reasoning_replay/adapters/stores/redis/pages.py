"""Pages of a survey: conversations by the names of their hashes, found by SCAN."""

import re

from reasoning_replay.adapters.stores.base import BadCursor, ConversationInfo, Page, StoreError
from reasoning_replay.adapters.stores.redis.commands import Commands, number_of
from reasoning_replay.adapters.stores.redis.errors import FAILURES, store_error
from reasoning_replay.adapters.stores.redis.executor import Command, RedisExecutor
from reasoning_replay.adapters.stores.redis.scripts import BYTES, DELETED, TURNS

# A conversation has about thirty keys in the index, and SCAN passes over all of them.
_SCANNED_PER_FOUND = 8
_SCANS = 200
# Of SCAN, and with the number of a node before it in a Cluster.
_CURSOR = re.compile(r"(\d{1,5}:)?\d{0,20}", re.ASCII)


async def page_of(
    link: RedisExecutor, prefix: str, scope: bytes | None, cursor: str, limit: int
) -> Page:
    """Return a page as `Store.survey` does; it may exceed `limit`, as SCAN returns batches."""
    if not _CURSOR.fullmatch(cursor) or int(cursor.rpartition(":")[2] or 0) >= 1 << 64:
        raise BadCursor
    begin = f"{prefix}:2:{{"
    pattern = f"{_literally(begin)}{scope.hex() + ':' if scope is not None else ''}*"
    count = min(max(limit * _SCANNED_PER_FOUND, 10), 10_000)
    names: dict[bytes, None] = {}
    try:
        for _ in range(_SCANS):
            cursor, found = await link.scan(cursor, pattern, count)
            names |= dict.fromkeys(found)
            if not cursor or len(names) >= limit:
                break
    except FAILURES as error:
        raise store_error(error) from error
    form = re.compile(re.escape(begin.encode()) + rb"([0-9a-f]{32}):([0-9a-f]{32})\}")
    places = [match for match in map(form.fullmatch, names) if match]
    commands: list[Command] = []
    for place in places:
        commands += [("HMGET", place[0], DELETED, BYTES, TURNS), ("TTL", place[0])]
    numbers = await Commands(link).run(commands)
    kept = []
    for place, counters, ttl_s in zip(places, numbers[::2], numbers[1::2], strict=True):
        # Skip deleted conversations, and values of other programs. One that is being created
        # has no version yet, but a deletion of its scope must find it.
        if not (isinstance(counters, list) and isinstance(ttl_s, int)):
            continue
        if None in counters[1:]:
            continue
        ids = (bytes.fromhex(place[1].decode()), bytes.fromhex(place[2].decode()))
        try:
            record_bytes, turns = map(number_of, counters[1:])
            kept.append(ConversationInfo(*ids, turns, record_bytes, ttl_s))
        except StoreError:
            kept.append(ConversationInfo(*ids, 0, 0, ttl_s, is_damaged=True))
    return Page(kept, cursor)


def _literally(text: str) -> str:
    """Escape a text so that SCAN matches it literally."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)
