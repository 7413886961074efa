"""Scope and hint: a scope is one tenant at one upstream; a hint is the name of a conversation."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from reasoning_replay.core.tenancy.scope import (
    Parts,
    Scoping,
    account_of,
    fingerprint_of,
    hint_of,
    read_parts,
    read_secrets,
)
from reasoning_replay.core.wire.headers import CONVERSATION_HEADER

from tests.fast_lane import examples

URL = "https://api.openai.com/v1"
KEY = {"authorization": "Bearer sk-1"}
PARTS = [
    "authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "openai-organization",
    "openai-project",
    "chatgpt-account-id",
]


def scope_of(
    headers: Mapping[str, str], upstream: str, secret: str, scope_from: str = "credential"
) -> bytes | None:
    """Return the scope of a request with these headers."""
    return Scoping(upstream, secret, read_parts(scope_from)).of(headers)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"authorization": ""}, id="empty"),
        pytest.param({"openai-organization": "org", "openai-project": "p"}, id="organisation"),
        pytest.param({"cookie": "session=1", "x-forwarded-for": "1.2.3.4"}, id="other-headers"),
    ],
)
def test_without_a_credential_there_is_no_scope(headers: dict[str, str]) -> None:
    """Reasoning is never stored for a client that cannot be distinguished from others."""
    assert scope_of(headers, URL, "s") is None


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key", "x-goog-api-key"])
def test_any_credential_makes_a_scope(name: str) -> None:
    """A scope has 16 bytes and is the same for each request."""
    scope = scope_of({name: "sk-1"}, URL, "s")

    assert scope is not None
    assert len(scope) == 16
    assert scope == scope_of({name: "sk-1", "user-agent": "x"}, URL, "s")


def test_header_names_are_case_insensitive() -> None:
    """As in all of HTTP, the case of a header name does not change the scope."""
    assert scope_of(CIMultiDict({"AUTHORIZATION": "Bearer sk-1"}), URL, "s") == scope_of(
        KEY, URL, "s"
    )


def test_every_part_changes_the_scope() -> None:
    """Another credential, organisation, project, upstream or secret is another tenant."""
    scopes = [
        scope_of(KEY, URL, "s"),
        scope_of(KEY, URL, ""),
        scope_of(KEY, URL, "other"),
        scope_of(KEY, URL + "/", "s"),
        *(scope_of(KEY | {name: "other"}, URL, "s") for name in PARTS),
        *(scope_of({name: KEY["authorization"]}, URL, "s") for name in PARTS[1:3]),
    ]

    assert None not in scopes
    assert all(one != other for one, other in combinations(scopes, 2))


values = st.text(alphabet=st.characters(codec="utf-8") | st.just("\udcff"), max_size=3)
tenants = st.tuples(values, st.fixed_dictionaries(dict.fromkeys(PARTS, values)))


@given(tenants, tenants)
@examples(100)
def test_scopes_are_equal_only_for_equal_parts(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    """Different parts never give the same scope, even if a header is not UTF-8."""
    scopes = [scope_of(headers, upstream, "s") for upstream, headers in (one, other)]

    assert None in scopes or (scopes[0] == scopes[1]) is (one == other)


def test_parts_are_separated() -> None:
    """A character that moves from one part to the next gives another scope."""
    one = scope_of({"authorization": "ab", "api-key": "c"}, "u", "s")

    assert one != scope_of({"authorization": "a", "api-key": "bc"}, "u", "s")
    assert one != scope_of({"authorization": "b", "api-key": "c"}, "ua", "s")


# --- other sources of a scope ---

TENANT = {"x-tenant-id": "t"}
CLAIMS = "claims:tid+oid"


def bearer(**claims: object) -> dict[str, str]:
    """Return the headers with a token."""
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return {"authorization": f"Bearer eyJhbGciOiJSUzI1NiJ9.{payload}.c2ln"}


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("credential", Parts()),
        ("claims:tid+oid", Parts(False, ("oid", "tid"))),
        ("claims:oid+tid", Parts(False, ("oid", "tid"))),
        ("claims:iss+sub+sub", Parts(False, ("iss", "sub"))),
        ("claims:https://x.test/org-id", Parts(False, ("https://x.test/org-id",))),
        ("header:X-Tenant-Id", Parts(False, (), ("x-tenant-id",))),
        ("header:b , header:a,header:B", Parts(False, (), ("a", "b"))),
        ("header:x-tenant-id,credential", Parts(True, (), ("x-tenant-id",))),
        ("credential,credential", Parts()),
        ("claims:sub,header:x", Parts(False, ("sub",), ("x",))),
    ],
)
def test_sources_are_separated_by_commas(written: str, want: Parts) -> None:
    """Their order does not matter: the same sources give the same scopes."""
    assert read_parts(written) == want


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "use a comma-separated list of credential"),
        ("credential,", "use a comma-separated list of credential"),
        ("credentials", "use a comma-separated list of credential"),
        ("credential:x", "use a comma-separated list of credential"),
        ("Credential", "use a comma-separated list of credential"),
        ("claim:tid", "use a comma-separated list of credential"),
        ("claims", "claims: a name is empty"),
        ("claims:", "claims: a name is empty"),
        ("claims:tid+", "claims: a name is empty"),
        ("claims:tid oid", "claims: a name is empty or has invalid characters"),
        ("claims:tid,claims:oid", "claims occurs twice; join the names"),
        ("claims:tid,credential", "credential and claims: .* keep one"),
        ("claims:oid+exp", "claims: exp changes with each token"),
        ("claims:jti", "claims: jti changes with each token"),
        ("claims:iss+aud", "claims: these do not identify a token's bearer"),
        ("header", "header: not a valid header name"),
        ("header:", "header: not a valid header name"),
        ("header:x tenant", "header: not a valid header name"),
        ("header:x:y", "header: not a valid header name"),
        ("header:é", "header: not a valid header name"),
        ("header:Connection", "header: connection is not forwarded"),
        ("header:proxy-authorization", "header: proxy-authorization is not forwarded"),
        ("header:host", "header: host is not forwarded"),
        (f"header:{CONVERSATION_HEADER}", f"header: {CONVERSATION_HEADER} is not forwarded"),
        ("header:Authorization", "header: authorization is not allowed here"),
        ("header:x-api-key", "header: x-api-key is not allowed here"),
        ("header:x-goog-api-key", "header: x-goog-api-key is not allowed here"),
        ("header:openai-project", "header: openai-project is not allowed here"),
    ],
)
def test_an_invalid_source_is_rejected(written: str, reason: str) -> None:
    """The error message names the fault and the way out."""
    with pytest.raises(ValueError, match=reason):
        read_parts(written)


def test_claims_outlive_the_token() -> None:
    """Other claims and signatures keep the scope; another value of a named claim changes it."""
    one = bearer(iss="i", tid="t", oid="o", exp=1)
    renewed = {"authorization": bearer(iss="i", tid="t", oid="o", exp=2)["authorization"] + "_"}

    assert scope_of(one, URL, "s", CLAIMS) == scope_of(renewed, URL, "s", CLAIMS) is not None
    assert scope_of(one, URL, "s") != scope_of(renewed, URL, "s")
    others = [
        one,
        bearer(iss="i", tid="t", oid="p"),
        bearer(iss="i", tid="o", oid="t"),
        bearer(iss="j", tid="t", oid="o"),
        bearer(tid="t", oid="o"),
        bearer(iss="i", tid="to", oid=""),
        one | {"api-key": "k"},
        one | {"x-api-key": "k"},
        one | {"openai-project": "p"},
        KEY,
    ]
    scopes = [scope_of(headers, URL, "s", CLAIMS) for headers in others]
    assert all(first != second for first, second in combinations(scopes, 2))
    assert scope_of(one, URL, "s", CLAIMS) != scope_of(one, URL, "s", "claims:oid")


def test_two_tokens_are_used_whole() -> None:
    """It is not known which of the two credentials upstream uses."""
    one, other = bearer(sub="a", exp=1), bearer(sub="a", exp=2)
    twice = [CIMultiDict([*first.items(), *KEY.items()]) for first in (one, other)]

    assert scope_of(one, URL, "s", "claims:sub") == scope_of(other, URL, "s", "claims:sub")
    assert scope_of(twice[0], URL, "s", "claims:sub") != scope_of(twice[1], URL, "s", "claims:sub")


def test_a_trusted_header_alone_makes_the_scope() -> None:
    """Credentials have no effect unless `credential` is named too; then both are required."""
    alone, both = "header:x-tenant-id", "header:x-tenant-id,credential"

    assert scope_of(TENANT, URL, "s", alone) == scope_of(TENANT | KEY, URL, "s", alone) is not None
    assert scope_of(TENANT, URL, "s", alone) != scope_of({"x-tenant-id": "u"}, URL, "s", alone)
    assert scope_of(TENANT, URL, "s", both) is scope_of(KEY, URL, "s", both) is None
    assert scope_of(TENANT | KEY, URL, "s", both) is not None
    project = TENANT | {"openai-project": "p"}
    assert scope_of(TENANT, URL, "s", alone) != scope_of(project, URL, "s", alone)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="absent"),
        pytest.param([("x-tenant-id", "")], id="empty"),
        pytest.param([("x-tenant-id", "a"), ("X-Tenant-Id", "a")], id="repeated"),
        pytest.param([("x-tenant-id", "a"), ("x-tenant-id", "")], id="repeated-and-empty"),
        pytest.param([("x-tenant-id", "a"), ("connection", "x-tenant-id")], id="ends-here"),
        pytest.param([("x_tenant_id", "a")], id="another-name"),
    ],
)
def test_a_trusted_header_must_occur_exactly_once(
    headers: list[tuple[str, str]],
) -> None:
    """The gateway in front sets it exactly once; otherwise there is no scope."""
    given = CIMultiDict([*headers, *KEY.items()])

    assert scope_of(given, URL, "s", "header:x-tenant-id") is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("credential", [200, 204, 400, 404, 429, 500]),
        ("header:x-tenant-id", [200, 204, 400, 404, 429, 500]),
        (CLAIMS, [200, 204]),
        (f"{CLAIMS},header:x-tenant-id", [200, 204]),
    ],
)
def test_a_rejected_client_learns_nothing(written: str, told: list[int]) -> None:
    """With claims, only a successful response proves that upstream accepted the token."""
    scoping = Scoping(URL, "s", read_parts(written))

    assert [s for s in (200, 204, 400, 401, 403, 404, 429, 500) if scoping.tells(s)] == told


TOKENS = {bearer(tid=t, oid=o)["authorization"]: (t, o) for t in "ab" for o in "ab"}
ways = st.sampled_from(["credential", CLAIMS, "claims:oid", "header:a", "header:a,credential"])
heads = st.fixed_dictionaries(
    {
        "authorization": st.sampled_from(["", "Bearer sk", *TOKENS]),
        "api-key": st.sampled_from(["", "a", "1:a"]),
        "a": st.sampled_from(["", "a", "b"]),
    }
)


def told_apart(way: str, headers: dict[str, str]) -> list[object]:
    """Return the values that identify a tenant, computed in another way."""
    said: list[object] = [headers["a"] if "header" in way else None]
    if way == "header:a":
        return said
    token = TOKENS.get(headers["authorization"])
    if token is None or way not in (CLAIMS, "claims:oid"):
        return [*said, headers["authorization"], headers["api-key"]]
    return [*said, token if way == CLAIMS else token[1:], headers["api-key"]]


@given(st.tuples(ways, heads), st.tuples(ways, heads))
@examples(300)
def test_scopes_are_equal_only_for_one_tenant(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    """This holds between replicas with different settings: values of two sources never collide."""
    scopes = [scope_of(headers, URL, "s", way) for way, headers in (one, other)]

    assert None in scopes or (scopes[0] == scopes[1]) is (told_apart(*one) == told_apart(*other))


HINTS = [
    CONVERSATION_HEADER,
    *["session-id", "session_id", "thread-id", "conversation_id", "x-session-id"],
    *["x-session-affinity", "x-opencode-session", "x-litellm-session-id"],
]


def nothing(_: str) -> str:
    """Stand for a body without a name."""
    return ""


@pytest.mark.parametrize("name", HINTS)
def test_a_conversation_is_named_by_a_header(name: str) -> None:
    """The same name gives the same hint in every header."""
    hint = hint_of({name: "abc"}, nothing)

    assert len(hint) == 16
    assert hint == hint_of({}, {"prompt_cache_key": "abc"}.__getitem__)
    assert hint != hint_of({name: "abd"}, nothing)


def test_a_header_has_priority_over_the_body() -> None:
    """The proxy's own header has priority over any other."""
    headers = {CONVERSATION_HEADER: "a", "session-id": "b"}

    assert hint_of(headers, lambda _: "c") == hint_of({"session-id": "a"}, nothing)
    assert hint_of({"session-id": "b"}, lambda _: "c") == hint_of({}, lambda _: "b")


