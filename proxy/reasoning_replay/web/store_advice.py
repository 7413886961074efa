"""Store advice: what to do about a store that fails, by its URL and its error."""

import os
import re
from pathlib import Path
from typing import Final

from reasoning_replay.settings.store_url import read_store_url

# (pattern of an error message, the way out); the first match counts.
WAYS_OUT: Final = (
    (
        "refuses the user or the pass",
        "set REPLAY_STORE_PASSWORD, and a user as in redis://user@host if needed; @ is %40 in one",
    ),
    ("name resolution|not known|nodename", "is the host in store_url spelt right?"),
    (
        "CERTIFICATE_VERIFY",
        "append ?ssl_ca_certs=/path to store_url: a PEM file with its CA certificate",
    ),
    ("not a node of a Cluster", "is it a Cluster? If not, write redis:// and not redis+cluster://"),
    ("is a node of a Cluster", "write redis+cluster:// and not redis://"),
    (
        "does not know the command",
        "is it a Sentinel? Then write redis+sentinel://host:26379/name-of-its-master",
    ),
    ("max number of clients", "raise its maxclients; docs/stores.md has the number of connections"),
    ("SSL", "does it use TLS? If not, write redis://, not rediss://"),
    ("names a master", "are these Sentinels, and is the master's name right?"),
    (
        "Connect call failed|Connection refused",
        "is it running, and are host and port in store_url right?",
    ),
    ("connecting to .* No such file", "is it running, and is the path in store_url right?"),
    (r"refused a command \(DB\)", "is there a database with that number? Usually 0 to 15"),
    ("it is a replica", "set store_url to its master, or to its Sentinels"),
    ("it is full", "raise its maxmemory, or set its maxmemory-policy to volatile-ttl"),
    ("not a database", "use another file, or a path that does not exist yet"),
    ("is malformed", "the proxy sets the file aside when it next uses it, and begins a new one"),
    ("read transaction", "end that program: a shell of sqlite, or a backup"),
    ("unable to open", "store_url must name a file, not a folder; this user needs write access"),
    ("InvalidResponse", "is it a Redis? Another server seems to listen there"),
    ("ACL", "docs/stores.md lists the permissions that the user needs"),
)
SILENT: Final = "did not (answer|respond)|reset by peer|closed by server"


def store_advice(store_url: str, fault: str, has_worked: bool = False) -> str:  # noqa: FBT001, FBT002 - also called by position
    """
    Return what to do about a store error; "" if that is not known.

    Args:
        store_url: A valid URL of a store.
        fault: Text of the error, without secrets.
        has_worked: Whether the store has worked, so that its URL was right at that time.
    """
    url = read_store_url(store_url)
    if url.kind == "sqlite" and (of_folder := folder_fault(Path(url.path).parent)):
        return of_folder
    if url.kind not in {"sqlite", "unix"} and re.search(SILENT, fault):
        if url.kind == "cluster" and (
            place := re.search(r"in time: (?:connecting to )?(\S+:\d+)", fault)
        ):
            return f"can this machine reach {place[1]}? Clients must reach what each node announces"
        if has_worked:
            return ""
        other = "redis:// and not rediss" if url.tls else "rediss"
        return f"is it a Redis, and is access allowed? If TLS is the difference, write {other}://"
    return next((way_out for words, way_out in WAYS_OUT if re.search(words, fault)), "")


def folder_fault(folder: Path) -> str:
    """Return why SQLite cannot create its file and two more in a folder; "" if it can."""
    if not folder.is_dir():
        return f"there is no folder {folder}; create it, with write access for the proxy's user"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user has no write access to {folder}; SQLite creates three files there"
    return ""
