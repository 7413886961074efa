"""
JWT claims: what a token says of its bearer that outlives its renewal (RFC 7519).

The signature is not checked here: `scope` says what that means, and why it is enough.
"""

import binascii
import re
from collections.abc import Sequence

from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Unspliceable

__all__ = ["ISSUER", "claims_of"]

# Claims are an issuer's word: those of another are another's, also where nobody asks for it.
ISSUER = "iss"

# Longer than any that a server takes, whose limit on a header is 8 to 16 KiB.
TOKEN_MAX_CHARS = 16 * 1024
# RFC 6750, section 2.1: the scheme's case does not matter. RFC 7515, section 3.1: three parts.
_BEARER_JWT = re.compile(r"(?i:bearer) [\w-]+\.([\w-]+)\.[\w-]+", re.ASCII)
_TO_BASE64 = str.maketrans("-_", "+/")
_PLAIN = re.compile(rb"true|false|-?[0-9][0-9.eE+-]*")


def claims_of(authorization: str, names: Sequence[str]) -> list[bytes] | None:
    """
    Return the issuer and the values of some claims, each in a form that no other value has.

    Args:
        authorization: The value of the one header of that name.
        names: Claims that all must be there.

    Returns:
        None unless this is a bearer's JWT that has each of them once, as a scalar: what readers
        may disagree on (a key twice, half a surrogate) says nothing. `iss` may be absent.
    """
    token = _BEARER_JWT.fullmatch(authorization) if len(authorization) <= TOKEN_MAX_CHARS else None
    if token is None:
        return None
    part = token.group(1)
    try:
        payload = binascii.a2b_base64(part.translate(_TO_BASE64) + "=" * (-len(part) % 4))
        found = json_spans.members(payload)
        issuer = _scalar(payload, found, ISSUER) if ISSUER in found else b""
        return [issuer, *(_scalar(payload, found, name) for name in names)]
    except (binascii.Error, Unspliceable):
        return None


def _scalar(payload: bytes, found: dict[str, json_spans.Member], name: str) -> bytes:
    """Return a claim's value: a string decoded, behind a quote; a number or a boolean as it is."""
    if (at := found.get(name)) is None:
        raise Unspliceable(name)
    raw = payload[at.start : at.end]
    if value := json_spans.text(raw):
        return b'"' + value.encode()
    if not _PLAIN.fullmatch(raw):
        raise Unspliceable(name)
    return raw
