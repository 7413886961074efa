"""A copy of an encoded body is readable piece by piece, or it is said not to be."""

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.coding import Undecodable, decoder_for

Encode = Callable[[bytes], bytes]


def brotlied(plain: bytes) -> bytes:
    """Encode with brotli, which brings no types."""
    return bytes(brotli.compress(plain))


ENCODERS: dict[str, Encode] = {
    "": bytes,
    "identity": bytes,
    " Identity ": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "br": brotlied,
    "zstd": zstandard.ZstdCompressor().compress,
}
CODINGS = pytest.mark.parametrize(("coding", "encode"), ENCODERS.items())
STREAM = b'data: {"type":"response.output_text.delta"}\n\n' * 50


@CODINGS
@given(plain=st.binary(max_size=200), data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_cut_decodes_to_the_same(
    coding: str, encode: Encode, plain: bytes, data: st.DataObject
) -> None:
    """The pieces joined are what was encoded, however the network cut it."""
    encoded = encode(plain)
    cuts = data.draw(st.lists(st.integers(0, len(encoded)), max_size=4).map(sorted))
    decoder = decoder_for(coding)
    pieces = [encoded[start:end] for start, end in pairwise([0, *cuts, len(encoded)])]

    assert b"".join(decoder.feed(piece) for piece in pieces if piece) == plain


@CODINGS
def test_one_byte_at_a_time(coding: str, encode: Encode) -> None:
    """What is not there yet is nothing, and no error."""
    decoder, encoded = decoder_for(coding), encode(STREAM)

    assert b"".join(decoder.feed(encoded[n : n + 1]) for n in range(len(encoded))) == STREAM


def test_what_was_flushed_is_there_at_once() -> None:
    """An event of a compressed stream can be read when the client can."""
    state = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    decoder = decoder_for("gzip")

    for _ in range(3):
        flushed = state.compress(STREAM) + state.flush(zlib.Z_SYNC_FLUSH)
        assert decoder.feed(flushed) == STREAM


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_one_body_behind_another_is_read(coding: str) -> None:
    """Members of gzip (RFC 1952, 2.2) and frames of zstd (RFC 8878, 3.1), in any cut."""
    encoded = ENCODERS[coding](STREAM) + ENCODERS[coding](b"") + ENCODERS[coding](b"end")
    decoder, bytewise = decoder_for(coding), decoder_for(coding)
    pieces = [bytewise.feed(encoded[n : n + 1]) for n in range(len(encoded))]

    assert decoder.feed(encoded) == b"".join(pieces) == STREAM + b"end"
    assert decoder.feed(b"") == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_what_stands_behind_a_body_is_undecodable(coding: str) -> None:
    """Whatever is not decoded is said not to be."""
    decoder = decoder_for(coding)

    with pytest.raises(Undecodable):
        decoder.feed(ENCODERS[coding](b"end") + b"garbage")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_damaged_bytes_are_undecodable(coding: str) -> None:
    """Bytes that are not what they are said to be raise one kind of error."""
    decoder = decoder_for(coding)

    with pytest.raises(Undecodable):
        decoder.feed(STREAM)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_damaged_end_is_undecodable(coding: str) -> None:
    """Codings with a checksum find what nothing else would."""
    encoded = ENCODERS[coding](STREAM)
    damaged = encoded[:-4] + bytes(byte ^ 0xFF for byte in encoded[-4:])

    with pytest.raises(Undecodable):
        decoder_for(coding).feed(damaged)


@pytest.mark.parametrize("coding", ["compress", "gzip, br", "gzip,gzip", "identity, gzip", "*"])
def test_unknown_codings_are_undecodable(coding: str) -> None:
    """Neither is a coding that nobody here knows guessed, nor several on top of each other."""
    with pytest.raises(Undecodable, match=coding.replace("*", r"\*")):
        decoder_for(coding)
