"""The local table without a store, as a store: for the contract that all stores share."""

from collections.abc import Collection, Mapping, Sequence

from reasoning_replay.adapters.resilience.local_table import LocalTable
from reasoning_replay.adapters.stores.base import (
    Codec,
    Name,
    Page,
    Store,
    StoredConversation,
    StoreResult,
    StoreUsage,
    VersionChange,
)
from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.core.history.records import records_of
from typing_extensions import override


class TableStore(Store):
    """A store that reads and writes the rows of a table; it has no versions and no marks."""

    codec: Codec | None = None

    def __init__(self, table: LocalTable) -> None:
        self.table = table

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        rows, crowded = self.table.choose(scope, lookups)
        found = []
        for conversation, row in rows.items():
            records = {k: v for turn in row.decoded() for k, v in records_of(turn).items()}
            found.append(StoredConversation(conversation, 0, records))
        return StoreResult(found, crowded)

    @override
    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        row = self.table.write(name, records, dict.fromkeys(keys, True))
        assert row is not None
        return VersionChange(0, 0)

    @override
    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        return await self.table.survey(scope, cursor, limit)

    @override
    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        name = (scope, conversation)
        return self.table.note_deletion(name) if is_final else self.table.discard(name)

    @override
    async def mark(self, scope: bytes) -> bytes:
        raise NotImplementedError

    @override
    async def usage(self) -> StoreUsage:
        return await self.table.usage()
