"""
Content coding: incremental decoders for gzip, deflate, br and zstd, bounded in what they make.

A few bytes may decode to gigabytes. A decoder counts its output and stops as soon as there is more
than it may make, so that hardly more than that is ever held.
"""

import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

import brotli
import zstandard

__all__ = ["Decoder", "TooLarge", "Undecodable", "decode", "decoder_for", "is_encoded"]

# The output of one step, counted before the next step.
STEP_BYTES = 2 * 1024 * 1024
# The input of one step. The input after the end of a gzip member or zstd frame is copied, so small
# slices keep a body of many empty members linear.
SLICE_BYTES = 16 * 1024
# zstandard has no output limit. A block makes 128 KiB of four bytes (RFC 8878, 3.1.1.2).
ZSTD_MAX_RATIO = 128 * 1024 // 4
# The window that decoders of zstd in HTTP support, and that encoders stay within (RFC 9659).
ZSTD_MAX_WINDOW_BYTES = 8 * 1024 * 1024
# Low nibble of a zlib header's first byte (RFC 1950, 2.2). Bare deflate never begins with it: that
# would be a stored block with padding that is not zero.
ZLIB_METHOD = 8


class Undecodable(ValueError):
    """The bytes are not what their Content-Encoding says, or the coding is unknown."""


class TooLarge(Undecodable):
    """The bytes decode to more than is allowed."""


class Decoder(ABC):
    """A decoder for one body that arrives in pieces."""

    @property
    @abstractmethod
    def is_whole(self) -> bool:
        """Whether the coding says that the body ends here."""

    @abstractmethod
    def feed(self, chunk: bytes) -> bytes:
        """
        Return what the next bytes decode to, possibly nothing yet.

        Raises:
            TooLarge: The whole output is more than is allowed. The decoder is unusable then.
            Undecodable: The bytes are damaged, or come after the end. As above.
        """


class _Identity(Decoder):
    is_whole = True

    def __init__(self, _max_bytes: int) -> None:
        pass

    def feed(self, chunk: bytes) -> bytes:
        return chunk


class _Bounded(Decoder):
    slice_bytes = SLICE_BYTES

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def feed(self, chunk: bytes) -> bytes:
        made = io.BytesIO()
        start = 0
        while start < len(chunk):
            end = start + self.slice_bytes
            try:
                for piece in self._steps(chunk[start:end]):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise TooLarge(f"more than {self._max_bytes} bytes")
                    made.write(piece)
            except (zlib.error, brotli.error, zstandard.ZstdError) as error:
                raise Undecodable(str(error)) from error
            start = end
        return made.getvalue()

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
    """The zlib format (RFC 9110, 8.4.1.2), or bare deflate, which some send under this name."""

    def _next(self, first: int) -> "zlib._Decompress":
        if self._state is not None:
            raise Undecodable("bytes after the end")
        is_zlib = first & 0x0F == ZLIB_METHOD
        return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


class _Brotli(_Bounded):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._state = brotli.Decompressor()

    @property
    def is_whole(self) -> bool:
        return bool(self._state.is_finished())

    def _steps(self, encoded: bytes) -> Iterator[bytes]:
        # The output buffer doubles until it is over the limit.
        yield self._state.process(encoded, output_buffer_limit=STEP_BYTES // 2)
        while not self._state.can_accept_more_data():
            yield self._state.process(b"", output_buffer_limit=STEP_BYTES // 2)


class _Zstandard(_Bounded):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._context = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
        self._state = self._context.decompressobj()
        # A slice makes half of `max_bytes`, or one step, at the most.
        most_bytes = max(max_bytes // 2, STEP_BYTES)
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
    """Return whether a `Content-Encoding` names any coding."""
    return _DECODERS.get(content_encoding.strip().lower()) is not _Identity


def decoder_for(content_encoding: str, max_bytes: int) -> Decoder:
    """
    Return a decoder for a `Content-Encoding`.

    Args:
        content_encoding: The header's value; "" without one.
        max_bytes: Bound on the whole output. A body that is not encoded has no bound here.

    Raises:
        Undecodable: The coding is unknown, or several are applied one after another.
    """
    coding = content_encoding.strip().lower()
    if coding not in _DECODERS:
        raise Undecodable(coding)
    return _DECODERS[coding](max_bytes)


def decode(body: bytes, content_encoding: str, max_bytes: int) -> bytes:
    """
    Decode a whole body; one that is not encoded is returned as it is.

    Args:
        body: From its first byte to its last.
        content_encoding: As for `decoder_for`.
        max_bytes: As for `decoder_for`.

    Raises:
        TooLarge: It decodes to more than `max_bytes`.
        Undecodable: It is damaged, its end is missing, or its coding is unknown.

    Cost: two or three milliseconds for each MB of output. Memory: up to half as much again as
    `max_bytes`, or a step, and the window of the coding (16 MiB for brotli).
    """
    decoder = decoder_for(content_encoding, max_bytes)
    decoded = decoder.feed(body)
    if not decoder.is_whole:
        raise Undecodable("the end is missing")
    return decoded
