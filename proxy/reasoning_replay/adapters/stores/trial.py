"""Trial of a store: a test turn is saved, looked up and deleted, as `serve` and `check` do it."""

import secrets
from collections.abc import Awaitable, Callable, Mapping

from reasoning_replay.adapters.stores.base import Store, StoreError
from reasoning_replay.core.history.lookup_keys import Lookup, id_keys_of_turn
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.turns import Context, Turn


class Trial:
    """
    One trial, in a scope of its own with a random name.

    Attributes:
        steps: The operations in their order, by the label that they have in the metrics. Each may
            raise StoreError.
    """

    def __init__(self, store: Store) -> None:
        """Prepare the trial; nothing is stored yet."""
        self._store = store
        self._name = secrets.token_bytes(16), secrets.token_bytes(16)
        own = self._name[1]
        turn = Turn(own, own, b"", (), False, 0, Context(), ())  # noqa: FBT003 - not stored upstream
        self._key, self._records = id_keys_of_turn(turn)[0], records_of(turn)
        self.steps: Mapping[str, Callable[[], Awaitable[object]]] = {
            "check": store.check,
            "save": self._save,
            "recall": self._find,
        }

    async def _save(self) -> None:
        await self._store.save(self._name, self._records, [self._key])

    async def _find(self) -> None:
        result = await self._store.look_up(self._name[0], [Lookup(0, [self._key])], {})
        if [kept.records for kept in result.conversations] != [self._records]:
            raise StoreError("the turn that was just saved is not found")

    async def delete(self) -> None:
        """
        Delete the test turn.

        Raises:
            StoreError: It stays until it expires.
        """
        await self._store.forget(*self._name)
