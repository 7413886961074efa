"""Faulty store: a store that works, except for the calls that a test makes fail."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from reasoning_replay.adapters.stores.base import Page, Store, StoreResult, StoreUsage
from reasoning_replay.core.history.lookup_keys import Lookup

__all__ = ["Act", "Failing", "Faulty", "after_all", "gives", "hangs", "raises"]

Act = Callable[[], Awaitable[Any]]
# Replacement of a call; it may make the call itself.
Failing = Callable[[Act], Awaitable[Any]]


class Faulty:
    """
    Store that fails the calls that a test picks.

    Attributes:
        calls: Number of calls of each operation since the last `fails`.
        struck: Number of calls that failed since then.
    """

    def __init__(self, inner: Store, *, is_embedded: bool = False) -> None:
        """Wrap `inner`, and fail nothing yet. An embedded store counts as never waiting."""
        self.is_embedded = is_embedded
        self.codec = inner.codec
        self._inner = inner
        self._failing: Failing | None = None
        self._picks: Callable[[int], bool] = lambda _: False
        self.calls: Counter[str] = Counter()
        self.struck = 0

    def fails(self, failing: Failing | None, picks: Callable[[int], bool]) -> None:
        """Fail the picked calls; a call is picked by its number, counted from 0 from now on."""
        self._failing, self._picks = failing, picks
        self.calls, self.struck = Counter(), 0

    async def _do(self, operation: str, act: Act) -> Any:
        number = self.calls.total()
        self.calls[operation] += 1
        if self._failing is None or not self._picks(number):
            return await act()
        self.struck += 1
        return await self._failing(act)

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """Look up in the inner store, or fail."""
        found: StoreResult = await self._do(
            "recall", lambda: self._inner.look_up(scope, lookups, held)
        )
        return found

    async def save(
        self,
        scope: bytes,
        conversation: bytes,
        records: Mapping[bytes, bytes],
        keys: Sequence[bytes],
    ) -> int:
        """Save in the inner store, or fail."""
        version: int = await self._do(
            "save", lambda: self._inner.save(scope, conversation, records, keys)
        )
        return version

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Survey the inner store, or fail."""
        page: Page = await self._do("survey", lambda: self._inner.survey(scope, cursor, limit))
        return page

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """Delete from the inner store, or fail."""
        is_done: bool = await self._do("forget", lambda: self._inner.forget(scope, conversation))
        return is_done

    async def usage(self) -> StoreUsage | None:
        """As the store."""
        return await self._inner.usage()

    async def check(self) -> None:
        """Check the inner store, or fail."""
        await self._do("check", self._inner.check)

    async def close(self) -> None:
        """Close the inner store."""
        await self._inner.close()


def raises(error: BaseException) -> Failing:
    """Raise this error instead of the call."""

    async def fail(_: Act) -> None:
        raise error

    return fail


def after_all(error: Exception) -> Failing:
    """Make the call, then raise this error."""

    async def fail(act: Act) -> None:
        await act()
        raise error

    return fail


def hangs() -> Failing:
    """Never return."""

    async def fail(_: Act) -> None:
        await asyncio.Event().wait()

    return fail


def gives(garbage: object) -> Failing:
    """Return garbage instead of a result."""

    async def fail(_: Act) -> object:
        return garbage

    return fail
