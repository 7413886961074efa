"""The store's address gives its type and place; an address with no meaning stops the start."""

import re
from pathlib import Path

import pytest
from reasoning_replay.adapters.stores.address import StoreAddress
from reasoning_replay.adapters.stores.memory.address import MemoryAddress
from reasoning_replay.adapters.stores.redis.address import RedisAddress
from reasoning_replay.adapters.stores.registry import read_store_url
from reasoning_replay.adapters.stores.sqlite.address import SqliteAddress

H = (("h", 6379),)

READ = [
    pytest.param("memory://", MemoryAddress(), id="memory"),
    pytest.param("sqlite:///a/b.db", SqliteAddress("/a/b.db"), id="sqlite"),
    pytest.param("sqlite:////a/b.db", SqliteAddress("/a/b.db"), id="four-slashes"),
    pytest.param("sqlite:///a%20b%3F.db", SqliteAddress("/a b?.db"), id="odd-path"),
    pytest.param("redis://h", RedisAddress("redis", hosts=H), id="redis"),
    pytest.param("valkey://h/", RedisAddress("redis", hosts=H), id="valkey"),
    pytest.param("rediss://h/0", RedisAddress("redis", tls=True, hosts=H), id="tls"),
    pytest.param(
        "rediss://h:6380/0?ssl_cert_reqs=required",
        RedisAddress(
            "redis", tls=True, hosts=(("h", 6380),), options={"ssl_cert_reqs": "required"}
        ),
        id="tls-option",
    ),
    pytest.param("valkeys://h", RedisAddress("redis", tls=True, hosts=H), id="valkey-tls"),
    pytest.param(
        "redis://me:p%40w@h:1/3",
        RedisAddress("redis", hosts=(("h", 1),), database=3, username="me", password="p@w"),
        id="user-and-database",
    ),
    pytest.param(
        "redis://:p:w@[::1]:7/",
        RedisAddress("redis", hosts=(("::1", 7),), password="p:w"),
        id="ipv6",
    ),
    pytest.param(
        "redis://h?db=2&username=me&password=pw&protocol=3&client_name=x",
        RedisAddress(
            "redis",
            hosts=H,
            database=2,
            username="me",
            password="pw",
            options={"protocol": "3", "client_name": "x"},
        ),
        id="options",
    ),
    pytest.param(
        "unix:///run/redis.sock?db=1&password=pw",
        RedisAddress("unix", path="/run/redis.sock", database=1, password="pw"),
        id="unix",
    ),
    pytest.param(
        "redis+sentinel://a,[::2]:5,c:6/my%20master/2?sentinel_username=s&sentinel_password=t",
        RedisAddress(
            "sentinel",
            hosts=(("a", 26379), ("::2", 5), ("c", 6)),
            database=2,
            service="my master",
            options={"sentinel_username": "s", "sentinel_password": "t"},
        ),
        id="sentinel",
    ),
    pytest.param(
        "rediss+sentinel://a/m",
        RedisAddress("sentinel", tls=True, hosts=(("a", 26379),), service="m"),
        id="sentinel-tls",
    ),
    pytest.param(
        "valkeys+cluster://me:pw@a,b:7?ssl_check_hostname=false&ssl_cert_reqs=none",
        RedisAddress(
            "cluster",
            tls=True,
            hosts=(("a", 6379), ("b", 7)),
            username="me",
            password="pw",
            options={"ssl_check_hostname": "false", "ssl_cert_reqs": "none"},
        ),
        id="cluster",
    ),
    pytest.param("redis+cluster://h/0", RedisAddress("cluster", hosts=H), id="cluster-database-0"),
]


