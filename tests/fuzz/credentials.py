"""Credentials: any headers of a client give a scope that depends on them alone, and no error."""

from multidict import CIMultiDict
from reasoning_replay.core.tenancy.jwt_claims import claims_of
from reasoning_replay.core.tenancy.scope import Scoping, account_of, hint_of, read_parts

from tests.fuzz.inputs import read

__all__ = ["compute", "scope"]

# The sources of a tenant, as in the setting.
_SOURCES = ("credential", "claims:tid+oid", "header:x-tenant", "credential,header:x-a")
_SCOPINGS = [Scoping("http://upstream", "secret", read_parts(one)) for one in _SOURCES]
_OTHERS = [Scoping("http://upstream", "other", read_parts(one)) for one in _SOURCES]


def scope(data: bytes) -> None:
    """Check that the scope depends on the headers and the settings, and on nothing else."""
    headers = _headers(data)
    shouted = CIMultiDict((n.upper() if n.isascii() else n, v) for n, v in headers.items())
    for ours, other in zip(_SCOPINGS, _OTHERS, strict=True):
        found = ours.of(headers)
        assert ours.of(headers) == ours.of(shouted) == found
        if found is not None:
            assert len(found) == 16
            assert other.of(headers) != found
    for value in headers.values():
        claims = claims_of(value, ("tid", "oid"))
        assert claims is None or len(claims) == 3
    account_of(headers)
    hint_of(headers, lambda _: "")


def compute(data: bytes) -> None:
    """Compute the scopes of a request."""
    headers = _headers(data)
    for each in _SCOPINGS:
        each.of(headers)


def _headers(data: bytes) -> CIMultiDict[str]:
    lines = read(data).payload.decode("latin-1").split("\n")
    pairs = [line.partition(":") for line in lines]
    return CIMultiDict((name.strip(), value.strip()) for name, _, value in pairs)
