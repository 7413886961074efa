"""Exchange: one HTTP request, its record, its caller, its decoded body and its response."""

import asyncio
import hashlib
import json
import secrets
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from aiohttp import hdrs, web
from msgspec import Struct
from reasoning_replay.strict_api.dialect import Refused, Rule

__all__ = [
    "BODY_BYTES_MAX",
    "DELAY_S_MAX",
    "OPTIONS",
    "UNREADABLE",
    "Exchange",
    "Received",
    "error_of",
]

BODY_BYTES_MAX = 128 * 1024 * 1024
"""Limit as sent and as inflated, in bytes; more than any real request, safe for a test machine."""
DELAY_S_MAX = 5.0
OPTIONS: Mapping[str, Any] = MappingProxyType(
    # `received` must show the bytes that the proxy sent.
    {"auto_decompress": False, "handler_cancellation": True, "shutdown_timeout": 1.0}
)
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS

# The detail is in the stand-in's own words.
UNREADABLE = Rule(
    "We could not parse the JSON body of your request. ({})", "the API's documentation", "2026-11"
)
NO_CREDENTIAL = Rule(
    "Incorrect API key provided: ''. You can find your API key at"
    " https://platform.openai.com/account/api-keys.",
    "the API's documentation",
    "2026-11",
    status=401,
    code="invalid_api_key",
)


class Received(Struct, kw_only=True):
    """
    Record of one request, and of its response.

    Attributes:
        method: As sent.
        path: As sent, with the query.
        body: The bytes as sent, with their content encoding.
        headers: In order, repeated ones repeated.
        json: The decoded body; None if it is not JSON.
        status: The response status; 0 until then.
        finished: Whether the response was sent completely.
    """

    method: str
    path: str
    body: bytes
    headers: list[tuple[str, str]]
    json: Any = None
    status: int = 0
    finished: bool = False


class Exchange:
    """
    One request and its response.

    Args:
        request: The request object of aiohttp.
        received: The record of the request, filled in while the response is sent.
        request_id: Sent to the client as `x-request-id`.
    """

    def __init__(self, request: web.Request, received: Received, request_id: str) -> None:
        self.request = request
        self.received = received
        self._request_id = request_id

    @classmethod
    async def take_in(cls, request: web.Request) -> Self:
        """Read a whole request and record it, under an id that no other stand-in gives."""
        received = Received(
            method=request.method,
            path=request.raw_path,
            body=await request.read(),
            headers=list(request.headers.items()),
        )
        return cls(request, received, f"req_{secrets.token_hex(16)}")

    @property
    def caller(self) -> str:
        """
        The credential and the organization it acts for, as a digest.

        Raises:
            Refused: There is no credential.
        """
        headers = self.request.headers
        scheme, _, token = headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        credential = token.strip() if scheme.lower() == "bearer" else None
        credential = credential or headers.get("api-key") or headers.get("x-api-key")
        if not credential:
            raise NO_CREDENTIAL(credential)
        organization = headers.get("OpenAI-Organization", "")
        return hashlib.sha256(f"{credential}\n{organization}".encode()).hexdigest()[:32]

    def read_json(self) -> Any:
        """
        Decode the body, and record it.

        Raises:
            Refused: The body is not JSON.
        """
        try:
            self.received.json = json.loads(self.plain_body())
        except ValueError as error:
            raise UNREADABLE(error) from error
        return self.received.json

    def answer(self, body: object, status: int = 200) -> web.Response:
        """Send one JSON object as the response."""
        return self.answer_bytes(json.dumps(body).encode(), status)

    def answer_bytes(
        self, body: bytes, status: int = 200, kind: str = "application/json"
    ) -> web.Response:
        """Send these bytes as the response."""
        response = web.Response(body=body, status=status, content_type=kind)
        self._sign(response)
        self.received.finished = True
        return response

    def refuse(self, refused: Refused) -> web.Response:
        """Send an error as the response."""
        if getattr(refused, "is_text", False):
            return self.answer_bytes(refused.message.encode(), refused.status, "text/plain")
        return self.answer({"error": error_of(refused)}, refused.status)

    async def stream(
        self, frames: Sequence[bytes], *, chunk_bytes: int | None, delay_s: float
    ) -> web.StreamResponse:
        """
        Send framed events as the response.

        Args:
            frames: One event each.
            chunk_bytes: Size of one write; None writes event by event.
            delay_s: Pause after each event, 5 s at most.
        """
        response = web.StreamResponse()
        response.headers[hdrs.CONTENT_TYPE] = "text/event-stream; charset=utf-8"
        self._sign(response)
        await response.prepare(self.request)
        held = b""
        for one in frames:
            held += one
            size = chunk_bytes or len(held)
            while len(held) >= size > 0:
                await response.write(held[:size])
                held = held[size:]
                # Lets the client read this piece before the next one is written.
                await asyncio.sleep(0)
            await asyncio.sleep(min(delay_s, DELAY_S_MAX))
        if held:
            await response.write(held)
        await response.write_eof()
        self.received.finished = True
        return response

    def _sign(self, response: web.StreamResponse) -> None:
        """Add the headers that every response of the API has, and record the status."""
        response.headers["x-request-id"] = self._request_id
        response.headers["openai-processing-ms"] = "7"
        response.headers["openai-version"] = "2020-10-01"
        self.received.status = response.status

    def plain_body(self) -> bytes:
        """
        Return the body without its content encoding.

        Raises:
            Refused: The encoding is unknown, broken, or inflates beyond the limit.
        """
        encoding = self.request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower()
        if encoding == "identity":
            return self.received.body
        if encoding not in {"gzip", "deflate"}:
            raise UNREADABLE(f"content-encoding {encoding} is not read")
        inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            plain = inflater.decompress(self.received.body, BODY_BYTES_MAX)
        except zlib.error as error:
            raise UNREADABLE(error) from error
        if not inflater.eof:
            raise UNREADABLE(f"{encoding} data is cut off or too long")
        return plain


def error_of(refused: Refused) -> dict[str, Any]:
    """Return the error of a refusal, with the four members that it always has."""
    kind = getattr(refused, "type", "invalid_request_error")
    error = {"message": refused.message, "type": kind, "param": refused.param}
    return error | {"code": refused.code}
