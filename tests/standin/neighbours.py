"""
Endpoints other than `/v1/responses`, as far as a proxy must forward them.

Models, embeddings and files: enough to check that a request and its response arrive complete. Pure.
"""

import base64
import hashlib
import struct
from typing import Any

from reasoning_replay.strict_api.responses_words import MISSING_PARAMETER

Json = dict[str, Any]

_MODELS = ("gpt-5.4", "gpt-5.4-mini", "gpt-4o")
_MADE_AT = 1_772_668_800
_DIMENSIONS = 8
_BYTE_MAX = 255


def models() -> Json:
    """List two models that reason and one that does not."""
    more = {"object": "model", "created": _MADE_AT, "owned_by": "openai"}
    return {"object": "list", "data": [{"id": name, **more} for name in _MODELS]}


def embed(request: Json) -> Json:
    """Map each text to numbers that depend only on the text."""
    asked = request["input"]
    texts = [asked] if isinstance(asked, str) else asked
    is_base64 = (
        request.get("encoding_format") == "base64"
    )  # their float32 bytes, which SDKs ask for
    vectors = map(_vector, texts)
    data = [
        {"index": n, "object": "embedding", "embedding": _base64(one) if is_base64 else one}
        for n, one in enumerate(vectors)
    ]
    tokens = sum(map(len, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request["model"], "usage": usage}


def _vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()[:_DIMENSIONS]
    return [byte / _BYTE_MAX for byte in digest]


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def file(body: bytes, content_type: str) -> Json:
    """
    Return the file in a multipart/form-data body.

    A boundary does not occur inside a part (RFC 2046, 5.1.1). Its `sha256` is not part of the API:
    with it a test checks that the content arrived complete.
    """
    boundary = content_type.partition("boundary=")[2].strip('"')
    for part in body.split(b"--" + boundary.encode()):
        head, found, content = part.partition(b"\r\n\r\n")
        if not boundary or not found or b'name="file"' not in head:
            continue
        content = content.removesuffix(b"\r\n")
        digest = hashlib.sha256(content).hexdigest()
        name = head.partition(b'filename="')[2].partition(b'"')[0]
        return {
            "id": f"file-{digest[:24]}",
            "bytes": len(content),
            "filename": name.decode(errors="replace"),
            "sha256": digest,
            "created_at": _MADE_AT,
            "object": "file",
            "purpose": "user_data",
            "status": "processed",
        }
    raise MISSING_PARAMETER("file")
