"""Headers: hop-by-hop headers are removed, and all others are forwarded unchanged."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.headers import (
    CONVERSATION_HEADER,
    Headers,
    asking_for_identity,
    for_downstream,
    for_upstream,
    with_parent,
    with_value,
    without,
)

from tests.fast_lane import examples

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
OURS = b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"
BOTH = pytest.mark.parametrize("clean", [for_upstream, for_downstream])

Clean = Callable[[Headers], Headers]


@BOTH
@pytest.mark.parametrize("spelled", [bytes.lower, bytes.upper, bytes])
@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_hop_by_hop_headers_are_removed(
    clean: Clean, name: bytes, spelled: Callable[[bytes], bytes]
) -> None:
    """RFC 9110, section 7.6.1, applies in both directions and in any case."""
    assert clean([*KEPT, (spelled(name), b"x"), (b"After", b"y")]) == [*KEPT, (b"After", b"y")]


@BOTH
def test_headers_named_by_connection_are_removed(clean: Clean) -> None:
    """Each option of Connection names one header, in any position and any case."""
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
    """Repeated headers are not merged."""
    assert clean(KEPT) == KEPT
    assert clean([]) == []


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_headers_are_removed_only_from_requests(name: bytes) -> None:
    """A response keeps its Content-Length; the proxy's own header is not forwarded to upstream."""
    given = [*KEPT, (name.upper(), b"1")]

    assert for_upstream(given) == KEPT
    assert for_downstream(given) == given


def test_the_length_of_a_response_is_not_hop_by_hop() -> None:
    """Content-Length is kept even if Connection names it, as it marks the end of the response."""
    given = [(b"Connection", b"Content-Length, x-a"), (b"CONTENT-LENGTH", b"3"), (b"X-A", b"1")]
    assert for_downstream(given) == [(b"CONTENT-LENGTH", b"3")]


names = st.sampled_from([*HOP_BY_HOP, *REWRITTEN, b"Accept", b"x-a", b"X-A", b"X-B", b"close"])
headers = st.lists(st.tuples(names, st.sampled_from([b"", b"1", b"x-a", b"close, X-B", b"accept"])))


@BOTH
@given(given=headers)
@examples(60)
def test_cleaning_twice_is_cleaning_once(clean: Clean, given: Headers) -> None:
    """The cleaned headers need no further cleaning, and their order is unchanged."""
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
def test_accept_encoding_is_replaced_by_identity(accepted: list[bytes]) -> None:
    """It takes the place of the first one; every client accepts it, unless it refuses identity."""
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
    """A client refuses it by name, or with all codings that it does not name (RFC 9110, 12.5.3)."""
    given = [*KEPT, *((b"Accept-Encoding", value) for value in accepted)]

    assert asking_for_identity(given) == given


def test_a_request_without_accept_encoding_stays_unchanged() -> None:
    """No header is added."""
    assert asking_for_identity(KEPT) == KEPT


def test_every_header_of_a_name_is_removed() -> None:
    """The case of the name does not matter, and the order of the rest is kept."""
    assert without(KEPT, b"accept") == [header for header in KEPT if header[0].lower() != b"accept"]
    assert without(KEPT, b"x-none") == KEPT


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ([], [(b"x-list", b"new")]),
        ([(b"X-List", b"a, b"), (b"Other", b"c")], [(b"Other", b"c"), (b"x-list", b"a, b,new")]),
        ([(b"x-list", b"a"), (b"X-LIST", b"b")], [(b"x-list", b"a,b,new")]),
    ],
)
def test_a_list_gets_one_more_value(fields: Headers, want: Headers) -> None:
    """Several fields of one name are one list."""
    assert with_value(fields, b"x-list", b"new") == want


@pytest.mark.parametrize(
    ("headers", "goes_on", "want"),
    [
        pytest.param([(b"A", b"1")], False, [(b"A", b"1"), (b"traceparent", OURS)], id="appended"),
        pytest.param(
            [(b"A", b"1"), (b"TraceParent", b"00-1-2-01"), (b"tracestate", b"a=1"), (b"B", b"2")],
            True,
            [(b"A", b"1"), (b"TraceParent", OURS), (b"tracestate", b"a=1"), (b"B", b"2")],
            id="replaced",
        ),
        pytest.param(
            [(b"traceparent", b"x"), (b"A", b"1"), (b"traceparent", b"y"), (b"Tracestate", b"a=1")],
            False,
            [(b"traceparent", OURS), (b"A", b"1")],
            id="invalid-one-replaced",
        ),
    ],
)
def test_no_other_header_is_touched(headers: Headers, goes_on: bool, want: Headers) -> None:
    """Only the `tracestate` of another trace is removed."""
    assert with_parent(headers, OURS, goes_on=goes_on) == want
