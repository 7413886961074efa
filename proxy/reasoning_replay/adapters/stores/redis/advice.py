"""Advice on a Redis that fails: what to do, and whether the fault can pass by itself."""

import re
from typing import Final

from reasoning_replay.adapters.stores.address import Advice, advice_of

_NO_TLS: Final = "does it use TLS? If not, write redis://, not rediss://"
# (pattern of an error message, the way out, whether only a person can end it); the first match
# counts.
_ADVICE: Final = (
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
    ("WRONG_VERSION|RECORD_LAYER", _NO_TLS, True),
    ("SSL", _NO_TLS, False),
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
    ("InvalidResponse", "is it a Redis? Another server seems to listen there", True),
    ("ACL", "docs/stores.md lists the permissions that the user needs", True),
)
_SILENT: Final = "did not (answer|respond)|reset by peer|closed by server"


def advice_on(fault: str, kind: str, *, tls: bool, has_worked: bool) -> Advice:
    """Return what `StoreAddress.advice` does, for one kind of Redis."""
    if kind == "unix" or not re.search(_SILENT, fault):
        return advice_of(_ADVICE, fault)
    place = re.search(r"in time: (?:connecting to )?(\S+:\d+)", fault)
    if kind == "cluster" and place:
        words = f"can this machine reach {place[1]}? Clients must reach what each node announces"
        return Advice(words)
    if has_worked:
        return Advice()
    other = "redis:// and not rediss" if tls else "rediss"
    words = "is it a Redis, and is access allowed? If TLS is the difference, write"
    return Advice(f"{words} {other}://")
