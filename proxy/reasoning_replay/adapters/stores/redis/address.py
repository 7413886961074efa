"""
Address of a Redis: its kind, hosts, credentials and options.

Every error is a ValueError with a reason and a way out. No message quotes the address, since it
may hold a password.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from typing_extensions import override

from reasoning_replay.adapters.stores.address import (
    Advice,
    Opening,
    StoreAddress,
    read_path,
    why_unreadable,
)
from reasoning_replay.adapters.stores.base import Store
from reasoning_replay.adapters.stores.redis.advice import advice_on
from reasoning_replay.core.wire.hosts import check_host, is_utf8

Kind = Literal["unix", "redis", "sentinel", "cluster"]

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
PREFIX: Final = "rr"
MAX_CONNECTIONS: Final = 64  # to each server; further operations wait

_TLS: Final = (
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
    "ssl_check_hostname",
)
_FILES: Final = _TLS[:3]
_SENTINEL: Final = ("sentinel_username", "sentinel_password")
_COMMON: Final = ("username", "password", "prefix", "protocol", "client_name")
# Query options with a fixed set of values.
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "protocol": ("2", "3"),
    "ssl_cert_reqs": ("required", "optional", "none"),
    "ssl_check_hostname": ("true", "false"),
}
# A user or password with a bare / or ?, which ends the part in which they stand.
_CUT: Final = re.compile(r"[^/?@]*(?:/[^?@]*|\?[^=&@]*)@")
_PREFIX: Final = r"[A-Za-z0-9_.:-]{1,64}"  # an ACL pattern reads each of them literally
_SECURE: Final = ("rediss", "valkeys")  # a scheme, or the part of one before a "+": with TLS


@dataclass(frozen=True, slots=True)
class RedisAddress(StoreAddress):
    """
    Address of one server, of its Sentinels, or of nodes of a Cluster.

    Attributes:
        path: Path of the Unix socket.
        hosts: Name and port of a Redis, of its Sentinels, or of nodes of a Cluster.
        database: Number of the Redis database.
        service: Name of the master in the Sentinels.
        username, password: Credentials in the address; "" if it has none.
        prefix: Prefix of every key in Redis.
        options: The other options of the query.
    """

    title = "Redis"
    schemes = (
        *("unix", "redis", "rediss", "valkey", "valkeys"),
        *("redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel"),
        *("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster"),
    )
    examples = ("redis://", "rediss://", "unix:///path", "redis+sentinel://", "redis+cluster://")
    settings = frozenset({"store_password", "store_password_file"})

    kind: Kind
    tls: bool = False
    path: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    database: int = 0
    service: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    prefix: str = PREFIX
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    @override
    def read(cls, scheme: str, rest: str) -> "RedisAddress":
        if not is_utf8(rest):
            raise ValueError("not UTF-8 text; percent-encode the other characters")
        kind, tls = _kind_of(scheme), scheme.partition("+")[0] in _SECURE
        if kind in {"redis", "cluster"} and _CUT.match(rest):
            raise ValueError(
                "has a / or ? before an @; write %2F or %3F in a password, or set store_password"
            )
        place, _, query = rest.partition("?")
        return _server(place, kind, _options(query, kind, tls=tls), tls=tls)

    @override
    def open(self, opening: Opening) -> Store:
        from reasoning_replay.adapters.stores.redis.connect import Credentials, connect  # noqa: PLC0415 (see `address`)
        from reasoning_replay.adapters.stores.redis.store import RedisStore  # noqa: PLC0415 (as above)

        credentials = Credentials("", opening.password, opening.password_file)
        link = connect(self, credentials, opening.timeout_s, MAX_CONNECTIONS)
        return RedisStore(link, opening.bounds, self.prefix, opening.codec)

    @override
    def advice(self, fault: str, *, has_worked: bool = False) -> Advice:
        if self.kind == "unix" and Path(self.path).is_dir():
            named = f"{self.path} is a folder; name the socket in it, such as {self.path}"
            return Advice(f"{named}/redis.sock", is_lasting=True)
        return advice_on(fault, self.kind, tls=self.tls, has_worked=has_worked)


def _kind_of(scheme: str) -> Kind:
    if scheme == "unix":
        return "unix"
    match scheme.partition("+")[2]:
        case "sentinel":
            return "sentinel"
        case "cluster":
            return "cluster"
        case _:
            return "redis"


def _server(place: str, kind: Kind, options: dict[str, str], *, tls: bool) -> RedisAddress:
    """Parse the place of a Redis: the path of its socket, or user:password@hosts/service/number."""
    number, prefix = options.pop("db", "0"), options.pop("prefix", PREFIX)
    user, password = options.pop("username", ""), options.pop("password", "")
    if kind == "unix":
        if "@" in place:
            raise ValueError(
                "has a user before the path; append ?username=… to the path, and set store_password"
            )
        path = read_path(place, "unix:///run/redis/redis.sock")
        return RedisAddress(
            kind,
            path=path,
            database=int(number),
            username=user,
            password=password,
            prefix=prefix,
            options=options,
        )
    authority, _, path = place.partition("/")
    before, _, hosts = authority.rpartition("@")
    name, _, secret = before.partition(":")
    service, written = _service(path) if kind == "sentinel" else ("", path)
    if written and not (written.isascii() and written.isdigit()):
        raise ValueError("the path is not a database number; use redis://host:6379/0")
    database = int(written or number)
    if kind == "cluster" and database:
        raise ValueError("names a database; a Cluster has only database 0, remove the number")
    return RedisAddress(
        kind,
        tls,
        hosts=_hosts(hosts, kind),
        database=database,
        service=service,
        username=unquote(name) or user,
        password=unquote(secret) or password,
        prefix=prefix,
        options=options,
    )


def _service(path: str) -> tuple[str, str]:
    service, _, number = path.partition("/")
    if not service:
        raise ValueError(
            "does not name the master; use redis+sentinel://host,host:26379/mymaster, where "
            "mymaster is its name in the Sentinels"
        )
    return unquote(service), number


def _hosts(written: str, kind: Kind) -> tuple[tuple[str, int], ...]:
    """Parse hosts separated by commas; only Sentinels and a Cluster may have several."""
    if not written:
        raise ValueError("has no host; use redis://host:6379/0")
    hosts = []
    for host in written.split(","):
        match = re.fullmatch(
            r"(?:\[([\da-fA-F:.]+)\]|([^\s:\[\]@]+))(?::(\d{1,5}))?", host, re.ASCII
        )
        if match is None or int(match[3] or 1) not in range(1, 65536):
            raise ValueError("the host or the port is malformed; use host:port or [ipv6]:port")
        usual = SENTINEL_PORT if kind == "sentinel" else REDIS_PORT
        hosts.append((match[1] or check_host(unquote(match[2])), int(match[3] or usual)))
    if kind == "redis" and len(hosts) > 1:
        raise ValueError("has several hosts; use redis+cluster:// or redis+sentinel://")
    return tuple(hosts)


def _options(query: str, kind: Kind, *, tls: bool) -> dict[str, str]:
    allowed = {
        "unix": ("db", *_COMMON),
        "redis": ("db", *_COMMON),
        "sentinel": ("db", *_COMMON, *_SENTINEL),
    }.get(kind, _COMMON) + (_TLS if tls else ())
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            if name in _TLS:
                raise ValueError(f"the option {name} is for TLS; use rediss:// with it")
            raise ValueError(f"has an unknown option; the options are {', '.join(allowed)}")
        if name in options:
            raise ValueError(f"has the option {name} twice; remove one")
        if name in _VALUES and value not in _VALUES[name]:
            raise ValueError(f"the option {name} must be {' or '.join(_VALUES[name])}")
        if name == "db" and not (value.isascii() and value.isdigit()):
            raise ValueError("the option db is not a database number; use db=0")
        if name == "prefix" and not re.fullmatch(_PREFIX, value):
            raise ValueError("the option prefix must be 1 to 64 letters, digits or any of _.:-")
        if name in _FILES and (reason := why_unreadable(value)):
            raise ValueError(f"the file of the option {name} cannot be read: {reason}")
        options[name] = value
    return options
