"""Addresses are refused with a reason and a way out, and never shown with a password."""

import re

import pytest
from reasoning_replay.settings import urls


@pytest.mark.parametrize(
    ("listen", "want"),
    [
        pytest.param("127.0.0.1:8080", ("127.0.0.1", 8080), id="ipv4"),
        pytest.param("localhost:0", ("localhost", 0), id="any-free-port"),
        pytest.param("[::1]:8080", ("::1", 8080), id="ipv6"),
        pytest.param("0.0.0.0:65535", ("0.0.0.0", 65535), id="highest-port"),  # noqa: S104
    ],
)
def test_reads_host_and_port(listen: str, want: tuple[str, int]) -> None:
    """The brackets of an IPv6 address are not part of the host."""
    assert urls.host_and_port(listen) == want


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        pytest.param("8080", "not host:port", id="port-alone"),
        pytest.param("localhost", "not host:port", id="host-alone"),
        pytest.param(":8080", "not host:port", id="no-host"),
        pytest.param("::1:8080", "not host:port", id="ipv6-without-brackets"),
        pytest.param("http://localhost:8080", "not host:port", id="url"),
        pytest.param("localhost:http", "not host:port", id="port-by-name"),
        pytest.param("localhost:8080\n", "not host:port", id="line-break"),
        pytest.param("localhost:\u0661", "not host:port", id="digits-of-another-script"),
        pytest.param("localhost:65536", "port is above 65535", id="port-too-high"),
    ],
)
def test_refuses_what_cannot_be_listened_on(listen: str, reason: str) -> None:
    """A listen address needs an explicit host, so that no port is open by mistake."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        urls.host_and_port(listen)


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("https://h/v1", "https://h/v1", id="as-is"),
        pytest.param("https://h/v1/", "https://h/v1", id="slash"),
        pytest.param("https://h/v1//", "https://h/v1", id="slashes"),
        pytest.param("http://h:8000", "http://h:8000", id="no-path"),
        pytest.param("http://[::1]:8000/", "http://[::1]:8000", id="ipv6"),
    ],
)
def test_takes_the_slash_off_an_upstream(url: str, want: str) -> None:
    """A base URL loses its last slash, since the client's path is appended."""
    assert urls.upstream_url(url) == want


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("", "not a URL; start it with http:// or https://", id="empty"),
        pytest.param("api.openai.com/v1", "not a URL", id="no-scheme"),
        pytest.param("ftp://h/v1", 'unknown scheme "ftp"; use http:// or https://', id="scheme"),
        pytest.param("https:///v1", "has no host", id="no-host"),
        pytest.param("https://h:port/v1", "host or the port is malformed", id="port"),
        pytest.param("https://[::1/v1", "host or the port is malformed", id="bracket"),
        pytest.param("https://me:pw@h/v1", "user name or password", id="userinfo"),
        pytest.param("https://@h/v1", "user name or password", id="empty-userinfo"),
        pytest.param("https://h/v1?x=1", "has a query or a fragment", id="query"),
        pytest.param("https://h/v1?", "has a query or a fragment", id="empty-query"),
        pytest.param("https://h/v1#x", "has a query or a fragment", id="fragment"),
        pytest.param("https://h/v1/responses", 'ends in "/responses"', id="endpoint"),
        pytest.param("https://h/v 1", "has a space", id="space"),
        pytest.param("https://h/v1\n", "control character", id="line-break"),
        pytest.param("https://\ud800/v1", "not UTF-8 text", id="not-text"),
        pytest.param("https://h..example/v1", "the host is no name", id="empty-part"),
    ],
)
def test_refuses_what_is_no_base_url(url: str, reason: str) -> None:
    """A base URL has a host and a path; credentials and queries belong to the client's request."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        urls.upstream_url(url)


@pytest.mark.parametrize(
    "proxy", ["", "env", "http://h", "http://h:3128", "https://u:p@h:1", "http://[::1]:1"]
)
def test_an_egress_proxy_is_a_host_and_a_port(proxy: str) -> None:
    """Or `env`, or empty."""
    assert urls.upstream_proxy(proxy) == proxy


@pytest.mark.parametrize(
    "proxy",
    ["socks5://h:1", "h:3128", "http://", "http://h:x", "http://h/path", "http://h?x", "ENV", " "],
)
def test_an_egress_proxy_is_nothing_else(proxy: str) -> None:
    """An unsupported form is refused at the start."""
    with pytest.raises(
        ValueError, match=r"URL|scheme|has no host|more than a host|malformed|space"
    ):
        urls.upstream_proxy(proxy)


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("redis://h:6379/0", "redis://h:6379/0", id="nothing-to-hide"),
        pytest.param("redis://me:hunter2@h/0", "redis://***@h/0", id="userinfo"),
        pytest.param("redis://:hunter2@h/0", "redis://***@h/0", id="password-alone"),
        pytest.param("redis://:hunt@r2@h/0", "redis://***@h/0", id="at-sign-in-password"),
        pytest.param("redis://:hunt?r2@h/0", "redis://***@h/0", id="question-mark-in-password"),
        pytest.param("redis://:hunt\nr2@h/0", "redis://***@h/0", id="line-break-in-password"),
        pytest.param("redis//me:hunter2@h", "***@h", id="colon-forgotten"),
        pytest.param("me:hunter2@h", "***@h", id="scheme-forgotten"),
        pytest.param("redis://h/0?password=hunter2", "redis://h/0?***", id="query"),
        pytest.param("redis://h/0#hunter2", "redis://h/0?***", id="fragment"),
    ],
)
def test_redacts_whatever_may_be_a_password(url: str, want: str) -> None:
    """A possible password is hidden, also in a malformed address."""
    assert urls.redacted(url) == want


@pytest.mark.parametrize(
    ("host", "want"),
    [
        pytest.param("0.0.0.0", "127.0.0.1", id="every-ipv4"),  # noqa: S104 (called, not bound)
        pytest.param("0", "127.0.0.1", id="every-ipv4-in-short"),
        pytest.param("::", "::1", id="every-ipv6"),
        pytest.param("0:0::0", "::1", id="every-ipv6-at-length"),
        pytest.param("10.0.0.7", "10.0.0.7", id="one"),
        pytest.param("localhost", "localhost", id="name"),
    ],
)
def test_what_listens_everywhere_is_called_on_loopback(host: str, want: str) -> None:
    """An address for every interface is called on loopback, in every spelling."""
    assert urls.dialled(host) == want


def test_an_ipv6_address_has_brackets_before_its_port() -> None:
    """An IPv6 address gets brackets before a port, since it contains colons."""
    assert urls.authority("::1", 80) == "[::1]:80"
    assert urls.authority("localhost", 80) == "localhost:80"
