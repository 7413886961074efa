"""Content decoding: encoded bodies are decoded piece by piece, or reported as undecodable."""

import gzip
import sys
import tracemalloc
import zlib
from collections.abc import Callable
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
    decoded_size,
    decoder_for,
    is_encoded,
    next_step,
)

from tests.fast_lane import examples

Encode = Callable[[bytes], bytes]
ROOM = 1 << 20


def brotlied(plain: bytes) -> bytes:
    """Encode with brotli, which has no type hints, at a fast quality level."""
    return bytes(brotli.compress(plain, quality=5))


def bare(plain: bytes) -> bytes:
    """Encode as raw deflate, as some servers do for `deflate`."""
    return zlib.compress(plain, wbits=-zlib.MAX_WBITS)


ENCODERS = [
    pytest.param("", bytes, id="none"),
    pytest.param("identity", bytes, id="identity"),
    pytest.param(" Identity ", bytes, id="identity-spelled-oddly"),
    pytest.param("gzip", gzip.compress, id="gzip"),
    pytest.param("x-gzip", gzip.compress, id="x-gzip"),
    pytest.param(" GZIP", gzip.compress, id="gzip-spelled-oddly"),
    pytest.param("deflate", zlib.compress, id="deflate"),
    pytest.param("deflate", bare, id="deflate-bare"),
    pytest.param("br", brotlied, id="br"),
    pytest.param("zstd", zstandard.ZstdCompressor().compress, id="zstd"),
]
ALL = pytest.mark.parametrize(("coding", "encode"), ENCODERS)
ENCODED = pytest.mark.parametrize(("coding", "encode"), ENCODERS[3:])
STREAM = b'data: {"type":"response.output_text.delta"}\n\n' * 50


def decoded(coding: str, pieces: list[bytes]) -> bytes:
    """Feed a decoder piece by piece."""
    decoder = decoder_for(coding, ROOM)
    return b"".join([decoder.feed(piece) for piece in pieces])


def bytewise(encoded: bytes) -> list[bytes]:
    """Split bytes into single bytes."""
    return [encoded[n : n + 1] for n in range(len(encoded))]


@ALL
@given(plain=st.binary(max_size=200), data=st.data())
@examples(15)
def test_any_split_decodes_to_the_same(
    coding: str, encode: Encode, plain: bytes, data: st.DataObject
) -> None:
    """The decoded pieces joined equal the plain body, however the network split it."""
    encoded = encode(plain)
    cuts = data.draw(st.lists(st.integers(0, len(encoded)), max_size=4).map(sorted))
    pieces = [encoded[start:end] for start, end in pairwise([0, *cuts, len(encoded)])]

    assert decoded(coding, pieces) == decode(encoded, coding, ROOM) == plain


@ALL
def test_a_body_of_many_slices_decodes(coding: str, encode: Encode) -> None:
    """A chunk may take any number of decoding steps."""
    plain = b"".join(b"%x" % (n * n * 2654435761) for n in range(20_000))

    assert decode(encode(plain), coding, len(plain)) == plain


STARTED = [
    pytest.param("gzip", zlib.compressobj(wbits=zlib.MAX_WBITS | 16), zlib.Z_SYNC_FLUSH, id="gzip"),
    pytest.param("deflate", zlib.compressobj(), zlib.Z_SYNC_FLUSH, id="deflate"),
    pytest.param(
        "zstd",
        zstandard.ZstdCompressor().compressobj(),
        zstandard.COMPRESSOBJ_FLUSH_BLOCK,
        id="zstd",
    ),
]


@pytest.mark.parametrize(("coding", "encoder", "how"), STARTED)
def test_flushed_bytes_are_decoded_at_once(
    coding: str, encoder: "zlib._Compress | zstandard.ZstdCompressionObj", how: int
) -> None:
    """An event of a compressed stream is readable as soon as the client can read it."""
    decoder = decoder_for(coding, ROOM)

    for _ in range(3):
        assert decoder.feed(encoder.compress(STREAM) + encoder.flush(how)) == STREAM
        assert not decoder.is_whole


