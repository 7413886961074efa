"""
Store address: one class for each kind of store, which says all that others ask about that kind.

A kind is one folder. Its class is in its module `address` and is listed in `registry`; every URL of
such a store is read into an instance. These modules are imported with the settings, so they import
the packages of their store only to open it.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self
from urllib.parse import unquote

from reasoning_replay.adapters.stores.base import Bounds, Codec, Store

Grade = Literal["ok", "warning"]


class Advice(NamedTuple):
    """
    What is known about a store error.

    Attributes:
        way_out: What to do about it; "" if that is not known.
        is_lasting: Whether it stays until a person changes something, so that a start is in vain.
            What may pass never stops a start: a server that is down, full or without a master.
    """

    way_out: str = ""
    is_lasting: bool = False


@dataclass(frozen=True, slots=True)
class Opening:
    """
    What a store is opened with, except for its address.

    Attributes:
        bounds: Limits of each conversation.
        timeout_s: Timeout of an operation.
        max_bytes: Limit on all data, where the store has one of its own.
        password, password_file: They take precedence over a password in the address.
        codec: Stored form of values; None: plain.
        on_aside: Called with the new path of a malformed file that was set aside, and with the
            error. None: a malformed file stays where it is, and is an error.
    """

    bounds: Bounds
    timeout_s: float
    max_bytes: int
    password: str = field(default="", repr=False)
    password_file: str = ""
    codec: Codec | None = None
    on_aside: Callable[[Path, str], None] | None = None


class StoreAddress(ABC):
    """
    Address of a store of one kind.

    Attributes:
        title: Name of the kind in sentences.
        schemes: Schemes of its URLs.
        examples: URLs that a message suggests.
        settings: Those of the settings that only some kinds use, and this one does.
        is_table: Whether the local table of a process is all there is: no other process sees it.
    """

    title: ClassVar[str]
    schemes: ClassVar[Sequence[str]]
    examples: ClassVar[Sequence[str]]
    settings: ClassVar[frozenset[str]] = frozenset()
    is_table: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, scheme: str, rest: str) -> Self:
        """
        Return the address in a URL.

        Args:
            scheme: One of `schemes`.
            rest: What follows `://`; without spaces, control characters and fragments.

        Raises:
            ValueError: A reason with a way out. It does not quote the URL, which may have a
                password.
        """

    @abstractmethod
    def open(self, opening: Opening) -> Store | None:
        """Return the store, which connects on first use; None if `is_table`."""

    def advice(self, fault: str, *, has_worked: bool = False) -> Advice:
        """
        Return what is known about an error of this store.

        Args:
            fault: Text of the error, without secrets.
            has_worked: Whether the store has worked, so that its URL was right at that time.
        """
        return Advice()

    def doubts(self) -> Iterator[str]:
        """Yield what is valid and may still be a mistake, with the way out."""
        yield from ()

    def findings(self, max_bytes: str, environ: Mapping[str, str]) -> Iterator[tuple[Grade, str]]:
        """
        Yield what `check` tells without a trial of the store.

        Args:
            max_bytes: `Opening.max_bytes` with its unit.
            environ: The variables of the process.
        """
        yield from ()


def advice_of(rows: Sequence[tuple[str, str, bool]], fault: str) -> Advice:
    """Return the advice of the first row whose pattern an error has; each row ends as `Advice`."""
    found = (Advice(way_out, stays) for words, way_out, stays in rows if re.search(words, fault))
    return next(found, Advice())


def read_path(written: str, example: str) -> str:
    """Return the absolute path of a file in a URL; `example` is a URL with one."""
    path = re.sub("^/+", "/", unquote(written))  # some write four slashes, as for SQLAlchemy
    if not path.startswith("/"):
        raise ValueError(f"has no absolute path; use {example}, with three slashes")
    if path.endswith("/") or "\x00" in path:
        raise ValueError(f"names no file; use {example}")
    return path


def why_unreadable(path: str) -> str:
    """Return why a file cannot be read, without its path; "" if it can."""
    try:
        with Path(path).open("rb"):
            return ""
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "not a path"
