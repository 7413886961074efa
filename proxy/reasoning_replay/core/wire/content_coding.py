"""
Undo the content coding of a copy, piece by piece, so that it can be read while it passes by.

A few bytes may decode to gigabytes. A decoder counts what it makes, and makes so little at a time
that hardly more than it is allowed to give is ever held.
"""

import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol

import brotli
import zstandard

__all__ = ["Decoder", "TooLarge", "Undecodable", "decode", "decoder_for", "is_encoded"]

# As much may be made at once whatever is allowed, and so be held besides.
STEP_BYTES = 2 * 1024 * 1024
# What stands behind the end of a gzip member or zstd frame is copied, to go on from there. Small
# slices keep a body of nothing but empty members linear.
SLICE_BYTES = 16 * 1024
# What one byte may make. Deflate: two bits repeat 258 bytes (RFC 1951, 3.2.5). Zstd: a block of a
# header of three bytes and one more makes 128 KiB (RFC 8878, 3.1.1.2).
DEFLATE_MAX_RATIO = 258 * 4
ZSTD_MAX_RATIO = 128 * 1024 // 4
# The window that decoders of zstd in HTTP support, and that encoders stay within (RFC 9659).
ZSTD_MAX_WINDOW_BYTES = 8 * 1024 * 1024
# Low nibble of a zlib header's first byte (RFC 1950, 2.2). Bare deflate that begins with it would
# be a stored block whose padding is not zero, which no encoder writes.
ZLIB_METHOD = 8

_GZIP = zlib.MAX_WBITS | 16
_BARE = -zlib.MAX_WBITS


class Undecodable(ValueError):
    """The bytes are not what their Content-Encoding says, or nobody here knows that coding."""


class TooLarge(Undecodable):
    """They decode to more than is allowed."""


class Decoder(Protocol):
    """Takes encoded bytes in any cut, returns what they decode to so far."""

    @property
    def is_whole(self) -> bool:
        """Whether the coding says that this is its end."""
        ...

    def feed(self, chunk: bytes) -> bytes:
        """
        Return what the next bytes decode to, possibly nothing yet.

        Raises:
            TooLarge: All of it together is more than is allowed. The decoder is of no use then.
            Undecodable: The bytes are damaged, or stand behind the end. As above.
        """
        ...


class _Identity:
    is_whole = True

    def feed(self, chunk: bytes) -> bytes:
        return chunk


class _Bounded(ABC):
    """Counts what is made, and gives up before much more of it is held than `max_bytes`."""

    max_ratio: ClassVar[int]

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def feed(self, chunk: bytes) -> bytes:
        made = io.BytesIO()
        start = 0
        while start < len(chunk):
            # So little that it cannot make more than half of what is left, or one step.
            step_bytes = max(self._left // 2, STEP_BYTES)
            end = start + min(step_bytes // self.max_ratio, SLICE_BYTES)
            for piece in self._pieces(chunk[start:end]):
                self._left -= len(piece)
                if self._left < 0:
                    raise TooLarge(f"more than {self._max_bytes} bytes")
                made.write(piece)
            start = end
        return made.getvalue()

    @abstractmethod
    def _pieces(self, encoded: bytes) -> Iterator[bytes]:
        """Decode one slice, in pieces that are counted before the next is made."""


class _Gzip(_Bounded):
    max_ratio = DEFLATE_MAX_RATIO

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._state = zlib.decompressobj(_GZIP)

    @property
    def is_whole(self) -> bool:
        return self._state.eof

    def _pieces(self, encoded: bytes) -> Iterator[bytes]:
        while encoded:
            if self._state.eof:  # RFC 1952, 2.2: another member may follow
                self._state = zlib.decompressobj(_GZIP)
            try:
                yield self._state.decompress(encoded)
            except zlib.error as error:
                raise Undecodable(str(error)) from error
            encoded = self._state.unused_data


class _Deflate(_Bounded):
    """Zlib's format (RFC 9110, 8.4.1.2), or bare deflate, which the same name is used for."""

    max_ratio = DEFLATE_MAX_RATIO

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._state = zlib.decompressobj()
        self._has_begun = False

    @property
    def is_whole(self) -> bool:
        return self._state.eof

    def _pieces(self, encoded: bytes) -> Iterator[bytes]:
        if not self._has_begun and encoded[0] & 0x0F != ZLIB_METHOD:
            self._state = zlib.decompressobj(_BARE)
        self._has_begun = True
        try:
            yield self._state.decompress(encoded)
        except zlib.error as error:
            raise Undecodable(str(error)) from error
        if self._state.unused_data:
            raise Undecodable("bytes behind the end")


class _Brotli(_Bounded):
    max_ratio = 1  # there is none, but what it makes of one slice can be had in pieces

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._state = brotli.Decompressor()

    @property
    def is_whole(self) -> bool:
        return bool(self._state.is_finished())

    def _pieces(self, encoded: bytes) -> Iterator[bytes]:
        try:
            # The buffer grows by doubling until it is over the limit.
            yield self._state.process(encoded, output_buffer_limit=STEP_BYTES // 2)
            while not self._state.can_accept_more_data():
                yield self._state.process(b"", output_buffer_limit=STEP_BYTES // 2)
        except brotli.error as error:
            raise Undecodable(str(error)) from error


class _Zstandard(_Bounded):
    max_ratio = ZSTD_MAX_RATIO

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._context = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
        self._state = self._context.decompressobj()

    @property
    def is_whole(self) -> bool:
        return self._state.eof

    def _pieces(self, encoded: bytes) -> Iterator[bytes]:
        while encoded:
            if self._state.eof:  # RFC 8878, 3.1: another frame may follow
                self._state = self._context.decompressobj()
            try:
                yield self._state.decompress(encoded)
            except zstandard.ZstdError as error:
                raise Undecodable(str(error)) from error
            encoded = self._state.unused_data


def is_encoded(content_encoding: str) -> bool:
    """Tell whether a `Content-Encoding` names any coding."""
    return content_encoding.strip().lower() not in ("", "identity")


def decoder_for(content_encoding: str, max_bytes: int) -> Decoder:
    """
    Return a decoder for a `Content-Encoding`.

    Args:
        content_encoding: The header's value; "" without one.
        max_bytes: That it may make in all. What is not encoded is not made, and has no limit here.

    Raises:
        Undecodable: It names a coding that is not known here, or several on top of each other.
    """
    match content_encoding.strip().lower():
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Gzip(max_bytes)
        case "deflate":
            return _Deflate(max_bytes)
        case "br":
            return _Brotli(max_bytes)
        case "zstd":
            return _Zstandard(max_bytes)
        case other:
            raise Undecodable(other)


def decode(body: bytes, content_encoding: str, max_bytes: int) -> bytes:
    """
    Decode a whole body; one that is not encoded is returned as it is.

    Args:
        body: From its first byte to its last.
        content_encoding: As for `decoder_for`.
        max_bytes: As for `decoder_for`.

    Raises:
        TooLarge: It decodes to more than `max_bytes`.
        Undecodable: It is damaged, its end is missing, or its coding is not known here.

    Cost: two or three milliseconds for each MB that it makes. Memory: up to half as much again as
    `max_bytes`, or a step, and the window of the coding (16 MiB for brotli).
    """
    decoder = decoder_for(content_encoding, max_bytes)
    decoded = decoder.feed(body)
    if not decoder.is_whole:
        raise Undecodable("the end is missing")
    return decoded
