"""
Store URL: the address of a store, parsed into its kind, hosts, credentials and options.

Every error is a ValueError with a reason and a way out. No message quotes the address, since it
may hold a password.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from reasoning_replay.settings.urls import check_host, is_utf8

Kind = Literal["memory", "sqlite", "unix", "redis", "sentinel", "cluster"]

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
PREFIX: Final = "rr"

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
_KINDS: Final[Mapping[str, Kind]] = {  # scheme -> kind; an "s" before the "+" means TLS
    "memory": "memory",
    "sqlite": "sqlite",
    "unix": "unix",
    "redis": "redis",
    "redis+sentinel": "sentinel",
    "redis+cluster": "cluster",
}
_CHOICE: Final = (
    "memory://, sqlite:///path, redis://, rediss://, unix:///path, redis+sentinel:// or "
    "redis+cluster://"
)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """
    The parsed address of a store.

    Attributes:
        path: Path of the SQLite file, or of the Unix socket.
        hosts: Name and port of a Redis, of its Sentinels, or of nodes of a Cluster.
        database: Number of the Redis database.
        service: Name of the master in the Sentinels.
        username, password: Credentials in the address; "" if it has none.
        prefix: Prefix of every key in Redis.
        options: The other options of the query.
    """

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


def read_store_url(url: str) -> StoreUrl:
    """
    Return the parts of a store's address.

    Raises:
        ValueError: It is malformed, of an unknown kind, or has an unknown option.
    """
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("has a space or a control character; percent-encode it, a space as %20")
    if "://" not in url:
        raise ValueError(f"not a URL; start it with {_CHOICE}")
    if "#" in url:
        raise ValueError('has a "#"; remove it, or write it as %23 in a password')
    scheme, _, rest = url.partition("://")
    kind, tls = _kind_of(scheme), scheme.partition("+")[0] in ("rediss", "valkeys")
    if kind != "sqlite" and not is_utf8(url):  # the path of a file may be any bytes
        raise ValueError("not UTF-8 text; percent-encode the other characters")
    place, _, query = rest.partition("?")
    match kind:
        case "memory":
            if rest:
                raise ValueError(
                    "has text after memory://; remove it, the limit is store_max_bytes"
                )
            return StoreUrl("memory")
        case "sqlite":
            if "?" in rest:
                raise ValueError(
                    "sqlite:// has no options; the limit of its size is store_max_bytes"
                )
            return StoreUrl("sqlite", path=_path(place, "sqlite:///var/lib/replay/replay.db"))
    if kind in {"redis", "cluster"} and _CUT.match(rest):
        raise ValueError(
            "has a / or ? before an @; write %2F or %3F in a password, or set store_password"
        )
    return _server(place, kind, _options(query, kind, tls=tls), tls=tls)


def _kind_of(scheme: str) -> Kind:
    plain = re.sub(r"^(?:redis|valkey)s?(?=\+|$)", "redis", scheme)
    if plain not in _KINDS:
        shown = scheme if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,20}", scheme) else "***"
        raise ValueError(f'unknown scheme "{shown}"; use {_CHOICE}')
    return _KINDS[plain]


def _server(place: str, kind: Kind, options: dict[str, str], *, tls: bool) -> StoreUrl:
    """Parse the place of a Redis: the path of its socket, or user:password@hosts/service/number."""
    number, prefix = options.pop("db", "0"), options.pop("prefix", PREFIX)
    user, password = options.pop("username", ""), options.pop("password", "")
    if kind == "unix":
        if "@" in place:
            raise ValueError(
                "has a user before the path; append ?username=… to the path, and set store_password"
            )
        path = _path(place, "unix:///run/redis/redis.sock")
        return StoreUrl(
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
    return StoreUrl(
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


def _path(written: str, example: str) -> str:
    path = re.sub("^/+", "/", unquote(written))  # some write four slashes, as for SQLAlchemy
    if not path.startswith("/"):
        raise ValueError(f"has no absolute path; use {example}, with three slashes")
    if path.endswith("/") or "\x00" in path:
        raise ValueError(f"names no file; use {example}")
    return path


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


def why_unreadable(path: str) -> str:
    """Return why a file cannot be read, without its path; "" if it can."""
    try:
        with Path(path).open("rb"):
            return ""
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "not a path"
