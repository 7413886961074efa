"""Registry of the kinds of stores: the one place that lists them all."""

import re
from typing import Final

from reasoning_replay.adapters.stores.address import StoreAddress
from reasoning_replay.adapters.stores.memory.address import MemoryAddress
from reasoning_replay.adapters.stores.redis.address import RedisAddress
from reasoning_replay.adapters.stores.sqlite.address import SqliteAddress

KINDS: Final[list[type[StoreAddress]]] = [MemoryAddress, SqliteAddress, RedisAddress]


def read_store_url(url: str) -> StoreAddress:
    """
    Return the address of a store.

    Raises:
        ValueError: It is malformed, of an unknown kind, or has an unknown option; with a way out.
            No message quotes the URL, since it may have a password.
    """
    *most, last = [example for kind in KINDS for example in kind.examples]
    choice = f"{', '.join(most)} or {last}"
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("has a space or a control character; percent-encode it, a space as %20")
    if "://" not in url:
        raise ValueError(f"not a URL; start it with {choice}")
    if "#" in url:
        raise ValueError('has a "#"; remove it, or write it as %23 in a password')
    scheme, _, rest = url.partition("://")
    for kind in KINDS:
        if scheme in kind.schemes:
            return kind.read(scheme, rest)
    shown = scheme if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,20}", scheme) else "***"
    raise ValueError(f'unknown scheme "{shown}"; use {choice}')


def sentence(store_url: str, fault: str) -> str:
    """Return a store error with its way out, as `check` and a refused start say it."""
    fault = fault.rstrip(".")
    way_out = read_store_url(store_url).advice(fault).way_out
    return f"{fault}; {way_out}" if way_out else fault
