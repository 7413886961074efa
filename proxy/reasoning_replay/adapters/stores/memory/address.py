"""Address `memory://`: the local table of a process is all there is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from typing_extensions import override

from reasoning_replay.adapters.stores.address import Grade, Opening, StoreAddress


@dataclass(frozen=True, slots=True)
class MemoryAddress(StoreAddress):
    """Address of a store that ends with its process."""

    title = "the memory of one process"
    schemes = ("memory",)
    examples = ("memory://",)
    settings = frozenset({"store_max_bytes"})
    is_table = True

    @classmethod
    @override
    def read(cls, scheme: str, rest: str) -> "MemoryAddress":
        if rest:
            raise ValueError("has text after memory://; remove it, the limit is store_max_bytes")
        return cls()

    @override
    def open(self, opening: Opening) -> None:
        return None

    @override
    def findings(self, max_bytes: str, environ: Mapping[str, str]) -> Iterator[tuple[Grade, str]]:
        room = f"up to {max_bytes} in this process"
        words = f"memory: {room}, lost at a restart and not shared: run one replica"
        if "KUBERNETES_SERVICE_HOST" in environ:
            yield "warning", f"{words}, or set store_url to a Redis"
        else:
            yield "ok", words