@pytest.mark.parametrize(("url", "want"), READ)
def test_reads_an_address(url: str, want: StoreAddress) -> None:
    """An address may have a default port, percent signs, and a user in either place."""
    assert read_store_url(url) == want


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param(
            "foo://x", 'unknown scheme "foo"; use memory://, sqlite:///path, redis://', id="scheme"
        ),
        pytest.param("REDIS://h", 'unknown scheme "REDIS"', id="upper-case"),
        pytest.param("localhost:6379", "not a URL", id="no-scheme"),
        pytest.param("memory://big", "has text after memory://", id="memory-with-more"),
        pytest.param("redis://", "has no host", id="no-host"),
        pytest.param("redis://h/zero", "not a database number", id="database-by-name"),
        pytest.param("redis://h:6379x/0", "host or the port is malformed", id="port"),
        pytest.param("unix://run/redis.sock", "has no absolute path", id="relative-socket"),
        pytest.param("sqlite://replay.db", "has no absolute path; use sqlite:///", id="relative"),
        pytest.param("sqlite://", "has no absolute path", id="no-path"),
        pytest.param("sqlite:///", "names no file", id="folder"),
        pytest.param("sqlite:///a.db?x=1", "sqlite:// has no options", id="sqlite-option"),
        pytest.param("unix://me@/run/r.sock", "append ?username=", id="unix-user"),
        pytest.param("redis://h,g", "use redis+cluster:// or redis+sentinel://", id="hosts"),
        pytest.param("redis://h:0", "host or the port is malformed", id="port-0"),
        pytest.param("redis://h:65536", "host or the port is malformed", id="port-above"),
        pytest.param("redis+sentinel://h", "does not name the master", id="no-service"),
        pytest.param("redis+sentinel://h/m/x", "not a database number", id="sentinel-database"),
        pytest.param("redis+cluster://h/1", "a Cluster has only database 0", id="cluster-database"),
        pytest.param("redis+cluster://h?db=1", "has an unknown option", id="cluster-db"),
        pytest.param("redis+cluster:///", "has no host", id="cluster-no-host"),
        pytest.param("redis+other://h", 'unknown scheme "redis+other"', id="kind"),
        pytest.param("sqlites:///a", 'unknown scheme "sqlites"', id="no-such-tls"),
        pytest.param("redis://h?ssl_cert_reqs=none", "is for TLS; use rediss://", id="no-tls"),
        pytest.param("rediss://h?ssl_cert_reqs=no", "must be required or optional", id="value"),
        pytest.param("redis://h?protocol=4", "the option protocol must be 2 or 3", id="protocol"),
        pytest.param("redis://h?db=\u0661", "not a database number", id="digits"),
        pytest.param("redis://h?client_name=a&client_name=b", "twice", id="twice"),
        pytest.param("redis://h?sentinel_password=x", "has an unknown option", id="sentinels"),
        pytest.param("rediss://h?ssl_ca_certs=/no/such", "cannot be read: No such", id="no-file"),
        pytest.param("redis://:a#b@h", "write it as %23", id="fragment"),
        pytest.param("redis://:a/b@h", "write %2F or %3F", id="slash-in-password"),
        pytest.param("rediss://u:a?b@h:6379/0", "write %2F or %3F", id="question-in-password"),
        pytest.param("redis://\ud800", "not UTF-8 text", id="not-text"),
        pytest.param("redis://u:\udcff@h", "not UTF-8 text", id="password-not-text"),
        pytest.param("unix:///r.sock?username=\udcff", "not UTF-8 text", id="option-not-text"),
        pytest.param("redis://a..b", "the host is no name", id="empty-part"),
        pytest.param(f"redis://{'a' * 64}", "the host is no name", id="long-part"),
        pytest.param("redis+sentinel://h,%ff/m", "the host is no name", id="second-no-name"),
    ],
)
def test_refuses_what_cannot_be_meant(url: str, reason: str) -> None:
    """An invalid address is refused with a way out."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_store_url(url)


def read(url: str) -> RedisAddress:
    """Return the address of a Redis."""
    address = read_store_url(url)
    assert isinstance(address, RedisAddress)
    return address


@pytest.mark.parametrize("prefix", ["rr", "a", "team-a:rr", "A.b_c-9", "x" * 64])
@pytest.mark.parametrize("place", ["redis://h", "unix:///s", "redis+sentinel://h/m"])
def test_a_prefix_is_a_word(place: str, prefix: str) -> None:
    """A prefix has only characters that an ACL pattern reads literally."""
    assert read(f"{place}?prefix={prefix}").prefix == prefix


@pytest.mark.parametrize("prefix", ["", "*", "a*", "a%20b", "é", "{a}", "a%0A", "a%00", "x" * 65])
def test_a_prefix_is_nothing_else(prefix: str) -> None:
    """A prefix with a pattern or a brace, which would change a key's slot, is refused."""
    with pytest.raises(ValueError, match="the option prefix must be 1 to 64 letters"):
        read_store_url(f"redis://h?prefix={prefix}")


@pytest.mark.parametrize(
    "url",
    ["redis://h/0?db=S3CRET", "redis://h/0?socket_timeout=S3CRET", "redis://h/0?S3CRET=1"],
)
def test_an_option_that_cannot_be_used_stops_the_start(url: str) -> None:
    """A bad option is an error of the settings, not of each operation, and is not quoted."""
    with pytest.raises(ValueError, match="option") as error:
        read_store_url(url)

    assert "S3CRET" not in str(error.value)


def test_files_of_certificates_must_be_there(tmp_path: Path) -> None:
    """A missing certificate file is an error at the start, not of each operation."""
    file = tmp_path / "ca.pem"
    file.touch()
    assert read(f"rediss://h?ssl_ca_certs={file}").options == {"ssl_ca_certs": str(file)}


def test_an_address_does_not_show_its_password() -> None:
    """A password is neither in the representation of an address nor in a traceback."""
    url = "redis+sentinel://:hunter2@h/m?sentinel_password=hunter2"
    assert "hunter2" not in repr(read_store_url(url))
