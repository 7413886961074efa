"""
Scope: the tenant of a request, and the conversation that the client names in it.

A scope is a tenant at one upstream. It is the key space of the store: a request reads and writes
only there. A request without a credential (or without the header that is configured instead) has no
scope; nothing is captured or injected for it.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b, sha256
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from reasoning_replay.core.tenancy.jwt_claims import claims_of
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.headers import CONVERSATION_HEADER, ending_here, is_of_one_hop

AUTHORIZATION = "authorization"
_CREDENTIALS = (AUTHORIZATION, "api-key", "x-api-key", "x-goog-api-key")
# Encrypted content is bound to the organisation. One key may serve several projects, which are
# separate tenants.
_PART_OF_SCOPE = ("openai-organization", "openai-project", "chatgpt-account-id")
# Headers that name the account that blobs are issued for. A key may change within an account; the
# blobs of that account stay valid.
_ACCOUNTS = ("openai-organization", "chatgpt-account-id")
Account = tuple[bytes, ...]
NO_ACCOUNT: Account = (b"", b"")
# Session headers of current clients. Two conversations may share a value, so it only breaks ties.
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

FINGERPRINT_BYTES = 3
_NOT_LET_IN = frozenset({401, 403})
_SUCCESS = 2  # the first digit of a status

# RFC 9110, section 5.6.2.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CLAIM = re.compile(r"[!-*\--~]+")  # text without spaces, commas and "+"
# Claims that belong to one token and not to its bearer; claims that all users of an API share.
_OF_A_TOKEN = frozenset({"exp", "iat", "nbf", "jti", "auth_time", "nonce", "uti", "aio", "rh"})
_OF_EVERYBODY = frozenset({"iss", "aud", "ver", "typ", "scp", "scope"})


class Parts(NamedTuple):
    """
    Parts of a request that distinguish tenants.

    Attributes:
        credential: Whether the full values of the credential headers count.
        claims: Claims that replace the token, if it has all of them. The other credential headers
            count in addition.
        headers: Required headers that a gateway in front of the proxy sets; in lower case.
    """

    credential: bool = True
    claims: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


def read_parts(written: str) -> Parts:
    """
    Parse a comma-separated list of `credential`, `claims:NAME+NAME` and `header:NAME`.

    Raises:
        ValueError: The list is not valid. The message names the reason and a way out.
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
                raise ValueError("claims occurs twice; join the names: claims:tid+oid")
            case "header":
                headers.append(_read_header(named.lower()))
            case _:
                raise ValueError(
                    "use a comma-separated list of credential, claims:NAME+NAME and header:NAME"
                )
    if credential and claims:
        raise ValueError("credential and claims: a token counts whole or by its claims; keep one")
    return Parts(credential, claims, tuple(sorted(set(headers))))


def _read_claims(named: str) -> tuple[str, ...]:
    names = tuple(named.split("+"))
    if not all(map(_CLAIM.fullmatch, names)):
        raise ValueError("claims: a name is empty or has invalid characters; use claims:tid+oid")
    if passing := [name for name in names if name in _OF_A_TOKEN]:
        raise ValueError(f"claims: {passing[0]} changes with each token; use claims:tid+oid")
    if set(names) <= _OF_EVERYBODY:
        raise ValueError("claims: these do not identify a token's bearer; use claims:tid+oid")
    return tuple(sorted(set(names)))


