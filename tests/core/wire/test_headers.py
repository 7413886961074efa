"""What belongs to one hop ends there; everything else goes on as it came."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.tenancy.scope import CONVERSATION_HEADER
from reasoning_replay.core.wire.headers import (
    Headers,
    asking_for_identity,
    for_downstream,
    for_upstream,
    without,
)

HOP_BY_HOP = [
    b"Connection",
    b"Proxy-Connection",
    b"Keep-Alive",
    b"Proxy-Authenticate",
    b"Proxy-Authorization",
    b"TE",
    b"Trailer",
    b"Transfer-Encoding",
    b"Upgrade",
]
REWRITTEN = [b"Host", b"Content-Length", b"Expect", CONVERSATION_HEADER.encode()]
KEPT: Headers = [
    (b"Authorization", b"Bearer sk-1"),
    (b"X-Stainless-Lang", b"python"),
    (b"x-stainless-lang", b""),
    (b"Accept", b"a"),
    (b"ACCEPT", b"b"),
    (b"Accept", b"a"),
    (b"Trailers", b"not the name of a hop"),
    (b"Content-Encoding", b"gzip"),
]
BOTH = pytest.mark.parametrize("clean", [for_upstream, for_downstream])

Clean = Callable[[Headers], Headers]


@BOTH
@pytest.mark.parametrize("spelled", [bytes.lower, bytes.upper, bytes])
@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_headers_of_one_hop_end_there(
    clean: Clean, name: bytes, spelled: Callable[[bytes], bytes]
) -> None:
    """RFC 9110, section 7.6.1, in both directions and in any case."""
    assert clean([*KEPT, (spelled(name), b"x"), (b"After", b"y")]) == [*KEPT, (b"After", b"y")]


@BOTH
def test_headers_named_by_connection_end_with_it(clean: Clean) -> None:
    """Each option names one, wherever it stands and however it is spelled."""
    given = [
        (b"X-First", b"1"),
        (b"connection", b"close, X-FIRST ,,x-second"),
        *KEPT,
        (b"Connection", b"X-Third"),
        (b"x-Second", b"2"),
        (b"x-third", b"3"),
        (b"X-Fourth", b"4"),
    ]

    assert clean(given) == [*KEPT, (b"X-Fourth", b"4")]


@BOTH
def test_everything_else_keeps_name_value_and_order(clean: Clean) -> None:
    """Repeated ones too: two headers of one name are not one."""
    assert clean(KEPT) == KEPT
    assert clean([]) == []


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_is_written_anew_is_taken_from_requests_alone(name: bytes) -> None:
    """An answer's Content-Length goes back; the header that is meant for us goes no further."""
    given = [*KEPT, (name.upper(), b"1")]

    assert for_upstream(given) == KEPT
    assert for_downstream(given) == given


def test_the_length_of_an_answer_is_not_of_one_hop() -> None:
    """Whatever upstream says: without it nobody would know where the answer ends."""
    given = [(b"Connection", b"Content-Length, x-a"), (b"CONTENT-LENGTH", b"3"), (b"X-A", b"1")]
    assert for_downstream(given) == [(b"CONTENT-LENGTH", b"3")]


names = st.sampled_from([*HOP_BY_HOP, *REWRITTEN, b"Accept", b"x-a", b"X-A", b"X-B", b"close"])
headers = st.lists(st.tuples(names, st.sampled_from([b"", b"1", b"x-a", b"close, X-B", b"accept"])))


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
        [b"gzip"],
        [b"gzip, deflate, br, zstd"],
        [b"gzip;q=1.0, *;q=0.5"],
        [b"br", b"gzip"],
        [b"*"],
        [b""],
        [b"identity"],
        [b"identity;q=0.001, *;q=0"],
        [b"*;q=0, Identity"],
        [b"gzip;q=0"],
        [b"gzip;identity;q=0"],
        [b"identity;q=none"],
    ],
    ids=lambda accepted: b"/".join(accepted).decode(),
)
def test_identity_is_asked_for_in_place_of_what_is_accepted(accepted: list[bytes]) -> None:
    """Once, where the first one stood: no client that does not refuse it can be hurt by it."""
    given = [(b"accept-ENCODING", value) for value in accepted]
    got = asking_for_identity([*KEPT, *given, (b"After", b"y"), *given])

    assert got == [*KEPT, (b"accept-ENCODING", b"identity"), (b"After", b"y")]
    assert asking_for_identity(got) == got


@pytest.mark.parametrize(
    "accepted",
    [
        [b"identity;q=0"],
        [b"gzip, IDENTITY ; Q = 0.000"],
        [b"gzip", b"identity;q=0."],
        [b"gzip,*;q=0"],
        [b"*;q=0.0, br"],
    ],
    ids=lambda accepted: b"/".join(accepted).decode(),
)
def test_a_client_that_refuses_identity_is_not_overruled(accepted: list[bytes]) -> None:
    """It says so by name, or by refusing all that it does not name (RFC 9110, 12.5.3)."""
    given = [*KEPT, *((b"Accept-Encoding", value) for value in accepted)]

    assert asking_for_identity(given) == given


def test_a_request_that_does_not_say_what_it_accepts_stays_bare() -> None:
    """Nothing is added to its headers."""
    assert asking_for_identity(KEPT) == KEPT


def test_every_header_of_a_name_is_taken_out() -> None:
    """Whatever its case; the rest keeps its order."""
    assert without(KEPT, b"accept") == [header for header in KEPT if header[0].lower() != b"accept"]
    assert without(KEPT, b"x-none") == KEPT
