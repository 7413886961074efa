"""
JWT claims: the parts of a token that identify its bearer and survive its renewal (RFC 7519).

The signature is not checked here: the docstring of `scope.Scoping` explains why that is safe.
"""

import binascii
import re
from collections.abc import Sequence

from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Unspliceable

# Equal claims of different issuers are different bearers, so the issuer always counts, even if the
# setting does not name it.
ISSUER = "iss"

# Servers limit a header to 8 to 16 KiB, so none accepts a longer token.
TOKEN_MAX_CHARS = 16 * 1024
# RFC 6750, section 2.1: case does not matter in the scheme. RFC 7515, section 3.1: three parts.
_BEARER_JWT = re.compile(r"(?i:bearer) [\w-]+\.([\w-]+)\.[\w-]+", re.ASCII)
_TO_BASE64 = str.maketrans("-_", "+/")
_PLAIN = re.compile(rb"true|false|-?[0-9][0-9.eE+-]*")


def claims_of(authorization: str, names: Sequence[str]) -> list[bytes] | None:
    """
    Return the issuer and the values of some claims, each in a form unique to its value.

    Args:
        authorization: Value of the only Authorization header.
        names: Required claims.

    Returns:
        None unless this is a Bearer JWT that has each claim as a non-empty scalar. A payload that
        parsers may disagree on (a repeated key, a lone surrogate) returns None, too. `iss` may be
        absent: it is b"" then.
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
    """Return a claim's value: a quote and the decoded string, or a raw number or boolean."""
    if (at := found.get(name)) is None:
        raise Unspliceable(name)
    raw = payload[at.start : at.end]
    if value := json_spans.text(raw):
        return b'"' + value.encode()
    if not _PLAIN.fullmatch(raw):
        raise Unspliceable(name)
    return raw
