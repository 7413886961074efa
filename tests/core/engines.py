"""Engines of a dialect, as tests need them."""

from collections.abc import Callable
from typing import Any

from reasoning_replay.core.dialects.base import Dialect
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.room import Room


def engine_of(
    dialect: Dialect[Any, Any],
    clock: Callable[[], float] = lambda: 0.0,
    *,
    is_shadow: bool = False,
    adds_cache_keys: bool = False,
) -> Engine:
    """Return an engine that one thread uses, with a clock that stands still."""
    return Engine(
        dialect,
        clock,
        PrefixCache(Room(24 << 20)),
        1 << 20,
        epoch_ms=lambda: int(clock() * 1000),
        is_shadow=is_shadow,
        adds_cache_keys=adds_cache_keys,
    )
