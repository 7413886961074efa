"""
Cache keys: the `prompt_cache_key` that a request without one gets from its conversation.

Some clients send one to the vendor's own host only, so a proxy in between takes it away. The key
must not change within a conversation: upstream finds its cache by it. So it is stored with each
turn, and read from the turn that a request continues. It is derived only where nothing is stored:
from the tenant and the first message of the user, which a client that appends sends every time.
"""

from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire.digest import digest

_NAME = "prompt_cache_key"
# The kind of a refusal that names the member, in every dialect that has it.
CACHE_KEY = "cache_key"


def cache_key_of(scope: bytes, request: ParsedRequest[HistoryItem], parent: Turn | None) -> bytes:
    """
    Return the key of the conversation that a request continues, or begins; b"": it is not known.

    The scope is a keyed hash, so another tenant gets another key.
    """
    if parent is not None and parent.cache_key:
        return parent.cache_key
    first = request.decided.first or next(iter(request.said), b"")
    if request.is_stateful or not first:
        return b""
    return digest(b"cache key", scope, first)


def member_of(request: ParsedRequest[HistoryItem], key: bytes) -> bytes:
    """Return the member to add, after a comma; b"" if there is no key, or the client sent one."""
    if not key or _NAME in request.values:
        return b""
    return b',"%b":"%b"' % (_NAME.encode(), key.hex().encode())