def _read_header(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError("header: not a valid header name; use header:x-tenant-id")
    if is_of_one_hop(name):
        raise ValueError(f"header: {name} is not forwarded to the upstream; use one that is")
    if name in (*_CREDENTIALS, *_PART_OF_SCOPE):
        raise ValueError(f"header: {name} is not allowed here; use credential, or another header")
    return name


CREDENTIAL = Parts()


def read_secrets(written: str) -> tuple[str, ...]:
    """
    Parse the secret of scopes, and after a comma a second one, under which is looked as well.

    An empty second one stands for the time when there was none.

    Raises:
        ValueError: The first is empty although there is a second, or there are more.
    """
    secrets = tuple(map(str.strip, written.split(","))) if "," in written else (written,)
    if len(secrets) > 2 or (len(secrets) > 1 and not secrets[0]):  # noqa: PLR2004 (new and old)
        raise ValueError("use one secret, or two as new,old; a secret has no comma in it")
    return secrets


def fingerprint_of(secret: str) -> bytes:
    """
    Return 3 bytes by which replicas notice that they have different secrets.

    A store shows them, so they are too few to prove a guess of a secret.
    """
    return digest(b"scope secret", secret.encode())[:FINGERPRINT_BYTES]


class Scoping:
    """
    Computation of request scopes for one upstream: prepared once, used for every request.

    With claims, a forged token that carries the claims of a tenant gets the scope of that tenant,
    because only upstream checks signatures. The forger must not learn anything from this. Reasoning
    that was found goes only into the request, which upstream refuses with 401 or 403. Such a
    response is neither healed nor captured. Like every response that is not a success, it is
    forwarded without any sign of the result. Two effects remain: the response time, and an entry
    among the tenant's exchanges. So upstream must check tokens, and must do so before it reads
    bodies. An upstream that accepts any token, or that quotes bodies to unauthenticated callers,
    would reveal stored reasoning to the forger.

    Attributes:
        parts: Parts of a request that distinguish tenants.
        credentials: Names of the credential headers that count.
        counting: Names of all headers that count.
        former: The rule of the second secret, under which is looked as well; None: there is none.
    """

    def __init__(
        self,
        upstream: str,
        secret: str,
        parts: Parts = CREDENTIAL,
        former: "Scoping | None" = None,
    ) -> None:
        """
        Prepare the part of the digest that all scopes share.

        Args:
            upstream: URL that requests are sent to; another upstream is another scope.
            secret: Key of the digest, so that a leaked store cannot be searched for credentials.
            parts: Parts of a request that distinguish tenants.
            former: The same rule with the second secret.
        """
        self.parts = parts
        self.former = former
        self._blank = blake2b(digest_size=16, key=sha256(secret.encode()).digest())
        self._blank.update(_sized([upstream.encode("utf-8", "surrogateescape")]))
        self.credentials = _CREDENTIALS if parts.credential or parts.claims else ()
        self.counting = (*parts.headers, *self.credentials, *_PART_OF_SCOPE)
        self._looked_at = frozenset({*self.counting, "connection"})
        self._claims = " ".join(("claims", *parts.claims)).encode()  # never the name of a header

    def of(self, headers: Mapping[str, str]) -> bytes | None:
        """
        Return the 16-byte scope of a request, or None if its tenant is unknown.

        Args:
            headers: All headers of the request, repeated ones included: all values of a name count.
                A header that `Connection` names does not count, because upstream does not see it.

        Cost: about 10 us; about 60 us with claims.
        """
        found = self._found(headers)
        parts = self.parts
        for name in parts.headers:
            if len(found.get(name, ())) != 1 or not found[name][0]:
                return None
        said: list[bytes] = []
        is_known = not self.credentials
        for name in filter(found.__contains__, self.counting):
            values = found[name]
            if not any(values):
                continue
            is_known = is_known or name in self.credentials
            claims = None
            if name == AUTHORIZATION and parts.claims and len(values) == 1:
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
        """Return the headers that count, by name in lower case, without those that end here."""
        found: dict[str, list[str]] = {}
        fields = list(headers.items())
        names = [*map(str.lower, map(itemgetter(0), fields))]
        counts = map(self._looked_at.__contains__, names)
        for name, (_, value) in compress(zip(names, fields, strict=True), counts):
            found.setdefault(name, []).append(value)
        if "connection" in found:
            for name in ending_here(found.pop("connection")):
                found.pop(name, None)
        return found

    def tells(self, status: int) -> bool:
        """Return whether a response of this status may report the result of the lookup."""
        if status in _NOT_LET_IN:
            return False
        return status // 100 == _SUCCESS or not self.parts.claims


def _sized(said: list[bytes]) -> bytes:
    return b"".join([b"%d:%b" % (len(value), value) for value in said])


def account_of(headers: Mapping[str, str]) -> Account:
    """Return a digest of each account header of a request; b"" for an absent one."""
    organization, account = _ACCOUNTS
    named = headers.get(organization, ""), headers.get(account, "")
    if not any(named):
        return NO_ACCOUNT  # most requests
    return tuple(
        [
            digest(b"account", name.encode("utf-8", "surrogateescape")) if name else b""
            for name in named
        ]
    )


def hint_of(headers: Mapping[str, str], body_field: Callable[[str], str]) -> bytes:
    """Return a digest of the conversation's name that the client sent; b"" without one."""
    for name in filter(headers.__contains__, _HINTS):
        if value := headers[name]:
            return digest(b"hint", value.encode("utf-8", "surrogateescape"))
    if value := body_field("prompt_cache_key"):
        return digest(b"hint", value.encode("utf-8", "surrogatepass"))
    return b""
