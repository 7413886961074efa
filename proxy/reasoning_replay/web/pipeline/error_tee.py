"""Error tee: reads the code and the type of an error response while it is relayed."""

import contextlib
from dataclasses import dataclass

from reasoning_replay.adapters.upstream.client import UpstreamResponse
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.wire.content_coding import Decoder, Undecodable, decoder_for
from reasoning_replay.web.exchange import Exchange

__all__ = ["ERROR_MAX_BYTES", "ErrorTee", "error_tee_for"]

# A longer error body, encoded or decoded, is not read.
ERROR_MAX_BYTES = 16 * 1024


@dataclass(slots=True)
class ErrorTee:
    """Reader of one error response; it never delays the client."""

    exchange: Exchange
    decoder: Decoder
    _read: bytes = b""

    def take(self, chunk: bytes) -> bool:
        """Keep the next chunk; it can be written at once."""
        if len(self._read) <= ERROR_MAX_BYTES:
            self._read += chunk
        return True

    async def settle(self) -> None:
        """Do nothing: no chunk waits."""

    async def close(self) -> None:
        """Read the error. Never raises."""
        if len(self._read) <= ERROR_MAX_BYTES:
            with contextlib.suppress(Exception):  # fail open: the client has the error
                names = error_names(self.decoder.feed(self._read))
                self.exchange.response.refusal = names


def error_tee_for(response: UpstreamResponse, exchange: Exchange) -> ErrorTee | None:
    """Return the tee of an error response; None if it cannot be decoded."""
    try:
        decoder = decoder_for(response.value(b"content-encoding"), ERROR_MAX_BYTES)
    except Undecodable:
        return None
    return ErrorTee(exchange, decoder)
