"""A URL names a host that can be looked up, and a port."""

from urllib.parse import urlsplit

import pytest
from reasoning_replay.core.wire.hosts import check_host, is_utf8, port_of


def test_a_port_has_the_default_of_its_scheme() -> None:
    """Unless the URL names one."""
    urls = ("http://h", "https://h", "https://h:8443")
    assert [port_of(urlsplit(url)) for url in urls] == [80, 443, 8443]


def test_a_host_that_no_one_can_look_up_is_refused() -> None:
    """Before a resolver raises another error."""
    assert check_host("api.example.com") == "api.example.com"
    for host in ("a..b", "x" * 64, "\udc80"):
        with pytest.raises(ValueError, match="the host is no name"):
            check_host(host)


def test_other_bytes_of_a_variable_are_no_text() -> None:
    """Python shows them as lone surrogates."""
    assert is_utf8("é")
    assert not is_utf8("\udce9")
