"""Each entry of NO_PROXY is understood, or it is an error."""

from urllib.parse import urlsplit

import pytest
from reasoning_replay.adapters.upstream.no_proxy import is_direct

NAME = "https://api.example.com/v1"
IPV4 = "http://10.1.2.3:8000/v1"
IPV6 = "http://[fd00::1]:8000/v1"

# The upstream, and NO_PROXY.
DIRECT = [
    (NAME, "*"),
    (NAME, "api.example.com"),
    (NAME, "API.Example.COM"),
    (NAME, "example.com"),
    (NAME, ".example.com"),
    (NAME, "example.com."),
    (NAME, "*.example.com"),
    (NAME, "api.*.com"),
    (NAME, "com"),
    (NAME, "api.example.com:443"),
    (NAME, "*.example.com:443"),
    (NAME, "localhost,127.0.0.1, 10.0.0.0/8 ,example.com"),
    (NAME, "localhost 127.0.0.1 example.com"),
    (NAME, "a.test,,example.com,"),
    ("https://api.example.com./v1", "example.com"),
    ("http://my_service:8000/v1", "my_service"),
    ("http://bücher.example/v1", "bücher.example"),
    (IPV4, "*"),
    (IPV4, "10.1.2.3"),
    (IPV4, "10.1.2.3:8000"),
    (IPV4, "10.0.0.0/8"),
    (IPV4, "10.1.2.3/8"),
    (IPV4, "10.0.0.0/255.0.0.0"),
    (IPV4, "192.168.0.0/16,10.0.0.0/8"),
    (IPV4, "0.0.0.0/0"),
    (IPV4, "10.*"),
    (IPV4, "10.1.*.3"),
    (IPV4, "::ffff:10.1.2.3"),
    (IPV6, "fd00::1"),
    (IPV6, "FD00:0:0::1"),
    (IPV6, "[fd00::1]"),
    (IPV6, "[fd00::1]:8000"),
    (IPV6, "fd00::/8"),
    ("http://[::ffff:10.1.2.3]/v1", "10.0.0.0/8"),
]
PROXIED = [
    (NAME, ""),
    (NAME, " , "),
    (NAME, "example.org"),
    (NAME, "ample.com"),
    (NAME, "api.example.com.test"),
    (NAME, "apixexample.com"),
    (NAME, "api.example.com:8443"),
    (NAME, "*:8443"),
    (NAME, "*.api.example.com"),
    (NAME, "0.0.0.0/0,::/0"),  # a name is not resolved
    ("https://example.com/v1", "*.example.com"),
    (IPV4, "10.1.2.4"),
    (IPV4, "10.1.2.3:8001"),
    (IPV4, "10.2.0.0/16"),
    (IPV4, "fd00::/8"),
    (IPV4, "0.1.*"),
    (IPV4, "*.example.com"),
    ("http://110.1.2.3/v1", "10.*"),
    (IPV6, "[fd00::1]:8001"),
    (IPV6, "fd00::2"),
    (IPV6, "10.0.0.0/8"),
]
ERRORS = [
    "10.0.0.0/33",
    "10.0.0.0/",
    "10/8",
    "10.0.0.0/8:8000",
    "fd00::/129",
    "example.com/8",
    "http://example.com",
    "10.0",
    "10.",
    "10.1.2.300",
    "example.com:port",
    "example.com:99999",
    "[fd00::1",
    "[example.com]",
    "fd00::1]:80",
    "fd00::zz",
    "a;b",
    "user@example.com",
    "<local>",
    ".",
    ":80",
]


@pytest.mark.parametrize(("upstream", "no_proxy"), DIRECT)
def test_a_host_that_is_named(upstream: str, no_proxy: str) -> None:
    """Requests to it go without the proxy."""
    assert is_direct(urlsplit(upstream), no_proxy)


@pytest.mark.parametrize(("upstream", "no_proxy"), PROXIED)
def test_a_host_that_is_not_named(upstream: str, no_proxy: str) -> None:
    """Requests to it go through the proxy."""
    assert not is_direct(urlsplit(upstream), no_proxy)


@pytest.mark.parametrize("upstream", [NAME, IPV4, IPV6])
@pytest.mark.parametrize("entry", ERRORS)
def test_an_entry_that_is_not_understood(entry: str, upstream: str) -> None:
    """It is an error, whatever the upstream is and whatever else is named; the text quotes it."""
    for no_proxy in (entry, f"*,{entry}", f"{entry},*"):
        with pytest.raises(ValueError, match="is not a host name") as caught:
            is_direct(urlsplit(upstream), no_proxy)
        assert entry.rpartition("@")[2] in str(caught.value)


def test_a_password_is_not_quoted() -> None:
    """A URL with a password is a common mistake."""
    with pytest.raises(ValueError, match="is not a host name") as caught:
        is_direct(urlsplit(NAME), "http://me:secret@a.test")
    assert "secret" not in str(caught.value)
