"""Address of a SQLite file: `sqlite:///path`."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typing_extensions import override

from reasoning_replay.adapters.stores.address import (
    Advice,
    Opening,
    StoreAddress,
    advice_of,
    read_path,
)
from reasoning_replay.adapters.stores.base import Store

_EXAMPLE: Final = "sqlite:///var/lib/replay/replay.db"
# (pattern of an error message, the way out, whether only a person can end it)
_ADVICE: Final = (
    ("not a database", "use another file, or a path that does not exist yet", True),
    ("another program's database|by a newer version", "", True),
    (
        "is malformed",
        "the proxy sets the file aside when it next uses it, and begins a new one",
        False,
    ),
    ("read transaction", "end that program: a shell of sqlite, or a backup", False),
    (
        "unable to open",
        "store_url must name a file, not a folder; this user needs write access",
        True,
    ),
    ("readonly database|cannot be used: Perm", "this user needs write access to the file", True),
    ("support a write-ahead log", "put the file on a local disk", True),
)


@dataclass(frozen=True, slots=True)
class SqliteAddress(StoreAddress):
    """Path of the file."""

    title = "SQLite"
    schemes = ("sqlite",)
    examples = ("sqlite:///path",)
    settings = frozenset({"store_max_bytes"})

    path: str

    @classmethod
    @override
    def read(cls, scheme: str, rest: str) -> "SqliteAddress":
        if "?" in rest:
            raise ValueError("sqlite:// has no options; the limit of its size is store_max_bytes")
        return cls(read_path(rest, _EXAMPLE))

    @override
    def open(self, opening: Opening) -> Store:
        from reasoning_replay.adapters.stores.sqlite.store import SqliteStore  # noqa: PLC0415 (see `address`)

        return SqliteStore(
            self.path,
            opening.bounds,
            opening.max_bytes,
            opening.timeout_s,
            time.time,
            codec=opening.codec,
            on_aside=opening.on_aside,
        )

    @override
    def advice(self, fault: str, *, has_worked: bool = False) -> Advice:
        if of_folder := _folder_fault(Path(self.path).parent):
            way_out = f"{of_folder}. Three slashes begin the whole path"
            return Advice(way_out if self._is_in_root else of_folder, is_lasting=True)
        return advice_of(_ADVICE, fault)

    @override
    def doubts(self) -> Iterator[str]:
        if self._is_in_root:
            yield (
                f"store_url sqlite://{self.path} is a file in the root folder, because three "
                f"slashes begin a whole path: write all of it, as in {_EXAMPLE}"
            )

    @property
    def _is_in_root(self) -> bool:
        return self.path.count("/") == 1


def _folder_fault(folder: Path) -> str:
    """Return why SQLite cannot create its file and two more in a folder; "" if it can."""
    if not folder.is_dir():
        return f"there is no folder {folder}; create it, with write access for the proxy's user"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user has no write access to {folder}; SQLite creates three files there"
    return ""
