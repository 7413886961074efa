"""
Content coding: incremental decoders for gzip, deflate, br and zstd with a limit on their output.

A few bytes may decode to gigabytes. A decoder counts its output and stops as soon as the limit is
exceeded, so memory use stays close to the limit.
"""

import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

import brotli
import zstandard

# Largest output of one step. It is counted before the next step.
STEP_BYTES = 2 * 1024 * 1024
# Largest input of one step. The input after the end of a gzip member or zstd frame is copied, so
# small slices keep the cost linear for a body of many empty members.
SLICE_BYTES = 16 * 1024
# The same for zstd and large bodies: smaller slices of them would cost more CPU than decoding.
ZSTD_STEP_BYTES = 4 * STEP_BYTES
# zstandard has no output limit. Four bytes can decode to a block of 128 KiB (RFC 8878, 3.1.1.2).
ZSTD_MAX_RATIO = 128 * 1024 // 4
# Window that zstd decoders in HTTP support and that encoders must not exceed (RFC 9659).
ZSTD_MAX_WINDOW_BYTES = 8 * 1024 * 1024
# Largest window of brotli (RFC 7932, 9.1).
BROTLI_WINDOW_BYTES = 16 * 1024 * 1024
# Low nibble of a zlib header's first byte (RFC 1950, 2.2). Bare deflate never begins with it: that
# would be a stored block with non-zero padding.
ZLIB_METHOD = 8


class Undecodable(ValueError):
    """The bytes do not match their Content-Encoding, or the coding is unknown."""


class TooLarge(Undecodable):
    """The decoded bytes exceed the limit."""


class Decoder(ABC):
    """Decoder for one body that arrives in chunks."""

    @property
    @abstractmethod
    def is_whole(self) -> bool:
        """Whether the end of the encoded body was reached; always true without a coding."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Memory that it holds between two calls, in bytes: the part of its window that is used."""

    @abstractmethod
    def feed(self, chunk: bytes) -> bytes:
        """
        Decode the next bytes and return the output, which may be empty.

        Raises:
            TooLarge: The whole output exceeds the limit. The decoder is unusable afterwards.
            Undecodable: The bytes are damaged, or follow the end. The decoder is unusable
                afterwards.
        """

    @abstractmethod
    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """As `feed`, but return the output in pieces; it holds one at a time."""


class _Identity(Decoder):
    is_whole = True
    held_bytes = 0

    def __init__(self, _max_bytes: int) -> None:
        pass

    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk


class _Bounded(Decoder):
    slice_bytes = SLICE_BYTES
    window_bytes = 32 * 1024

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    @property
    def held_bytes(self) -> int:
        return min(self._max_bytes - self._left, self.window_bytes)

    def feed(self, chunk: bytes) -> bytes:
        made = io.BytesIO()
        for piece in self.pieces(chunk):
            made.write(piece)
        return made.getvalue()

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(chunk):
            end = start + self.slice_bytes
            try:
                for piece in self._steps(chunk[start:end]):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise TooLarge(f"more than {self._max_bytes} bytes")
                    yield piece
            except (zlib.error, brotli.error, zstandard.ZstdError) as error:
                raise Undecodable(str(error)) from error
            start = end

    @abstractmethod
    def _steps(self, encoded: bytes) -> Iterator[bytes]:
        """Decode one slice, in bounded steps."""


class _Gzip(_Bounded):
    _state: "zlib._Decompress | None" = None

    @property
    def is_whole(self) -> bool:
        return self._state is not None and self._state.eof

    def _steps(self, encoded: bytes) -> Iterator[bytes]:
        made = b""
        while encoded or len(made) == STEP_BYTES:  # a full step: there may be more output
            if self._state is None or (encoded and self._state.eof):
                self._state = self._next(encoded[0])
            made = self._state.decompress(encoded, STEP_BYTES)
            yield made
            encoded = self._state.unconsumed_tail or self._state.unused_data

    def _next(self, _first: int) -> "zlib._Decompress":
        """Return the state for the next member (RFC 1952, 2.2), which begins with this byte."""
        return zlib.decompressobj(zlib.MAX_WBITS | 16)


class _Deflate(_Gzip):
    """Decoder of the zlib format (RFC 9110, 8.4.1.2) and of bare deflate, which some peers send."""

    def _next(self, first: int) -> "zlib._Decompress":
        if self._state is not None:
            raise Undecodable("bytes after the end")
        is_zlib = first & 0x0F == ZLIB_METHOD
        return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


