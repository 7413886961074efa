"""Forwarded addresses: read from the end, and only as far as trusted proxies wrote them."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.forwarded import HOPS_MAX, client_address, read_networks

from tests.fast_lane import examples

TRUSTED = read_networks("10.0.0.0/8, fd00::/8,192.0.2.7")
CLIENT = "203.0.113.7"


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        pytest.param("10.0.0.1", [CLIENT], CLIENT, id="one-proxy"),
        pytest.param("10.0.0.1", [f"{CLIENT}, 10.0.0.3,192.0.2.7"], CLIENT, id="three"),
        pytest.param("10.0.0.1", [CLIENT, "10.0.0.3"], CLIENT, id="two-headers"),
        pytest.param("10.0.0.1", [f"1.1.1.1, {CLIENT}"], CLIENT, id="made-up-before-it"),
        pytest.param(CLIENT, ["1.1.1.1"], CLIENT, id="not-a-proxy"),
        pytest.param("10.0.0.1", [], "10.0.0.1", id="no-header"),
        pytest.param("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3", id="all-are-trusted"),
        pytest.param("10.0.0.1", [f"{CLIENT}, unknown"], "10.0.0.1", id="unreadable"),
        pytest.param("10.0.0.1", [f"{CLIENT}, unknown, 10.0.0.3"], "10.0.0.3", id="unreadable-2"),
        pytest.param("10.0.0.1", [""], "10.0.0.1", id="empty"),
        pytest.param("10.0.0.1", [f"{CLIENT},"], "10.0.0.1", id="empty-entry"),
        pytest.param("10.0.0.1", [f"{CLIENT}:443"], CLIENT, id="port"),
        pytest.param("10.0.0.1", ["[2001:DB8::1]:443"], "2001:db8::1", id="v6-port"),
        pytest.param("10.0.0.1", ["2001:db8::1"], "2001:db8::1", id="v6"),
        pytest.param("fd00::2", [f"::ffff:{CLIENT}"], CLIENT, id="v4-in-v6"),
        pytest.param("::ffff:10.0.0.1", [CLIENT], CLIENT, id="peer-v4-in-v6"),
        pytest.param("10.0.0.1", ["fe80::1%<script>"], "10.0.0.1", id="zone"),
        pytest.param("10.0.0.1", ["9" * 10**6], "10.0.0.1", id="long"),
        pytest.param("10.0.0.1", [f"{CLIENT}," + "10.0.0.1," * 10**6], "10.0.0.1", id="many"),
        pytest.param("10.0.0.1", ["10.0.0.1"] * 10**5, "10.0.0.1", id="many-headers"),
        pytest.param("", [CLIENT], "", id="no-peer"),
    ],
)
def test_the_client_is_the_last_untrusted_address(
    peer: str, headers: list[str], client: str
) -> None:
    """An entry counts only if the one after it is of a trusted proxy."""
    assert client_address(peer, TRUSTED, headers) == client


def test_as_many_proxies_as_there_can_be() -> None:
    """Of a longer way, only the end is read."""
    way = [f"10.0.0.{n}" for n in range(HOPS_MAX)]
    assert client_address("10.1.0.0", TRUSTED, [",".join([CLIENT, *way[1:]])]) == CLIENT
    assert client_address("10.1.0.0", TRUSTED, [",".join([CLIENT, *way])]) == way[0]


@examples(100)
@given(headers=st.lists(st.text(), max_size=20))
def test_any_header_leads_to_an_address(headers: list[str]) -> None:
    """So nothing else reaches the log."""
    client = client_address("10.0.0.1", TRUSTED, headers)
    assert str(ip_address(client)) == client


@pytest.mark.parametrize("written", ["", "  "])
def test_no_proxy_is_trusted_by_default(written: str) -> None:
    """So the client is always the peer."""
    assert read_networks(written) == ()
    assert client_address("10.0.0.1", (), [CLIENT]) == "10.0.0.1"


@pytest.mark.parametrize("written", ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.1,", "proxy.internal"])
def test_what_is_not_a_network_is_refused(written: str) -> None:
    """The message has the entry, and a list that is valid."""
    with pytest.raises(ValueError, match="not an address or a network; use a comma-separated list"):
        read_networks(written)
