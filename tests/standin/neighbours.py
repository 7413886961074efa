"""
Endpoints other than `/v1/responses`, as far as a proxy must forward them.

Models, embeddings and files: enough to check that a request and its response arrive complete. Pure.
"""

import base64
import hashlib
import struct

from msgspec import Struct

__all__ = [
    "EmbeddingRequest",
    "Embeddings",
    "ModelList",
    "StoredFile",
    "embed",
    "maybe_file",
    "models",
]

_MODELS = ("gpt-5.4", "gpt-5.4-mini", "gpt-4o")
_DIMENSIONS = 8
_BYTE_MAX = 255


class Model(Struct, frozen=True):
    """One entry of `GET /v1/models`."""

    id: str
    object: str = "model"
    created: int = 1_772_668_800
    owned_by: str = "openai"


class ModelList(Struct, frozen=True):
    """The body of `GET /v1/models`."""

    data: tuple[Model, ...]
    object: str = "list"


class EmbeddingRequest(Struct):
    """The body of `POST /v1/embeddings`."""

    model: str
    input: str | list[str]
    encoding_format: str = "float"


class Embedding(Struct, frozen=True):
    """One vector: numbers, or their float32 bytes in base64, which SDKs ask for."""

    index: int
    embedding: list[float] | str
    object: str = "embedding"


class EmbeddingUsage(Struct, frozen=True):
    """Token counts of an embedding request."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Struct, frozen=True):
    """The body of the response to an embedding request."""

    data: tuple[Embedding, ...]
    model: str
    usage: EmbeddingUsage
    object: str = "list"


class StoredFile(Struct, frozen=True):
    """
    The body of the response to an upload.

    `sha256` is not part of the API: with it a test checks that the content arrived complete.
    """

    id: str
    bytes: int
    filename: str
    sha256: str
    created_at: int
    object: str = "file"
    purpose: str = "user_data"
    status: str = "processed"


def models() -> ModelList:
    """List two models that reason and one that does not."""
    return ModelList(tuple(Model(name) for name in _MODELS))


def embed(request: EmbeddingRequest) -> Embeddings:
    """Map each text to numbers that depend only on the text."""
    texts = [request.input] if isinstance(request.input, str) else request.input
    as_base64 = request.encoding_format == "base64"
    data = tuple(
        Embedding(index, _base64(vector) if as_base64 else vector)
        for index, vector in enumerate(map(_vector, texts))
    )
    tokens = sum(map(len, texts))
    return Embeddings(data, request.model, EmbeddingUsage(tokens, tokens))


def _vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()[:_DIMENSIONS]
    return [byte / _BYTE_MAX for byte in digest]


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def maybe_file(body: bytes, boundary: str, now_s: int) -> StoredFile | None:
    """
    Find the part named `file` in a multipart/form-data body.

    Args:
        body: The whole body. Its boundary does not occur inside a part (RFC 2046, 5.1.1).
        boundary: The boundary that the content type names, unquoted.
        now_s: Unix time, seconds.

    Returns:
        Size and digest of its unchanged content; None if there is no such part.
    """
    for part in body.split(b"--" + boundary.encode()):
        head, found, content = part.partition(b"\r\n\r\n")
        if not found or b'name="file"' not in head:
            continue
        content = content.removesuffix(b"\r\n")
        digest = hashlib.sha256(content).hexdigest()
        name = head.partition(b'filename="')[2].partition(b'"')[0]
        return StoredFile(
            id=f"file-{digest[:24]}",
            bytes=len(content),
            filename=name.decode(errors="replace"),
            sha256=digest,
            created_at=now_s,
        )
    return None
