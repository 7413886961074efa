"""A scope is one tenant at one upstream, and a hint is a conversation's name."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from proxy.core.scope import CONVERSATION_HEADER, account_of, hint_of, scope_of

URL = "https://api.openai.com/v1"
KEY = {"authorization": "Bearer sk-1"}
PARTS = [
    "authorization",
    "api-key",
    "x-api-key",
    "openai-organization",
    "openai-project",
    "chatgpt-account-id",
]


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
    """Nothing may be kept for someone who cannot be told from others."""
    assert scope_of(headers, URL, "s") is None


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
def test_any_credential_makes_a_scope(name: str) -> None:
    """16 bytes, the same ones each time."""
    scope = scope_of({name: "sk-1"}, URL, "s")

    assert scope is not None
    assert len(scope) == 16
    assert scope == scope_of({name: "sk-1", "user-agent": "x"}, URL, "s")


def test_header_names_are_looked_up_as_the_mapping_does() -> None:
    """HTTP's own mapping does not regard case."""
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
@settings(max_examples=100, deadline=None)
def test_scopes_are_equal_for_equal_parts_alone(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    """No two sets of parts run together, also where a header is not UTF-8."""
    scopes = [scope_of(headers, upstream, "s") for upstream, headers in (one, other)]

    assert None in scopes or (scopes[0] == scopes[1]) is (one == other)


def test_parts_do_not_run_together() -> None:
    """A character that moves from one part to the next makes another scope."""
    one = scope_of({"authorization": "ab", "api-key": "c"}, "u", "s")

    assert one != scope_of({"authorization": "a", "api-key": "bc"}, "u", "s")
    assert one != scope_of({"authorization": "b", "api-key": "c"}, "ua", "s")


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
    """One name is one hint, whichever header it comes in."""
    hint = hint_of({name: "abc"}, nothing)

    assert len(hint) == 16
    assert hint == hint_of({}, {"prompt_cache_key": "abc"}.__getitem__)
    assert hint != hint_of({name: "abd"}, nothing)


def test_a_header_says_more_than_the_body() -> None:
    """And the header made for it says more than any other."""
    headers = {CONVERSATION_HEADER: "a", "session-id": "b"}

    assert hint_of(headers, lambda _: "c") == hint_of({"session-id": "a"}, nothing)
    assert hint_of({"session-id": "b"}, lambda _: "c") == hint_of({}, lambda _: "b")


def test_without_a_name_there_is_no_hint() -> None:
    """An empty header names nothing."""
    assert hint_of({"session-id": "", "user-agent": "x"}, nothing) == b""


def test_a_name_in_any_bytes_is_a_name() -> None:
    """Header values that are not UTF-8 arrive as surrogates."""
    assert len(hint_of({"session-id": "\udcff"}, nothing)) == 16
    assert len(hint_of({}, lambda _: "\ud800")) == 16


def test_an_account_is_what_blobs_are_issued_for() -> None:
    """A key may be renewed within an account; without a name there is none."""
    names = [{"openai-organization": "org"}, {"chatgpt-account-id": "org"}]
    accounts = {account_of(headers) for headers in names}

    assert len(accounts) == 2
    assert {len(name) for account in accounts for name in account} == {0, 16}
    assert account_of({**names[0], **KEY}) == account_of({**names[0], "openai-project": "p"})
    assert account_of(KEY) == account_of({**KEY, "openai-organization": ""}) == (b"", b"")