class _Brotli(_Bounded):
    window_bytes = BROTLI_WINDOW_BYTES

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._state = brotli.Decompressor()

    @property
    def is_whole(self) -> bool:
        return bool(self._state.is_finished())

    def _steps(self, encoded: bytes) -> Iterator[bytes]:
        # The output buffer doubles until it exceeds the limit, hence half a step.
        limit = STEP_BYTES // 2
        yield (made := self._state.process(encoded, output_buffer_limit=limit))
        # A full step: there may be more output, even if all input was accepted.
        while not self.is_whole and (len(made) >= limit or not self._state.can_accept_more_data()):
            yield (made := self._state.process(b"", output_buffer_limit=limit))


class _Zstandard(_Bounded):
    window_bytes = ZSTD_MAX_WINDOW_BYTES

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._context = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
        self._state = self._context.decompressobj()
        # The output of one slice is at most half of `max_bytes`, and of a size between these.
        most_bytes = min(max(max_bytes // 2, STEP_BYTES), ZSTD_STEP_BYTES)
        self.slice_bytes = min(most_bytes // ZSTD_MAX_RATIO, SLICE_BYTES)

    @property
    def is_whole(self) -> bool:
        return self._state.eof

    def _steps(self, encoded: bytes) -> Iterator[bytes]:
        while encoded:
            if self._state.eof:  # RFC 8878, 3.1: another frame may follow
                self._state = self._context.decompressobj()
            yield self._state.decompress(encoded)
            encoded = self._state.unused_data


# Decoder of a body without a coding; it has no state.
NO_CODING: Decoder = _Identity(0)
_DECODERS: dict[str, type[_Identity | _Bounded]] = {
    "": _Identity,
    "identity": _Identity,
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstandard,
}


def is_encoded(content_encoding: str) -> bool:
    """Return whether a `Content-Encoding` names a coding other than `identity`, known or not."""
    if not content_encoding:
        return False
    return _DECODERS.get(content_encoding.strip().lower()) is not _Identity


def decoder_for(content_encoding: str, max_bytes: int) -> Decoder:
    """
    Return a decoder for a `Content-Encoding`.

    Args:
        content_encoding: Value of the header; "" if it is absent.
        max_bytes: Limit on the whole output, in bytes; not applied to a body without a coding.

    Raises:
        Undecodable: The coding is unknown, or there is more than one.
    """
    if not content_encoding:
        return NO_CODING
    coding = content_encoding.strip().lower()
    if coding not in _DECODERS:
        raise Undecodable(coding)
    return _DECODERS[coding](max_bytes)


def next_step(pieces: Iterator[bytes]) -> bytes:
    """
    Return the next STEP_BYTES of a decoder's pieces, or a piece more; fewer at their end.

    So the caller can count the output before it is all decoded.
    """
    made = io.BytesIO()
    for piece in pieces:
        made.write(piece)
        if made.tell() >= STEP_BYTES:
            break
    return made.getvalue()


def decoded_size(body: bytes, content_encoding: str, max_bytes: int) -> int:
    """
    Return the size of a complete body without its coding; it is decoded, but not kept.

    Raises:
        TooLarge, Undecodable: As `decode`.

    Cost: as `decode`. Memory: two steps, plus the window of the coding, whatever the body decodes
    to.
    """
    decoder = decoder_for(content_encoding, max_bytes)
    if not isinstance(decoder, _Bounded):
        return len(body)
    size = sum(map(len, decoder.pieces(body)))
    _require_end(decoder)
    return size


def decode(body: bytes, content_encoding: str, max_bytes: int) -> bytes:
    """
    Decode a complete body; return it unchanged if it is not encoded.

    Raises:
        TooLarge: The decoded body exceeds `max_bytes`.
        Undecodable: The body is damaged, its end is missing, or its coding is unknown.

    Cost: two or three milliseconds for each MB of output. Memory: `max_bytes` and an eighth, plus
    one step and the window of the coding (16 MiB for brotli).
    """
    decoder = decoder_for(content_encoding, max_bytes)
    decoded = decoder.feed(body)
    _require_end(decoder)
    return decoded


def _require_end(decoder: Decoder) -> None:
    if not decoder.is_whole:
        raise Undecodable("the end is missing")