def test_bytes_flushed_by_brotli_are_decoded_at_once() -> None:
    """The encoder of brotli has other method names."""
    encoder, decoder = brotli.Compressor(), decoder_for("br", ROOM)

    for _ in range(3):
        assert decoder.feed(encoder.process(STREAM) + encoder.flush()) == STREAM


@ALL
def test_a_decoder_is_whole_at_the_end(coding: str, encode: Encode) -> None:
    """`is_whole` is set after the last byte, and the part of the window that is used is counted."""
    decoder = decoder_for(coding, ROOM)
    pieces = [decoder.feed(piece) for piece in bytewise(encode(STREAM))]

    assert b"".join(pieces) == STREAM
    assert decoder.is_whole
    assert decoder.feed(b"") == b""
    assert decoder.held_bytes == (0 if encode is bytes else len(STREAM))


@ENCODED
@given(data=st.data())
@examples(15)
def test_a_body_without_its_end_is_not_decoded(
    coding: str, encode: Encode, data: st.DataObject
) -> None:
    """A body may break off anywhere; a stream still decodes the part that arrived."""
    encoded = encode(STREAM)
    beginning = encoded[: data.draw(st.integers(0, len(encoded) - 1))]

    assert STREAM.startswith(decoded(coding, [beginning]))
    with pytest.raises(Undecodable):
        decode(beginning, coding, ROOM)


@pytest.mark.parametrize(
    ("coding", "encode"),
    [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)],
    ids=["gzip", "zstd"],
)
def test_concatenated_bodies_are_decoded(coding: str, encode: Encode) -> None:
    """`gzip` has members (RFC 1952, 2.2) and `zstd` has frames (RFC 8878, 3.1), in any split."""
    encoded = encode(STREAM) + encode(b"") * 3000 + encode(b"end")

    assert decoded(coding, [encoded]) == decoded(coding, bytewise(encoded)) == STREAM + b"end"
    assert decode(encoded, coding, ROOM) == STREAM + b"end"
    with pytest.raises(Undecodable, match="the end is missing"):
        decode(encoded[:-1], coding, ROOM)


def test_skippable_frames_of_zstd_are_skipped() -> None:
    """Their content may be anything (RFC 8878, 3.1.2)."""
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    encoded = skipped + zstandard.ZstdCompressor().compress(STREAM) + skipped

    assert decode(encoded, "zstd", ROOM) == decoded("zstd", bytewise(encoded)) == STREAM


@ENCODED
@pytest.mark.parametrize("cut", [bytewise, lambda encoded: [encoded]], ids=["bytewise", "at-once"])
def test_bytes_after_a_body_are_undecodable(
    coding: str, encode: Encode, cut: Callable[[bytes], list[bytes]]
) -> None:
    """Bytes that cannot be decoded are reported, not dropped."""
    with pytest.raises(Undecodable):
        decoded(coding, cut(encode(b"end") + b"garbage"))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_damaged_bytes_are_undecodable(coding: str) -> None:
    """Invalid bytes raise Undecodable in every coding."""
    with pytest.raises(Undecodable):
        decoded(coding, [STREAM])


CHECKED = [
    pytest.param("gzip", gzip.compress, id="gzip"),
    pytest.param("deflate", zlib.compress, id="deflate"),
    pytest.param("zstd", zstandard.ZstdCompressor(write_checksum=True).compress, id="zstd"),
]


@pytest.mark.parametrize(("coding", "encode"), CHECKED)
def test_a_damaged_end_is_undecodable(coding: str, encode: Encode) -> None:
    """Codings with a checksum detect damage that nothing else would detect."""
    encoded = encode(STREAM)
    damaged = encoded[:-4] + bytes(byte ^ 0xFF for byte in encoded[-4:])

    with pytest.raises(Undecodable):
        decoded(coding, [damaged])


@ENCODED
@given(garbage=st.binary(max_size=100))
@examples(30)
def test_any_bytes_are_decoded_or_undecodable(coding: str, encode: Encode, garbage: bytes) -> None:
    """Received bytes never cause another exception."""
    encoded = encode(STREAM)
    for body in (garbage, encoded[:20] + garbage, encoded + garbage):
        try:
            decode(body, coding, ROOM)
        except Undecodable:
            continue


