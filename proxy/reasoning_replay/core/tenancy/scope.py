"""
Scope: whose request it is, and which conversation it says it continues.

A scope is a tenant at an upstream: the whole key space of what may be read back.
Without a credential there is no scope, and without a scope nothing is kept and nothing injected.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b, sha256
from typing import NamedTuple

from reasoning_replay.core.tenancy.jwt_claims import claims_of
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.headers import CONVERSATION_HEADER, ending_here, is_of_one_hop

__all__ = [
    "CONVERSATION_HEADER",
    "NO_ACCOUNT",
    "Account",
    "Parts",
    "Scoping",
    "account_of",
    "hint_of",
    "read_parts",
]

_AUTHORIZATION = "authorization"
_CREDENTIALS = (_AUTHORIZATION, "api-key", "x-api-key")
# Encrypted content is bound to the organisation; projects are separate tenants of one key.
_PART_OF_SCOPE = ("openai-organization", "openai-project", "chatgpt-account-id")
# Who the blobs are issued for. A key may change within an account, and its blobs stay good.
_ACCOUNTS = ("openai-organization", "chatgpt-account-id")
Account = tuple[bytes, ...]
NO_ACCOUNT: Account = (b"", b"")
# What clients of today send; two conversations may share one, so it only ever breaks a tie.
_HINTS = (
    CONVERSATION_HEADER,
    "session-id",
    "session_id",
    "thread-id",
    "conversation_id",
    "x-session-id",
    "x-session-affinity",
    "x-opencode-session",
    "x-litellm-session-id",
)

_NOT_LET_IN = frozenset({401, 403})
_SUCCESS = 2  # the first digit of a status

# RFC 9110, section 5.6.2.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CLAIM = re.compile(r"[!-*\--~]+")  # text without spaces, commas and "+"
# Claims of one token and not of its bearer, and those that all who use an API have in common.
_OF_A_TOKEN = frozenset({"exp", "iat", "nbf", "jti", "auth_time", "nonce", "uti", "aio", "rh"})
_OF_EVERYBODY = frozenset({"iss", "aud", "ver", "typ", "scp", "scope"})


class Parts(NamedTuple):
    """
    What tells tenants apart.

    Attributes:
        credential: The credential headers count, whole.
        claims: These claims of a token stand for it, where it has them all. The other credential
            headers count besides.
        headers: Headers that whoever stands in front sets; in lower case.
    """

    credential: bool = True
    claims: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


def read_parts(written: str) -> Parts:
    """
    Read `credential`, `claims:NAME+NAME` and `header:NAME`, by comma.

    Raises:
        ValueError: With a reason and a way out.
    """
    credential = False
    claims: tuple[str, ...] = ()
    headers: list[str] = []
    for part in map(str.strip, written.split(",")):
        kind, colon, named = part.partition(":")
        match kind:
            case "credential" if not colon:
                credential = True
            case "claims" if not claims:
                claims = _read_claims(named)
            case "claims":
                raise ValueError("claims twice; join them: claims:tid+oid")
            case "header":
                headers.append(_read_header(named.lower()))
            case _:
                raise ValueError(
                    "name some of credential, claims:NAME+NAME and header:NAME, by comma"
                )
    if credential and claims:
        raise ValueError("credential and claims: a token counts whole or by its claims; keep one")
    return Parts(credential, claims, tuple(sorted(set(headers))))


def _read_claims(named: str) -> tuple[str, ...]:
    names = tuple(named.split("+"))
    if not all(map(_CLAIM.fullmatch, names)):
        raise ValueError("claims: a name is empty or no text; use claims:tid+oid")
    if passing := [name for name in names if name in _OF_A_TOKEN]:
        raise ValueError(f"claims: {passing[0]} changes with each token; use claims:tid+oid")
    if set(names) <= _OF_EVERYBODY:
        raise ValueError("claims: these say nothing of whose a token is; use claims:tid+oid")
    return tuple(sorted(set(names)))


def _read_header(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError("header: not a header's name; use header:x-tenant-id")
    if is_of_one_hop(name):
        raise ValueError(f"header: {name} does not go on to the upstream; use one that does")
    if name in (*_CREDENTIALS, *_PART_OF_SCOPE):
        raise ValueError(f"header: {name} counts already; use credential, or another header")
    return name


CREDENTIAL = Parts()


class Scoping:
    """
    How a request's scope is made, for one upstream; prepared once, asked on every request.

    Where claims stand for a token, whoever forges one with somebody's claims is in that somebody's
    scope: the signature is upstream's to check, and nothing that upstream has not agreed to may
    teach the forger anything. What is found goes into a request that upstream refuses with 401 or
    403; such an answer is neither healed nor captured, and like every one that is no success it
    is passed on without a word of what was found. All that is left is the time it took, and a
    place among the tenant's exchanges. So upstream must check tokens, and before it looks at
    bodies: one that answers anybody, or quotes a body back to strangers, tells the forger.
    """

    def __init__(self, upstream: str, secret: str, parts: Parts = CREDENTIAL) -> None:
        """
        Prepare what all scopes have in common.

        Args:
            upstream: The URL that requests go to; another upstream is another scope.
            secret: Keys the digest, so that a store that leaks cannot be searched for credentials.
            parts: What tells tenants apart.
        """
        self._parts = parts
        self._blank = blake2b(digest_size=16, key=sha256(secret.encode()).digest())
        self._blank.update(_sized([upstream.encode("utf-8", "surrogateescape")]))
        self._credentials = _CREDENTIALS if parts.credential or parts.claims else ()
        self._counting = (*parts.headers, *self._credentials, *_PART_OF_SCOPE)
        self._looked_at = frozenset({*self._counting, "connection"})
        self._claims = " ".join(("claims", *parts.claims)).encode()  # no header has such a name

    def of(self, headers: Mapping[str, str]) -> bytes | None:
        """
        Return the 16-byte scope of a request, or None when it is not known whose it is.

        Args:
            headers: The request's as they came, repeated ones repeatedly. Of two that have one
                name, both count; one that `Connection` names does not, as upstream will not see it.

        Cost: about 10 us; 60 with claims.
        """
        found = self._found(headers)
        parts = self._parts
        for name in parts.headers:
            if len(found.get(name, ())) != 1 or not found[name][0]:
                return None
        said: list[bytes] = []
        is_known = not self._credentials
        for name in self._counting:
            values = found.get(name)
            if not values or not any(values):
                continue
            is_known = is_known or name in self._credentials
            claims = None
            if name == _AUTHORIZATION and parts.claims and len(values) == 1:
                claims = claims_of(values[0], parts.claims)
            if claims is None:
                claims = [value.encode("utf-8", "surrogateescape") for value in values]
                said += [name.encode(), b"%d" % len(claims), *claims]
            else:
                said += [self._claims, *claims]
        if not is_known:
            return None
        state = self._blank.copy()
        state.update(_sized(said))
        return state.digest()

    def _found(self, headers: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the values that count by their names in lower case, less those that end here."""
        found: dict[str, list[str]] = {}
        looked_at = self._looked_at
        for given, value in headers.items():
            if (name := given.lower()) in looked_at:
                found.setdefault(name, []).append(value)
        if "connection" in found:
            for name in ending_here(found.pop("connection")):
                found.pop(name, None)
        return found

    def tells(self, status: int) -> bool:
        """Tell whether an answer of this status may say what was found: was the caller let in?"""
        if status in _NOT_LET_IN:
            return False
        return status // 100 == _SUCCESS or not self._parts.claims


def _sized(said: list[bytes]) -> bytes:
    return b"".join([b"%d:%b" % (len(value), value) for value in said])


def account_of(headers: Mapping[str, str]) -> Account:
    """Return a digest of each name of its account that a request gives; b"" for one it does not."""
    organization, account = _ACCOUNTS
    named = headers.get(organization, ""), headers.get(account, "")
    if not any(named):
        return NO_ACCOUNT  # as most
    return tuple(
        [
            digest(b"account", name.encode("utf-8", "surrogateescape")) if name else b""
            for name in named
        ]
    )


def hint_of(headers: Mapping[str, str], body_field: Callable[[str], str]) -> bytes:
    """Return a digest of the conversation's name as the client gives it; b"" when it gives none."""
    for name in _HINTS:
        if value := headers.get(name, ""):
            return digest(b"hint", value.encode("utf-8", "surrogateescape"))
    if value := body_field("prompt_cache_key"):
        return digest(b"hint", value.encode("utf-8", "surrogatepass"))
    return b""
