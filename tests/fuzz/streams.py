"""Bytes of upstream before any dialect reads them: events, content codings; and refusals."""

import gzip
import zlib

import brotli
import pytest
import zstandard
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.dialects.responses.heal.diagnosis import (
    diagnose,
    is_failing_event,
    is_refusing_event,
)
from reasoning_replay.core.wire.content_coding import TooLarge, Undecodable, decode, decoder_for
from reasoning_replay.core.wire.sse import Events

from tests.fuzz.inputs import cut, read
from tests.fuzz.naive import Object, Unclear, data_of, meaning
from tests.fuzz.seeds import CODINGS

BOUND = 1 << 20
MARK = b"\xef\xbb\xbf"
# Statuses of real responses, and a few that do not exist.
STATUSES = (400, 404, 422, 429, 500, 200, 0, -1)


def sse(data: bytes) -> None:
    """Check that events are those of the standard, for any cuts of the stream."""
    dice, stream = read(data)
    whole, _ = _events([stream], BOUND)
    assert _events(cut(dice, stream), BOUND)[0] == whole
    if len(stream) < 400:
        assert _events([stream[n : n + 1] for n in range(len(stream))], BOUND)[0] == whole
    # A byte order mark after the start belongs to its line. The proxy's parser skips one before any
    # event, and so reads an event that clients do not.
    if stream.rfind(MARK) <= 0:
        expected = [one for one in data_of(stream) if is_worth_reading(one)]
        # An event counts as worth reading by any of its lines, also by the one that names it.
        assert [one for one in whole if is_worth_reading(one)] == expected
    small = dice.choice((0, 1, 50, 300))
    short, is_overrun = _events([stream], small)
    assert _events(cut(dice, stream), small) == (short, is_overrun)
    assert short == whole[: len(short)]
    assert is_overrun or short == whole


def _events(pieces: list[bytes], bound: int) -> tuple[list[bytes], bool]:
    events = Events(bound, is_worth_reading)
    found = [data for piece in pieces for data in events.feed(piece)]
    return found + ([] if events.is_overrun else events.close()), events.is_overrun


def coding(data: bytes) -> None:
    """Check that damaged bytes only raise Undecodable, limits hold, and cuts change nothing."""
    dice, payload = read(data)
    name = _coding_of(data)
    bound = dice.choice((1 << 22, 1 << 22, 1000, 0))
    whole = _decoded([payload], name, bound)
    again = _decoded(cut(dice, payload), name, bound)
    # Of two faults, the first one is reported.
    assert again == whole or {again, whole} == {"too large", "undecodable"}
    if isinstance(whole, bytes) and name != "identity":
        assert len(whole) <= bound
    plain = payload[:50_000]
    for coded, named in (
        (gzip.compress(plain, 1, mtime=0), "gzip"),
        (zlib.compress(plain, 1), "deflate"),
        (zstandard.compress(plain, 1), "zstd"),
        (brotli.compress(plain, quality=1), "br"),
    ):
        if named == name:
            assert decode(coded, named, len(plain)) == plain
            if plain:
                with pytest.raises(TooLarge):
                    decode(coded, named, len(plain) - 1)


def _coding_of(data: bytes) -> str:
    return CODINGS[data[0] % len(CODINGS) if data else 0]


def _decoded(pieces: list[bytes], name: str, bound: int) -> bytes | str:
    """Return the decoded pieces, or the reason why they cannot be decoded."""
    try:
        decoder = decoder_for(name, bound)
        return b"".join(decoder.feed(piece) for piece in pieces)
    except TooLarge:
        return "too large"
    except Undecodable:
        return "undecodable"


def refusal(data: bytes) -> None:
    """Check that any response gets a repeatable diagnosis, which names only names from its body."""
    dice, body = read(data)
    status = dice.choice(STATUSES)
    diagnosis = diagnose(status, body)
    assert diagnose(status, body) == diagnosis
    assert status in STATUSES[:3] or diagnosis.kind == "other"
    said = _texts(body)
    for name in (diagnosis.subject, diagnosis.wanted, *(diagnosis.ends or ())):
        # Names are matched word by word, because a name may span two texts of the body.
        assert all(word in said for word in name.split())
    assert diagnosis.index is None or diagnosis.index >= 0
    assert is_failing_event(body) or not is_refusing_event(body)


def _texts(body: bytes) -> str:
    """Return all texts of a response, with escapes decoded."""
    found = [body.decode("utf-8", "replace")]
    try:
        trees = [meaning(body)]
    except Unclear:
        trees = []
    for tree in trees:
        match tree:
            case str():
                found.append(tree)
            case Object():
                trees += [value for _, value in tree]
            case list():
                trees += tree
    return "\n".join(found)