@pytest.mark.parametrize("coding", ["compress", "gzip, br", "gzip,gzip", "identity, gzip", "*"])
def test_unknown_codings_are_undecodable(coding: str) -> None:
    """Unknown codings and combined codings are not guessed."""
    assert is_encoded(coding)
    with pytest.raises(Undecodable, match=coding.replace("*", r"\*")):
        decoder_for(coding, ROOM)


@ALL
def test_a_plain_body_is_not_copied(coding: str, encode: Encode) -> None:
    """A body without a content coding is returned as the same object."""
    assert is_encoded(coding) == (encode is not bytes)
    if not is_encoded(coding):
        assert decode(STREAM, coding, 1) is STREAM


# --- bounds: a few bytes may expand to gigabytes, so the output is limited ---

CODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
NULLS = bytes(64 * ROOM)
# A frame with a window of 128 KiB, then blocks of four bytes that each repeat one byte as often.
DENSEST = b"\x28\xb5\x2f\xfd\x00\x38" + b"\x02\x00\x10x" * 4096
WIDE = zstandard.ZstdCompressionParameters(window_log=27)
BOMBS = [
    pytest.param("gzip", gzip.compress(NULLS), id="gzip"),
    pytest.param("gzip", gzip.compress(NULLS[: ROOM // 2]) * 128, id="gzip-in-members"),
    pytest.param("deflate", zlib.compress(NULLS), id="deflate"),
    pytest.param("deflate", zlib.compress(NULLS, wbits=-zlib.MAX_WBITS), id="deflate-bare"),
    pytest.param("br", brotli.compress(NULLS, quality=5), id="br"),
    pytest.param("zstd", zstandard.ZstdCompressor().compress(NULLS), id="zstd"),
    pytest.param("zstd", zstandard.ZstdCompressor().compress(NULLS[:ROOM]) * 64, id="zstd-frames"),
    pytest.param("zstd", DENSEST, id="zstd-densest"),
]


@pytest.mark.parametrize("max_bytes", [1, ROOM, 16 * ROOM])
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
        decode(encoded, "zstd", ROOM)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("size", [*range(ROOM, 10 * ROOM, ROOM), 2 * ROOM + 1])
def test_a_body_of_one_repeated_byte_is_decoded(coding: str, size: int) -> None:
    """A decoder may accept all of its input long before its output is complete."""
    body = NULLS[:size]
    assert decode(CODINGS[coding](body), coding, 16 * ROOM) == body


@ALL
def test_the_size_is_known_without_the_body(coding: str, encode: Encode) -> None:
    """It is that of the decoded body, and what cannot be decoded has none."""
    encoded = encode(STREAM)
    assert decoded_size(encoded, coding, ROOM) == len(STREAM)
    if encode is not bytes:
        with pytest.raises(TooLarge):
            decoded_size(encoded, coding, len(STREAM) - 1)
        with pytest.raises(Undecodable):
            decoded_size(encoded[:-1], coding, ROOM)


@pytest.mark.parametrize("coding", CODINGS)
def test_the_size_of_a_bomb_takes_little_memory(coding: str) -> None:
    """The decoded bytes are counted, not kept."""
    encoded = CODINGS[coding](NULLS)
    tracemalloc.start()
    try:
        assert decoded_size(encoded, coding, len(NULLS)) == len(NULLS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(NULLS) / 2


@ALL
def test_the_output_can_be_taken_in_steps(coding: str, encode: Encode) -> None:
    """No step but the last is short, so that the caller counts each before the next."""
    plain = b"x" * (5 * STEP_BYTES + 7)
    pieces = decoder_for(coding, 2 * len(plain)).pieces(encode(plain))
    steps = [next_step(pieces)]
    while len(steps[-1]) >= STEP_BYTES:
        steps.append(next_step(pieces))
    assert b"".join(steps) == plain
    assert not next_step(pieces)
    assert encode is bytes or len(steps) > 1
