"""JWT claims: read only where all readers of a token agree on their values."""

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.tenancy.jwt_claims import TOKEN_MAX_CHARS, claims_of

from tests.fast_lane import examples

NAMES = ("tid", "oid")
HEADER = "eyJhbGciOiJSUzI1NiJ9"


def encoded(payload: bytes) -> str:
    """Return bytes as one part of a token."""
    return urlsafe_b64encode(payload).decode().rstrip("=")


def bearer(payload: bytes | dict[str, object]) -> str:
    """Return the header with a token that has this payload."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return f"Bearer {HEADER}.{encoded(data)}.c2ln"


GOOD = {"iss": "i", "tid": "t", "oid": "o", "exp": 1}


def test_the_issuer_and_the_claims_are_read_in_order() -> None:
    """The issuer comes first, whether it is requested or not; a missing issuer is empty."""
    assert claims_of(bearer(GOOD), NAMES) == [b'"i', b'"t', b'"o']
    assert claims_of(bearer(GOOD), ("oid", "iss")) == [b'"i', b'"o', b'"i']
    assert claims_of(bearer({"tid": "t", "oid": "o"}), NAMES) == [b"", b'"t', b'"o']


@pytest.mark.parametrize("spelled", ["bearer", "BEARER", "Bearer"])
def test_the_scheme_is_read_in_any_case(spelled: str) -> None:
    """The scheme is case-insensitive (RFC 9110, section 11.1)."""
    assert claims_of(bearer(GOOD).replace("Bearer", spelled), NAMES) == [b'"i', b'"t', b'"o']


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(b'"a\\u0062"', b'"ab', id="escapes"),
        pytest.param(' "é" '.encode(), '"é'.encode(), id="text"),
        pytest.param(b'"1"', b'"1', id="digits-in-a-string"),
        pytest.param(b"1", b"1", id="number"),
        pytest.param(b"-1.5e3", b"-1.5e3", id="float"),
        pytest.param(b"true", b"true", id="boolean"),
        pytest.param(b'"true"', b'"true', id="a-word"),
        pytest.param(b'""', None, id="empty"),
        pytest.param(b"null", None, id="null"),
        pytest.param(b"[]", None, id="list"),
        pytest.param(b'["o"]', None, id="list-of-one"),
        pytest.param(b'{"a":1}', None, id="object"),
        pytest.param(b'"\\ud800"', None, id="half-a-surrogate"),
        pytest.param(b'"\xff"', None, id="not-text"),
    ],
)
def test_a_claim_is_a_scalar_with_a_unique_spelling(value: bytes, want: bytes | None) -> None:
    """The string "1" differs from the number 1; a claim that is not a scalar names no tenant."""
    got = claims_of(bearer(b'{"oid":%b}' % value), ("oid",))

    assert got == (None if want is None else [b"", want])


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("", id="nothing"),
        pytest.param("Bearer sk-1", id="a-key"),
        pytest.param(bearer(GOOD).replace("Bearer ", ""), id="no-scheme"),
        pytest.param(bearer(GOOD).replace("Bearer", "Basic"), id="another-scheme"),
        pytest.param(bearer(GOOD).replace("Bearer ", "Bearer  "), id="two-spaces"),
        pytest.param(" " + bearer(GOOD), id="leading-space"),
        pytest.param(bearer(GOOD) + " ", id="trailing-space"),
        pytest.param(bearer(GOOD) + "\n", id="trailing-newline"),
        pytest.param(bearer(GOOD) + ", Bearer x", id="a-list"),
        pytest.param(bearer(GOOD).rpartition(".")[0], id="two-parts"),
        pytest.param(bearer(GOOD).rpartition(".")[0] + ".", id="no-signature"),
        pytest.param(bearer(GOOD) + ".a.b", id="five-parts-as-if-encrypted"),
        pytest.param(bearer(GOOD).replace(".", "=."), id="padding"),
        pytest.param(f"Bearer {HEADER}.{encoded(b'{')}.c2ln", id="no-json"),
        pytest.param(f"Bearer {HEADER}.a.c2ln", id="no-base64"),
        pytest.param(f"Bearer {HEADER}.é.c2ln", id="non-ascii"),
        pytest.param(bearer(b"[]"), id="a-list-for-a-payload"),
        pytest.param(bearer(b"\xff"), id="bytes-for-a-payload"),
        pytest.param(bearer({"tid": "t"}), id="one-claim-missing"),
        pytest.param(bearer({"tid": "t", "OID": "o"}), id="another-case"),
        pytest.param(bearer({"a": {"tid": "t", "oid": "o"}}), id="deeper"),
        pytest.param(bearer(b'{"tid":"t","oid":"o","oid":"p"}'), id="a-claim-twice"),
        pytest.param(bearer(b'{"tid":"t","oid":"o","oid":"o"}'), id="a-claim-twice-alike"),
        pytest.param(bearer(b'{"tid":"t","oid":"o","\\u006fid":"p"}'), id="twice-in-two-spellings"),
        pytest.param(bearer(b'{"iss":"a","tid":"t","oid":"o","iss":"b"}'), id="two-issuers"),
        pytest.param(bearer(GOOD | {"iss": ["i"]}), id="issuers-in-a-list"),
        pytest.param(bearer(GOOD | {"x": "x" * TOKEN_MAX_CHARS}), id="too-long"),
        pytest.param(bearer(b'{"tid":' + b"[" * 9000), id="too-deep"),
    ],
)
def test_an_ambiguous_token_has_no_claims(authorization: str) -> None:
    """The whole credential is then used, so isolation is never weaker."""
    assert claims_of(authorization, NAMES) is None


scalars = st.text(min_size=1, max_size=3) | st.booleans() | st.integers(-9, 9)


@given(scalars, scalars, st.dictionaries(st.sampled_from("abc"), scalars))
@examples(100)
def test_claims_are_equal_only_for_equal_values(
    one: str | int, other: str | int, rest: dict[str, object]
) -> None:
    """Other claims and the spelling of the token have no effect."""
    first = claims_of(bearer({"oid": one}), ("oid",))
    second = claims_of(bearer(json.dumps(rest | {"oid": other}, indent=1).encode()), ("oid",))

    assert first is not None
    assert (first == second) is ((type(one), one) == (type(other), other))
