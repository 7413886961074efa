"""
Seals: signatures of reasoning blocks, made and checked, opaque to clients.

A signature holds a tag for each fact that it is bound to. They protect nothing of value: the key
is the stand-in's own.
"""

import base64
import binascii
import hmac
from typing import Literal, get_args

from msgspec import Struct, structs

from tests.standin.messages.blocks import Block, Prefix

__all__ = ["Flaw", "Sealed", "Sealer"]

Flaw = Literal["damaged", "model", "account", "system", "tools", "messages", "thinking"]
_TAG_BYTES = 16
_VERSION = b"\x12\x03"


class Sealed(Struct, frozen=True):
    """
    The facts that one block is bound to.

    Attributes:
        content: Its text, which the signature covers; "" if it shows none.
        caller: Digest of the credential.
    """

    content: str
    model: str
    caller: str
    prefix: Prefix

    def facts(self) -> tuple[str, ...]:
        """Return the facts, in the order of Flaw."""
        prefix = self.prefix
        parts = (prefix.system, prefix.tools, prefix.messages, prefix.thinking)
        return (self.content, self.model, self.caller, *parts)


_FLAWS: tuple[Flaw, ...] = get_args(Flaw)


class Sealer:
    """Issuer and reader of signatures; two sealers with one key read each other's."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, label: str, sealed: Sealed) -> str:
        """Issue a signature; no label is used twice."""
        nonce = self._tag(b"nonce", label)
        body = _VERSION + nonce + b"".join(self._tag(nonce, fact) for fact in sealed.facts())
        return base64.b64encode(body + self._tag(body, "")).decode()

    def flaws(self, block: Block, sealed: Sealed) -> list[Flaw]:
        """Return all that is wrong with a block of reasoning in the place of `sealed`."""
        is_redacted = block.get("type") == "redacted_thinking"
        content = "" if is_redacted else str(block.get("thinking"))
        signature = block.get("data" if is_redacted else "signature")
        try:
            raw = base64.b64decode(str(signature).encode(), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return ["damaged"]
        body, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(body, "")):
            return ["damaged"]
        tags = [body[at : at + _TAG_BYTES] for at in range(len(_VERSION), len(body), _TAG_BYTES)]
        nonce, *tags = tags
        facts = structs.replace(sealed, content=content).facts()
        both = zip(_FLAWS, tags, facts, strict=True)
        flaws = [flaw for flaw, tag, fact in both if tag != self._tag(nonce, fact)]
        # Reasoning may be missing from the start of a history.
        return [flaw for flaw in flaws if flaw != "thinking" or sealed.prefix.thinking]

    def _tag(self, salt: bytes, fact: str) -> bytes:
        fact_bytes = fact.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, salt + b"/" + fact_bytes, "sha256")[:_TAG_BYTES]
