"""
Tenant lines: what an operator writes of a tenant, and the scopes that its requests have.

    Authorization: Bearer sk-1      a header of its requests, one in a line
    oid: 7f3e-...                   a claim that `scope_from` names
    sk-1                            a credential alone, or the value of the only header that counts
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from reasoning_replay.core.tenancy.jwt_claims import ISSUER, claims_of
from reasoning_replay.core.tenancy.scope import AUTHORIZATION, Parts, Scoping

LINES_MAX: Final = 32
_LINE = re.compile(r"([A-Za-z0-9_-]+):(?:\s+(.*)|)")
_BEARER = re.compile(r"(?i)bearer\s")
_SCALAR = (str, int, float)


class TenantScope(NamedTuple):
    """
    A scope of a tenant.

    Attributes:
        header: The header that has the credential; "" if the operator named the headers.
        upstream: Name of the upstream that it is for; "" if it is the only one.
        is_former: Whether it is that of the second secret.
    """

    scope: bytes
    header: str
    upstream: str = ""
    is_former: bool = False


def scopes_in(text: str, scopings: Mapping[str, Scoping]) -> list[TenantScope]:
    """
    Return the scopes of the requests that a tenant sends, for each upstream.

    A credential alone has one scope for each header that may carry it, because the name of the
    header counts.

    Args:
        text: Lines that the operator wrote.
        scopings: The rule of each upstream, by its name; "" if it is the only one.

    Raises:
        ValueError: The lines do not make a scope. The message says what is missing, and quotes no
            value.
    """
    return [
        one._replace(upstream=name, is_former=rule is not scoping)
        for name, scoping in scopings.items()
        for rule in (scoping, scoping.former)
        if rule is not None
        for one in _scopes_at(text, rule)
    ]


def _scopes_at(text: str, scoping: Scoping) -> list[TenantScope]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or len(lines) > LINES_MAX:
        raise ValueError(f"{len(lines)} lines: write at least one, and {LINES_MAX} at most")
    headers: dict[str, str] = {}
    claims: dict[str, str] = {}
    alone: list[str] = []
    counting, named = scoping.counting, scoping.parts.claims
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            alone.append(line)
            continue
        name, value = match[1], match[2] or ""
        into = claims if name in (*named, ISSUER) else headers
        name = name if into is claims else name.lower()
        if into is headers and name not in counting:
            raise ValueError(f"line {number}: this name does not count; {_names(scoping)} do")
        if name in into:
            raise ValueError(f"line {number}: {name} occurs twice; write it once")
        into[name] = value
    if claims and AUTHORIZATION in headers:
        raise ValueError(f"{AUTHORIZATION} and claims, which it contains: remove one")
    if claims:
        headers[AUTHORIZATION] = _token(claims, scoping.parts)
    if not alone:
        return [TenantScope(_scope(scoping, headers), "")]
    if len(alone) > 1:
        raise ValueError(f"{len(alone)} lines without a name: write `name: value`")
    carriers = _carriers(scoping, headers)
    return [
        TenantScope(_scope(scoping, headers | {name: _credential(name, alone[0])}), name)
        for name in carriers
    ]


def _names(scoping: Scoping) -> str:
    return ", ".join((*scoping.counting, *scoping.parts.claims))


def _carriers(scoping: Scoping, given: dict[str, str]) -> tuple[str, ...]:
    """Return the headers that may carry a value without a name."""
    required = tuple(name for name in scoping.parts.headers if name not in given)
    if len(required) > 1 or (required and scoping.credentials):
        raise ValueError(f"a line without a name: scope_from needs {', '.join(required)} by name")
    carriers = required or scoping.credentials
    if not carriers or any(name in given for name in carriers):
        raise ValueError("a line without a name, and the header that it stands for: remove one")
    return carriers


def _credential(header: str, value: str) -> str:
    is_bare = header == AUTHORIZATION and not _BEARER.match(value)
    return f"Bearer {value}" if is_bare else value


def _token(claims: dict[str, str], parts: Parts) -> str:
    """Return an unsigned token that has these claims, and no other."""
    if missing := [name for name in (ISSUER, *parts.claims) if name not in claims]:
        raise ValueError(
            f"the claim {missing[0]} is missing: write {missing[0]}: and its value, "
            "or nothing after the colon if tokens do not have it"
        )
    members = [f'"{name}":{_json(value)}' for name, value in claims.items() if value]
    written = f"{{{','.join(members)}}}".encode("utf-8", "surrogateescape")
    payload = urlsafe_b64encode(written).decode().rstrip("=")
    token = f"Bearer e30.{payload}.e30"
    if claims_of(token, parts.claims) is None:
        raise ValueError("a claim is empty, or no text, number or boolean")
    return token


def _json(value: str) -> str:
    """Return a claim's value as JSON: as written if it is a scalar of JSON, otherwise as text."""
    try:
        is_scalar = isinstance(json.loads(value, parse_constant=_no_number), _SCALAR)
    except ValueError:
        is_scalar = False
    return value if is_scalar else json.dumps(value)


def _no_number(name: str) -> float:
    raise ValueError(name)  # NaN and Infinity are no JSON, so they are text


def _scope(scoping: Scoping, headers: dict[str, str]) -> bytes:
    scope = scoping.of(headers)
    if scope is None:
        raise ValueError(f"requests with these headers have no scope: {_names(scoping)} count")
    return scope
