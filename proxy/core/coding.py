"""Undo the content coding of a copy, piece by piece, so that it can be read while it passes by."""

import zlib
from typing import Protocol

import brotli
import zstandard

__all__ = ["Decoder", "Undecodable", "decoder_for"]


class Undecodable(ValueError):
    """The bytes are not what their Content-Encoding says, or nobody here knows that coding."""


class Decoder(Protocol):
    """Takes encoded bytes in any cut, returns what they decode to so far."""

    def feed(self, chunk: bytes) -> bytes:
        """
        Return what the next bytes decode to, possibly nothing yet.

        Raises:
            Undecodable: The bytes are damaged.
        """
        ...


class _Identity:
    def feed(self, chunk: bytes) -> bytes:
        return chunk


class _Zlib:
    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._state = zlib.decompressobj(window_bits)

    def feed(self, chunk: bytes) -> bytes:
        decoded = b""
        try:
            while chunk:
                if self._state.eof:  # RFC 1952, 2.2: another member may follow
                    self._state = zlib.decompressobj(self._window_bits)
                decoded += self._state.decompress(chunk)
                chunk = self._state.unused_data
        except zlib.error as error:
            raise Undecodable(str(error)) from error
        return decoded


class _Brotli:
    def __init__(self) -> None:
        self._state = brotli.Decompressor()

    def feed(self, chunk: bytes) -> bytes:
        try:
            return bytes(self._state.process(chunk))
        except brotli.error as error:
            raise Undecodable(str(error)) from error


class _Zstandard:
    def __init__(self) -> None:
        self._state = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def feed(self, chunk: bytes) -> bytes:
        try:
            return self._state.decompress(chunk)
        except zstandard.ZstdError as error:
            raise Undecodable(str(error)) from error


def decoder_for(content_encoding: str) -> Decoder:
    """
    Return a decoder for a `Content-Encoding`.

    Raises:
        Undecodable: It names a coding that is not known here, or several on top of each other.
    """
    match content_encoding.strip().lower():
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Zlib(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Zlib(zlib.MAX_WBITS)
        case "br":
            return _Brotli()
        case "zstd":
            return _Zstandard()
        case other:
            raise Undecodable(other)
