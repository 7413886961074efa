"""Pairs of tenants for each source of a scope, and tokens in an issuer's format."""

import json
from base64 import urlsafe_b64encode
from typing import NamedTuple


def token(**claims: object) -> str:
    """Encode a JSON Web Token."""
    parts = ({"alg": "RS256", "kid": "k1", "typ": "JWT"}, claims)
    spelled = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*spelled, "c2lnbmF0dXJl"])


def bearer(oid: str, **more: object) -> str:
    """Return the header of a user of one issuer."""
    claims = {"iss": "https://login.test/t1/v2.0", "tid": "t1", "oid": oid, "exp": 1} | more
    return "Authorization: Bearer " + token(**claims)


class Tenants(NamedTuple):
    """
    Two tenants, each with its headers.

    Attributes:
        scope_from: The setting that separates them.
        one: Headers of the first tenant.
        other: Headers of the second tenant.
        again: The first tenant with a change that does not affect the scope.
    """

    scope_from: str
    one: list[str]
    other: list[str]
    again: list[str]


KEY = "Authorization: Bearer sk-shared"
ORGANISATION = "OpenAI-Organization: org-1"
TENANTS = {
    "keys": Tenants(
        "credential",
        ["Authorization: Bearer sk-a"],
        ["Authorization: Bearer sk-b"],
        ["AUTHORIZATION: Bearer sk-a", "User-Agent: other"],
    ),
    "api-keys": Tenants("credential", ["api-key: a"], ["x-api-key: a"], ["Api-Key: a"]),
    "organisations": Tenants(
        "credential", [KEY, ORGANISATION], [KEY, "OpenAI-Organization: org-2"], [ORGANISATION, KEY]
    ),
    "projects": Tenants(
        "credential", [KEY, "OpenAI-Project: p1"], [KEY], [KEY, "openai-project: p1"]
    ),
    "a-second-key": Tenants("credential", [KEY], [KEY, "Authorization: Bearer sk-b"], [KEY]),
    "claims": Tenants(
        "claims:tid+oid", [bearer("a")], [bearer("b")], [bearer("a", exp=2, iat=1, uti="x")]
    ),
    "issuers": Tenants(
        "claims:tid+oid",
        [bearer("a")],
        [bearer("a", iss="https://evil.test")],
        [bearer("a", exp=2)],
    ),
    "claims-and-a-key": Tenants(
        "claims:tid+oid",
        [bearer("a"), "api-key: a"],
        [bearer("a"), "api-key: b"],
        [bearer("a", exp=2), "api-key: a"],
    ),
    "a-token-without-claims": Tenants(
        "claims:tid+oid", [bearer("a")], [bearer("", sub="a")], [bearer("a", exp=2)]
    ),
    "trusted-headers": Tenants(
        "header:x-tenant-id", [KEY, "X-Tenant-Id: a"], [KEY, "X-Tenant-Id: b"], ["x-tenant-id: a"]
    ),
    "two-trusted-headers": Tenants(
        "header:x-tenant-id",
        [KEY, "X-Tenant-Id: a"],
        [KEY, "X-Tenant-Id: b", "X-Tenant-Id: a"],
        ["X-Tenant-Id: a"],
    ),
    "a-trusted-header-and-keys": Tenants(
        "header:x-tenant-id,credential",
        [KEY, "X-Tenant-Id: a"],
        ["Authorization: Bearer sk-b", "X-Tenant-Id: a"],
        ["X-Tenant-Id: a", KEY],
    ),
    "a-trusted-header-and-claims": Tenants(
        "header:x-tenant-id,claims:tid+oid",
        [bearer("a"), "X-Tenant-Id: a"],
        [bearer("a"), "X-Tenant-Id: b"],
        [bearer("a", exp=2), "X-Tenant-Id: a"],
    ),
}
