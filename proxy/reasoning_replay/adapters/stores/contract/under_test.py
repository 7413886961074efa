"""Store under test, as the contract needs it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from reasoning_replay.adapters.stores.base import Bounds, Store


@dataclass(frozen=True, slots=True)
class StoreUnderTest:
    """
    One empty store.

    Attributes:
        opens: Returns a client with these bounds; all clients see the same data.
        passes: Lets a number of seconds pass.
        names: Returns the names of all that is stored; none when all is gone. None: not looked at.
        counts: Returns the number of stored conversations that a key of SCOPE leads to. None: not
            looked at.
        damages: Overwrites the value of a record in conversation c. None: not tried.
        keys_outlive: Whether keys may outlive their conversations a little.
    """

    opens: Callable[[Bounds], Store]
    passes: Callable[[float], Awaitable[None]]
    names: Callable[[], Awaitable[Sequence[object]]] | None = None
    counts: Callable[[bytes], Awaitable[int]] | None = None
    damages: Callable[[bytes, bytes], Awaitable[None]] | None = None
    keys_outlive: bool = False
