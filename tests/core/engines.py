"""Engines of a dialect, as tests need them."""

from collections.abc import Callable
from typing import Any

from reasoning_replay.core.dialects.base import Caller, Decision, Dialect, Question
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.room import Room


def engine_of(
    dialect: Dialect[Any, Any],
    clock: Callable[[], float] = lambda: 0.0,
    *,
    is_shadow: bool = False,
    adds_cache_keys: bool = False,
    compares_prompts: bool = False,
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
        compares_prompts=compares_prompts,
    )


def asked(engine: Engine, body: bytes, scope: bytes, path: str = "") -> Question:
    """Ask about a whole request, whatever is known of its beginning."""
    begun = engine.begun(body, scope, path).anew(Way.NEW)
    return engine.ask(body, {}, begun, path)


def answered(
    engine: Engine,
    caller: Caller,
    body: bytes,
    question: Question,
    found: LookupResult | None,
    *,
    is_created: bool = True,
) -> Decision:
    """Decide on a request; what is decided must hold."""
    return engine.decide(caller, body, question, found, is_created=is_created)
