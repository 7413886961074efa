"""Bounds of decoding: a few bytes may expand to gigabytes, so the output is limited."""

import gzip
import sys
import tracemalloc
import zlib
from itertools import pairwise

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.content_coding import (
    STEP_BYTES,
    TooLarge,
    Undecodable,
    decode,
    decoder_for,
)

from tests.fast_lane import examples

CODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
MIB = 1 << 20
NULLS = bytes(64 * MIB)
# A frame with a window of 128 KiB, then blocks of four bytes that each repeat one byte as often.
DENSEST = b"\x28\xb5\x2f\xfd\x00\x38" + b"\x02\x00\x10x" * 4096
WIDE = zstandard.ZstdCompressionParameters(window_log=27)
BOMBS = [
    pytest.param("gzip", gzip.compress(NULLS), id="gzip"),
    pytest.param("gzip", gzip.compress(NULLS[: MIB // 2]) * 128, id="gzip-in-members"),
    pytest.param("deflate", zlib.compress(NULLS), id="deflate"),
    pytest.param("deflate", zlib.compress(NULLS, wbits=-zlib.MAX_WBITS), id="deflate-bare"),
    pytest.param("br", brotli.compress(NULLS, quality=5), id="br"),
    pytest.param("zstd", zstandard.ZstdCompressor().compress(NULLS), id="zstd"),
    pytest.param("zstd", zstandard.ZstdCompressor().compress(NULLS[:MIB]) * 64, id="zstd-frames"),
    pytest.param("zstd", DENSEST, id="zstd-densest"),
]


@pytest.mark.parametrize("max_bytes", [1, MIB, 16 * MIB])
@pytest.mark.parametrize(("coding", "bomb"), BOMBS)
def test_a_decompression_bomb_is_stopped(coding: str, bomb: bytes, max_bytes: int) -> None:
    """Memory stays near the limit, however small the bomb and large its content."""
    assert len(bomb) * 500 < len(NULLS)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=f"more than {max_bytes} bytes"):
            decode(bomb, coding, max_bytes)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # The decoded bytes and one piece too many, in buffers that grow in steps.
    assert peak_bytes < 1.5 * max_bytes + 4 * STEP_BYTES


@pytest.mark.parametrize("coding", CODINGS)
@given(size=st.integers(0, 300), max_bytes=st.integers(1, 300), cuts=st.lists(st.integers(0, 400)))
@examples(40)
def test_the_bound_is_exact(coding: str, size: int, max_bytes: int, cuts: list[int]) -> None:
    """A body of exactly the limit is decoded; one byte more raises TooLarge, for any split."""
    encoded = CODINGS[coding](b"x" * size)
    ends = sorted(min(cut, len(encoded)) for cut in cuts)
    decoder, made = decoder_for(coding, max_bytes), 0
    try:
        for start, end in pairwise([0, *ends, len(encoded)]):
            made += len(decoder.feed(encoded[start:end]))
    except TooLarge:
        assert size > max_bytes
    else:
        assert made == size <= max_bytes
    assert made <= max_bytes


@pytest.mark.parametrize("coding", CODINGS)
def test_the_bound_covers_all_members(coding: str) -> None:
    """The limit applies to all output of a decoder, not to each chunk."""
    decoder = decoder_for(coding, 100)
    encoded = CODINGS[coding](b"x" * 99)
    assert decoder.feed(encoded) == b"x" * 99

    with pytest.raises(TooLarge if coding in {"gzip", "zstd"} else Undecodable):
        decoder.feed(encoded)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_huge_bound_is_accepted(coding: str) -> None:
    """A setting may be any number."""
    assert decode(CODINGS[coding](b"x"), coding, sys.maxsize * 1000) == b"x"


def test_a_frame_with_a_wide_window_is_undecodable() -> None:
    """The window alone would take 128 MiB, whatever the content (RFC 9659)."""
    encoder = zstandard.ZstdCompressor(compression_params=WIDE).compressobj()
    encoded = encoder.compress(b"x") + encoder.flush()

    with pytest.raises(Undecodable, match="memory"):
        decode(encoded, "zstd", MIB)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("size", [*range(MIB, 10 * MIB, MIB), 2 * MIB + 1])
def test_a_body_of_one_repeated_byte_is_decoded(coding: str, size: int) -> None:
    """A decoder may accept all of its input long before its output is complete."""
    body = NULLS[:size]
    assert decode(CODINGS[coding](body), coding, 16 * MIB) == body
