"""Own store: where a person's proxy keeps reasoning if no setting names a store."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote


def own_store_url(environ: Mapping[str, str]) -> str:
    """
    Return the address of a SQLite file in the user's state folder; "" if there can be none.

    Containers and services have no such folder, or may not write to it: they keep `memory://`.
    """
    named = environ.get("XDG_STATE_HOME", "")  # the XDG Base Directory Specification
    home = environ.get("HOME", "")
    state = Path(named) if Path(named).is_absolute() else Path(home) / ".local" / "state"
    if not state.is_absolute():
        return ""
    folder = state / "reasoning-replay"
    # Unlike `Path.exists`, this does not raise where a service may not look into the home folder.
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):  # noqa: PTH112
        return ""
    return "sqlite://" + quote(os.fsencode(folder / "replay.db"))


def is_own(store_url: str) -> bool:
    """Return whether an address is that of this user's own store."""
    return store_url == own_store_url(os.environ)


def make_folder(store_url: str) -> None:
    """Create the folder of a user's own store; if that fails, the store says so."""
    folder = Path(unquote(store_url.removeprefix("sqlite://"))).parent
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
