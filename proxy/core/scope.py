"""
Who a request belongs to, and which conversation it says it continues.

A scope is a tenant at an upstream: the whole key space of what may be read back.
Without a credential there is no scope, and without a scope nothing is kept and nothing injected.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b, sha256

from proxy.core.items import digest

__all__ = ["CONVERSATION_HEADER", "Account", "account_of", "hint_of", "scope_of"]

# Ours, for applications that know their conversation's name; it is not sent on.
CONVERSATION_HEADER = "x-reasoning-replay-conversation"

_CREDENTIALS = ("authorization", "api-key", "x-api-key")
# Encrypted content is bound to the organisation; projects are separate tenants of one key.
_PART_OF_SCOPE = ("openai-organization", "openai-project", "chatgpt-account-id")
# Who the blobs are issued for. A key may change within an account, and its blobs stay good.
_ACCOUNTS = ("openai-organization", "chatgpt-account-id")
Account = tuple[bytes, ...]
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


def scope_of(headers: Mapping[str, str], upstream: str, secret: str) -> bytes | None:
    """
    Return the 16-byte scope of a request, or None when it carries no credential.

    Args:
        headers: The request's, looked up without regard to case by the mapping itself.
        upstream: The URL that requests go to; another upstream is another scope.
        secret: Keys the digest, so that a store that leaks cannot be searched for credentials.
    """
    credentials = [headers.get(name, "") for name in _CREDENTIALS]
    if not any(credentials):
        return None
    state = blake2b(digest_size=16, key=sha256(secret.encode()).digest())
    for part in (upstream, *credentials, *(headers.get(name, "") for name in _PART_OF_SCOPE)):
        value = part.encode("utf-8", "surrogateescape")
        state.update(len(value).to_bytes(8, "little"))
        state.update(value)
    return state.digest()


def account_of(headers: Mapping[str, str]) -> Account:
    """Return a digest of each name of its account that a request gives; b"" for one it does not."""
    named = [headers.get(name, "").encode("utf-8", "surrogateescape") for name in _ACCOUNTS]
    return tuple(digest(b"account", name) if name else b"" for name in named)


def hint_of(headers: Mapping[str, str], body_field: Callable[[str], str]) -> bytes:
    """Return a digest of the conversation's name as the client gives it; b"" when it gives none."""
    for name in _HINTS:
        if value := headers.get(name, ""):
            return digest(b"hint", value.encode("utf-8", "surrogateescape"))
    if value := body_field("prompt_cache_key"):
        return digest(b"hint", value.encode("utf-8", "surrogatepass"))
    return b""
