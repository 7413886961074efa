"""Redis scripts: changes that remove something, so that nothing added in between is lost."""

import secrets
from collections.abc import Sequence

from redis.exceptions import NoPermissionError, ResponseError

from reasoning_replay.adapters.stores.base import CONVERSATIONS_PER_KEY, VERSION_BITS, Bounds
from reasoning_replay.adapters.stores.redis.commands import (
    ID_BYTES,
    Commands,
    hash_of,
    ids_of,
    raise_first,
)
from reasoning_replay.adapters.stores.redis.executor import Command
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.records import turn_of_record

# Fields of a conversation; all others are records.
VERSION, BYTES, TURNS, DELETED, RENEWED = b"v", b"b", b"t", b"d", b"r"
NUMBERS = frozenset({VERSION, BYTES, TURNS, RENEWED, DELETED})

# Both scripts delete before they write: a full Redis allows that, but no write that comes first.
#
# Remove an id (ARGV[1]; "": none) from a key, and all but its newest ids; renew it (ARGV[2]: TTL).
_REMOVE = f"""\
local kept = redis.call('GET', KEYS[1])
if not kept then return 0 end
local seen, newest = {{[ARGV[1]] = true}}, {{}}
for at = #kept - #kept % {ID_BYTES} - {ID_BYTES - 1}, 1, -{ID_BYTES} do
  local id = string.sub(kept, at, at + {ID_BYTES - 1})
  if not seen[id] and #newest < {CONVERSATIONS_PER_KEY} then
    seen[id] = true
    table.insert(newest, 1, id)
  end
end
redis.call('DEL', KEYS[1])
if #newest > 0 then redis.call('SET', KEYS[1], table.concat(newest), 'EX', ARGV[2]) end
return #newest"""
# Drop fields (from ARGV[5] on) of a conversation that still has a version (ARGV[1]), add to that
# (ARGV[2]), and set its bytes and turns (ARGV[3], ARGV[4]). Return its version; nil if another
# replica has changed it.
_TRIM = f"""\
if redis.call('HGET', KEYS[1], '{VERSION.decode()}') ~= ARGV[1] then return false end
for at = 5, #ARGV do redis.call('HDEL', KEYS[1], ARGV[at]) end
redis.call('HSET', KEYS[1], '{BYTES.decode()}', ARGV[3], '{TURNS.decode()}', ARGV[4])
return redis.call('HINCRBY', KEYS[1], '{VERSION.decode()}', ARGV[2])"""


def remove_ids(name: str, conversation: bytes, ttl_s: int) -> Command:
    """Return the command that removes an id (b"": none) from a key, and all but its newest ids."""
    return _script(_REMOVE, name, conversation, ttl_s)


def _trim(
    name: str, version: bytes, step: int, counters: tuple[int, int], fields: Sequence[bytes]
) -> Command:
    """
    Return the command that drops fields of a conversation, unless a replica has changed it.

    The result of the command is the new version; None if the conversation has not this version.

    Args:
        name: The conversation.
        version: The version that it must still have.
        step: What to add to the version.
        counters: Its bytes and turns without these fields.
        fields: Names of the fields.
    """
    return _script(_TRIM, name, version, step, *counters, *fields)


def is_refused(result: object) -> bool:
    """Return whether the server runs no scripts, or none of this user."""
    return isinstance(result, NoPermissionError) or (
        isinstance(result, ResponseError) and "unknown command" in str(result)
    )


async def trim(commands: Commands, place: str, bounds: Bounds) -> int | None:
    """
    Trim a conversation and correct its counters.

    Returns:
        The version; None if it is the one that the save returned, or if another replica has
        changed the conversation meanwhile. That replica trims it.
    """
    (answer,) = await commands.all([("HGETALL", place)])
    kept = hash_of(answer)
    sizes = {field: len(value) for field, value in kept.items() if field not in NUMBERS}
    drop = what_to_drop(sizes, bounds)
    for field in drop:
        del sizes[field]
    counters = (sum(sizes.values()), len(set(map(turn_of_record, sizes))))
    version = kept.get(VERSION, b"")
    step = version_step() if drop else 0
    (result,) = await commands.run([_trim(place, version, step, counters, drop)])
    if not is_refused(result):
        raise_first([result])
        return result if result is None else int(result)
    writes: list[Command] = [
        ("HSET", place, BYTES, counters[0], TURNS, counters[1]),
        ("EXPIRE", place, bounds.ttl_s),  # HSET creates one that was deleted meanwhile
    ]
    if not drop:
        await commands.all(writes)
        return None
    writes += [("HDEL", place, *drop), ("HINCRBY", place, VERSION, step)]
    return int((await commands.all(writes))[-1])


async def trim_key(commands: Commands, name: str, ttl_s: int) -> None:
    """Reduce a key to its newest CONVERSATIONS_PER_KEY conversations."""
    (result,) = await commands.run([remove_ids(name, b"", ttl_s)])
    if not is_refused(result):
        raise_first([result])
        return
    # Without a script, an id that another replica adds in between is lost. That is harmless
    # only if so many others are left that the key stays ambiguous.
    (kept,) = await commands.all([("GET", name)])
    newest = list(dict.fromkeys(reversed(ids_of(kept))))[:CONVERSATIONS_PER_KEY]
    if len(newest) == CONVERSATIONS_PER_KEY:
        left = b"".join(reversed(newest))
        await commands.all([("SET", name, left, "EX", ttl_s)])


def version_step() -> int:
    """
    Return what to add to a version, of either sign, so that the sum stays within 64 bits.

    It is random: after the store returned to older data, an increment that is always the same would
    lead to a version that a local copy of lost turns has.
    """
    return secrets.randbits(VERSION_BITS) - (1 << (VERSION_BITS - 1))


def _script(text: str, name: str, *arguments: str | bytes | int) -> Command:
    """Return the command that runs a script on one key. They are rare, so the text is sent."""
    return ("EVAL", text, 1, name, *arguments)