def test_without_a_name_there_is_no_hint() -> None:
    """An empty header is not a name."""
    assert hint_of({"session-id": "", "user-agent": "x"}, nothing) == b""


def test_a_name_may_have_any_bytes() -> None:
    """Header values that are not UTF-8 arrive as surrogates."""
    assert len(hint_of({"session-id": "\udcff"}, nothing)) == 16
    assert len(hint_of({}, lambda _: "\ud800")) == 16


def test_an_account_is_named_by_organisation_or_account_id() -> None:
    """A key may be renewed within an account; without these headers the account is unknown."""
    names = [{"openai-organization": "org"}, {"chatgpt-account-id": "org"}]
    accounts = {account_of(headers) for headers in names}

    assert len(accounts) == 2
    assert {len(name) for account in accounts for name in account} == {0, 16}
    assert account_of({**names[0], **KEY}) == account_of({**names[0], "openai-project": "p"})
    assert account_of(KEY) == account_of({**KEY, "openai-organization": ""}) == (b"", b"")


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("", ("",)),
        (" one ", (" one ",)),
        ("new,old", ("new", "old")),
        ("new, old ", ("new", "old")),
        ("new,", ("new", "")),
        (",old", None),
        ("a,b,c", None),
    ],
)
def test_a_secret_may_have_an_old_one(written: str, want: tuple[str, ...] | None) -> None:
    """The first is for new conversations; an empty old one means that there was none."""
    if want is not None:
        assert read_secrets(written) == want
        return
    with pytest.raises(ValueError, match="new,old"):
        read_secrets(written)


def test_a_fingerprint_tells_secrets_apart_and_proves_no_guess() -> None:
    """It is too short for that: of any dictionary, many secrets have the same."""
    prints = {fingerprint_of(secret) for secret in ("", "a", "b", "c" * 99)}
    assert len(prints) == 4
    assert {len(one) for one in prints} == {3}
