"""Store advice: what to do about a store that fails, and whether it can pass by itself."""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from reasoning_replay.settings.store_url import read_store_url

NO_TLS: Final = "does it use TLS? If not, write redis://, not rediss://"
# (pattern of an error message, the way out, whether only a person can end it); the first match
# counts. What may pass never stops a start: a server that is down, full or without a master.
WAYS_OUT: Final = (
    (
        "password file cannot be read",
        "store_password_file must name a file that this user can read",
        True,
    ),
    (
        "refuses the user or the pass",
        "set REPLAY_STORE_PASSWORD, and a user as in redis://user@host if needed; @ is %40 in one",
        True,
    ),
    (
        "name resolution|not known|nodename",
        "is the host in store_url spelt right? In a user or password, @ is %40",
        False,
    ),
    (
        "certificate (has expired|is not yet valid)",
        "renew its certificate, or set this machine's clock",
        False,
    ),
    (
        "CERTIFICATE_VERIFY",
        "append ?ssl_ca_certs=/path to store_url: a PEM file with its CA certificate",
        True,
    ),
    (
        "not a node of a Cluster",
        "is it a Cluster? If not, write redis:// and not redis+cluster://",
        True,
    ),
    ("is a node of a Cluster", "write redis+cluster:// and not redis://", True),
    (
        "does not know the command",
        "is it a Sentinel? Then write redis+sentinel://host:26379/name-of-its-master",
        True,
    ),
    (
        "max number of clients",
        "raise its maxclients; docs/stores.md has the number of connections",
        False,
    ),
    ("WRONG_VERSION|RECORD_LAYER", NO_TLS, True),
    ("SSL", NO_TLS, False),
    ("names a master", "are these Sentinels, and is the master's name right?", False),
    (
        "Connect call failed|Connection refused",
        "is it running, and are host and port in store_url right?",
        False,
    ),
    ("connecting to .* No such file", "is it running, and is the path in store_url right?", False),
    (r"refused a command \(DB\)", "is there a database with that number? Usually 0 to 15", True),
    ("it is a replica", "set store_url to its master, or to its Sentinels", False),
    ("it is full", "raise its maxmemory, or set its maxmemory-policy to volatile-ttl", False),
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
    ("InvalidResponse", "is it a Redis? Another server seems to listen there", True),
    ("ACL", "docs/stores.md lists the permissions that the user needs", True),
)
SILENT: Final = "did not (answer|respond)|reset by peer|closed by server"


class Advice(NamedTuple):
    """
    What is known about a store error.

    Attributes:
        way_out: What to do about it; "" if that is not known.
        is_lasting: Whether it stays until a person changes something, so that a start is in vain.
    """

    way_out: str = ""
    is_lasting: bool = False


def store_advice(store_url: str, fault: str, *, has_worked: bool = False) -> Advice:
    """
    Return what is known about a store error.

    Args:
        store_url: A valid URL of a store.
        fault: Text of the error, without secrets.
        has_worked: Whether the store has worked, so that its URL was right at that time.
    """
    url = read_store_url(store_url)
    if url.kind == "sqlite" and (of_folder := folder_fault(Path(url.path).parent)):
        is_short = url.path.count("/") == 1
        way_out = f"{of_folder}. Three slashes begin the whole path" if is_short else of_folder
        return Advice(way_out, is_lasting=True)
    if url.kind == "unix" and Path(url.path).is_dir():
        way_out = f"{url.path} is a folder; name the socket in it, such as {url.path}/redis.sock"
        return Advice(way_out, is_lasting=True)
    if url.kind not in {"sqlite", "unix"} and re.search(SILENT, fault):
        if url.kind == "cluster" and (
            place := re.search(r"in time: (?:connecting to )?(\S+:\d+)", fault)
        ):
            words = (
                f"can this machine reach {place[1]}? Clients must reach what each node announces"
            )
            return Advice(words)
        if has_worked:
            return Advice()
        other = "redis:// and not rediss" if url.tls else "rediss"
        words = "is it a Redis, and is access allowed? If TLS is the difference, write"
        return Advice(f"{words} {other}://")
    known = (
        Advice(way_out, stays) for words, way_out, stays in WAYS_OUT if re.search(words, fault)
    )
    return next(known, Advice())


def sentence(store_url: str, fault: str) -> str:
    """Return a store error with its way out, as `check` and a refused start say it."""
    fault = fault.rstrip(".")
    way_out = store_advice(store_url, fault).way_out
    return f"{fault}; {way_out}" if way_out else fault


def folder_fault(folder: Path) -> str:
    """Return why SQLite cannot create its file and two more in a folder; "" if it can."""
    if not folder.is_dir():
        return f"there is no folder {folder}; create it, with write access for the proxy's user"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user has no write access to {folder}; SQLite creates three files there"
    return ""
