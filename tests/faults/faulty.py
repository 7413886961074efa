"""A store that does what it should, but for the calls that it is told to fail."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from reasoning_replay.adapters.stores.base import Page, Store, StoreResult
from reasoning_replay.core.history.lookup_keys import Lookup

__all__ = ["Act", "Failing", "Faulty", "after_all", "gives", "hangs", "raises"]

Act = Callable[[], Awaitable[Any]]
# What is done instead of a call; it may make that call.
Failing = Callable[[Act], Awaitable[Any]]


class Faulty:
    """
    A store that fails when it is told.

    Attributes:
        calls: How many there were of each operation, since it was told last.
        struck: How many of them failed.
    """

    def __init__(self, inner: Store, *, is_embedded: bool = False) -> None:
        """Fail nothing yet; `inner` does the work. An embedded one counts as never waiting."""
        self.is_embedded = is_embedded
        self._inner = inner
        self._failing: Failing | None = None
        self._picks: Callable[[int], bool] = lambda _: False
        self.calls: Counter[str] = Counter()
        self.struck = 0

    def fails(self, failing: Failing | None, picks: Callable[[int], bool]) -> None:
        """Fail the calls, counted from now on and from 0, that are picked."""
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
        """As the store, or not."""
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
        """As the store, or not."""
        version: int = await self._do(
            "save", lambda: self._inner.save(scope, conversation, records, keys)
        )
        return version

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As the store, or not."""
        page: Page = await self._do("survey", lambda: self._inner.survey(scope, cursor, limit))
        return page

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As the store, or not."""
        is_done: bool = await self._do("forget", lambda: self._inner.forget(scope, conversation))
        return is_done

    async def check(self) -> None:
        """As the store, or not."""
        await self._do("check", self._inner.check)

    async def close(self) -> None:
        """As the store."""
        await self._inner.close()


def raises(error: BaseException) -> Failing:
    """Raise it."""

    async def fail(_: Act) -> None:
        raise error

    return fail


def after_all(error: Exception) -> Failing:
    """Do it, and then raise."""

    async def fail(act: Act) -> None:
        await act()
        raise error

    return fail


def hangs() -> Failing:
    """Never answer."""

    async def fail(_: Act) -> None:
        await asyncio.Event().wait()

    return fail


def gives(garbage: object) -> Failing:
    """Give something that nobody expects."""

    async def fail(_: Act) -> object:
        return garbage

    return fail
