"""What belongs to one hop ends there; everything else goes on as it came."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.headers import (
    Headers,
    asking_for_identity,
    for_downstream,
    for_upstream,
    without,
)
from proxy.core.scope import CONVERSATION_HEADER

HOP_BY_HOP = [
    "Connection",
    "Proxy-Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
]
REWRITTEN = ["Host", "Content-Length", "Expect", CONVERSATION_HEADER]
KEPT: Headers = [
    ("Authorization", "Bearer sk-1"),
    ("X-Stainless-Lang", "python"),
    ("x-stainless-lang", ""),
    ("Accept", "a"),
    ("ACCEPT", "b"),
    ("Accept", "a"),
    ("Trailers", "not the name of a hop"),
    ("Content-Encoding", "gzip"),
]
BOTH = pytest.mark.parametrize("clean", [for_upstream, for_downstream])

Clean = Callable[[Headers], Headers]


@BOTH
@pytest.mark.parametrize("spelled", [str.lower, str.upper, str])
@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_headers_of_one_hop_end_there(
    clean: Clean, name: str, spelled: Callable[[str], str]
) -> None:
    """RFC 9110, section 7.6.1, in both directions and in any case."""
    assert clean([*KEPT, (spelled(name), "x"), ("After", "y")]) == [*KEPT, ("After", "y")]


@BOTH
def test_headers_named_by_connection_end_with_it(clean: Clean) -> None:
    """Each option names one, wherever it stands and however it is spelled."""
    given = [
        ("X-First", "1"),
        ("connection", "close, X-FIRST ,,x-second"),
        *KEPT,
        ("Connection", "X-Third"),
        ("x-Second", "2"),
        ("x-third", "3"),
        ("X-Fourth", "4"),
    ]

    assert clean(given) == [*KEPT, ("X-Fourth", "4")]


@BOTH
def test_everything_else_keeps_name_value_and_order(clean: Clean) -> None:
    """Repeated ones too: two headers of one name are not one."""
    assert clean(KEPT) == KEPT
    assert clean([]) == []


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_is_written_anew_is_taken_from_requests_alone(name: str) -> None:
    """An answer's Content-Length goes back; the header that is meant for us goes no further."""
    given = [*KEPT, (name.upper(), "1")]

    assert for_upstream(given) == KEPT
    assert for_downstream(given) == given


names = st.sampled_from([*HOP_BY_HOP, *REWRITTEN, "Accept", "x-a", "X-A", "X-B", "close"])
headers = st.lists(st.tuples(names, st.sampled_from(["", "1", "x-a", "close, X-B", "accept"])))


@BOTH
@given(given=headers)
@settings(max_examples=60, deadline=None)
def test_cleaning_twice_is_cleaning_once(clean: Clean, given: Headers) -> None:
    """Nothing that is dropped drags anything along at the next hop, and nothing changes places."""
    once = clean(given)
    rest = iter(given)

    assert clean(once) == once
    assert all(header in rest for header in once)


@pytest.mark.parametrize(
    "accepted",
    [
        ["gzip"],
        ["gzip, deflate, br, zstd"],
        ["gzip;q=1.0, *;q=0.5"],
        ["br", "gzip"],
        ["*"],
        [""],
        ["identity"],
        ["identity;q=0.001, *;q=0"],
        ["*;q=0, Identity"],
        ["gzip;q=0"],
        ["gzip;identity;q=0"],
        ["identity;q=none"],
    ],
    ids="/".join,
)
def test_identity_is_asked_for_in_place_of_what_is_accepted(accepted: list[str]) -> None:
    """Once, where the first one stood: no client that does not refuse it can be hurt by it."""
    given = [("accept-ENCODING", value) for value in accepted]
    got = asking_for_identity([*KEPT, *given, ("After", "y"), *given])

    assert got == [*KEPT, ("accept-ENCODING", "identity"), ("After", "y")]
    assert asking_for_identity(got) == got


@pytest.mark.parametrize(
    "accepted",
    [
        ["identity;q=0"],
        ["gzip, IDENTITY ; Q = 0.000"],
        ["gzip", "identity;q=0."],
        ["gzip,*;q=0"],
        ["*;q=0.0, br"],
    ],
    ids="/".join,
)
def test_a_client_that_refuses_identity_is_not_overruled(accepted: list[str]) -> None:
    """It says so by name, or by refusing all that it does not name (RFC 9110, 12.5.3)."""
    given = [*KEPT, *(("Accept-Encoding", value) for value in accepted)]

    assert asking_for_identity(given) == given


def test_a_request_that_does_not_say_what_it_accepts_stays_bare() -> None:
    """Nothing is added to its headers."""
    assert asking_for_identity(KEPT) == KEPT


def test_every_header_of_a_name_is_taken_out() -> None:
    """Whatever its case; the rest keeps its order."""
    assert without(KEPT, "accept") == [header for header in KEPT if header[0].lower() != "accept"]
    assert without(KEPT, "x-none") == KEPT
