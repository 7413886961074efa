"""Tenant lines: what an operator writes leads to the scope that the tenant's requests have."""

import json
import re
from base64 import urlsafe_b64encode

import pytest
from reasoning_replay.core.tenancy.scope import Scoping, read_parts
from reasoning_replay.core.tenancy.tenant_lines import scopes_in

CREDENTIALS = ["authorization", "api-key", "x-api-key", "x-goog-api-key"]


def rule(scope_from: str = "credential") -> Scoping:
    """Return a rule for scopes."""
    return Scoping("https://api.openai.com/v1", "s", read_parts(scope_from))


def token(**claims: object) -> str:
    """Return a token as an issuer signs it."""
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"Bearer e30.{payload}.c2lnbmVk"


def test_a_key_alone_has_the_scope_of_each_header_that_may_carry_it() -> None:
    """The operator need not know which SDK the tenant uses."""
    found = {one.header: one.scope for one in scopes_in("sk-1\n", {"": rule()})}

    assert found == {
        name: rule().of({name: "Bearer sk-1" if name == "authorization" else "sk-1"})
        for name in CREDENTIALS
    }


def test_a_tenant_has_a_scope_for_each_secret() -> None:
    """In a rotation, data may be in both."""
    old = Scoping("https://api.openai.com/v1", "old")
    both = Scoping("https://api.openai.com/v1", "s", former=old)
    headers = {"authorization": "Bearer sk-1"}
    found = scopes_in("Authorization: Bearer sk-1", {"": both})
    assert [(one.scope, one.is_former) for one in found] == [
        (rule().of(headers), False),
        (old.of(headers), True),
    ]


@pytest.mark.parametrize(
    ("scope_from", "text", "headers"),
    [
        ("credential", "Authorization: Bearer sk-1", {"authorization": "Bearer sk-1"}),
        (
            "credential",
            "X-API-Key:  sk:1 \r\nOpenAI-Project: p\n",
            {"x-api-key": "sk:1", "openai-project": "p"},
        ),
        ("header:x-tenant", "x-tenant: acme", {"x-tenant": "acme"}),
        ("header:x-tenant", "acme", {"x-tenant": "acme"}),
        ("header:x-tenant", "acme & sons", {"x-tenant": "acme & sons"}),
        ("claims:oid", "iss: i\noid: o-1", {"authorization": token(iss="i", oid="o-1", exp=1)}),
        ("claims:oid", "iss:\noid: 7", {"authorization": token(oid=7)}),
        ("claims:oid", 'iss:\noid: "7"', {"authorization": token(oid="7")}),
        ("claims:oid", "iss: i\noid: 0-1", {"authorization": token(iss="i", oid="0-1")}),
        ("claims:oid", "iss: i\noid: NaN", {"authorization": token(iss="i", oid="NaN")}),
        ("claims:oid", 'iss: i\noid: say "o"', {"authorization": token(iss="i", oid='say "o"')}),
        (
            "claims:oid",
            token(iss="i", oid="o-1", jti="x"),
            {"authorization": token(iss="i", oid="o-1")},
        ),
    ],
)
def test_lines_have_the_scope_of_the_requests(
    scope_from: str, text: str, headers: dict[str, str]
) -> None:
    """Headers, claims and a value alone: each counts as in a request."""
    want = rule(scope_from).of(headers)

    assert want is not None
    assert scopes_in(text, {"": rule(scope_from)})[0].scope == want


@pytest.mark.parametrize(
    ("scope_from", "text", "message"),
    [
        ("credential", " \n", "0 lines: write at least one"),
        ("credential", "x: 1\n" * 33, "33 lines: write at least one, and 32 at most"),
        ("credential", "x-tenant: hunter2", "line 1: this name does not count; authorization, "),
        ("credential", "api-key: hunter2\nAPI-KEY: 2", "line 2: api-key occurs twice"),
        ("credential", "hunter2\nhunter3", "2 lines without a name: write `name: value`"),
        ("credential", "hunter2\napi-key: 1", "and the header that it stands for"),
        ("credential", "openai-project: hunter2", "have no scope: authorization, "),
        ("header:a,header:b", "hunter2", "scope_from needs a, b by name"),
        ("header:a,credential", "hunter2", "scope_from needs a by name"),
        ("header:a", "hunter2\na: 1", "and the header that it stands for"),
        ("claims:oid", "oid: hunter2", "the claim iss is missing: write iss: and its value, or no"),
        ("claims:oid", "iss: hunter2", "the claim oid is missing"),
        ("claims:oid", "iss: hunter2\noid:", "a claim is empty, or no text, number or boolean"),
        ("claims:oid", "iss:\noid: 1\nAuthorization: hunter2", "authorization and claims"),
    ],
)
def test_an_error_names_the_way_out_and_no_value(scope_from: str, text: str, message: str) -> None:
    """The lines hold secrets, so a message quotes none of them."""
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        scopes_in(text, {"": rule(scope_from)})

    assert "hunter" not in str(raised.value)
