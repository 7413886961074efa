"""Frames: what goes out is what came in, in whatever pieces it came."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.ws_frames import (
    HELD_FRAMES_MAX,
    Messages,
    Piece,
    close_frame,
    text_frame,
)

KEY = b"\x37\xfa\x21\x3d"
LIMIT = 300
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def spelled(opcode: int, payload: bytes, *, final: bool = True, key: bytes = b"") -> bytes:
    """Spell a frame by hand, the slow way."""
    size = len(payload)
    mask = 0x80 if key else 0
    if size < 126:
        length = bytes([mask | size])
    elif size < 65536:
        length = bytes([mask | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([mask | 127]) + size.to_bytes(8, "big")
    data = bytes(byte ^ key[at % 4] for at, byte in enumerate(payload)) if key else payload
    return bytes([0x80 * final | opcode]) + length + key + data


def fed(messages: Messages, chunks: Iterable[bytes]) -> list[Piece]:
    """Feed chunk by chunk."""
    return [piece for chunk in chunks for piece in messages.feed(chunk)]


def texts(pieces: Iterable[Piece]) -> list[bytes]:
    """Return the text messages."""
    return [piece.text for piece in pieces if piece.text is not None]


def raw(pieces: Iterable[Piece]) -> bytes:
    """Return what was given out."""
    return b"".join(piece.raw for piece in pieces)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Draw one direction of a WebSocket, and its text messages within the bound."""
    wire, said = b"", []
    for _ in range(draw(st.integers(0, 6))):
        opcode = draw(st.sampled_from([TEXT, TEXT, BINARY, PING, PONG]))
        if opcode in (PING, PONG):
            wire += spelled(opcode, draw(st.binary(max_size=125)))
            continue
        parts = draw(st.lists(st.binary(max_size=200), min_size=1, max_size=3))
        for at, part in enumerate(parts):
            key = draw(st.sampled_from([b"", KEY, b"\0\0\0\1"]))
            final = at == len(parts) - 1
            wire += spelled(opcode if at == 0 else 0, part, final=final, key=key)
            if not final and draw(st.booleans()):
                wire += spelled(PING, b"still there?", key=key)
        whole = b"".join(parts)
        if opcode == TEXT and len(whole) <= LIMIT:
            said.append(whole)
    return wire, said


@given(conversations(), st.data())
def test_what_is_let_pass_loses_no_byte(
    conversation: tuple[bytes, list[bytes]], data: st.DataObject
) -> None:
    """No more than the head of a frame, or a small one, is held then; what comes later is read."""
    wire, said = conversation
    messages = Messages(LIMIT)
    at = data.draw(st.integers(0, len(wire)))
    pieces = messages.feed(wire[:at])
    let_pass = messages.let_pass()
    assert messages.held_bytes <= 125 + 14
    assert all(piece.is_let_pass and piece.is_long for piece in let_pass[:1])
    behind = messages.feed(wire[at:] + spelled(TEXT, b"later"))
    assert raw([*pieces, *let_pass, *behind]) + messages.rest() == wire + spelled(TEXT, b"later")
    read = texts([*pieces, *let_pass, *behind])
    assert read[-1] == b"later"
    assert len(said) + 1 - len(read) <= 1


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Draw a way to cut bytes."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@given(conversations(), st.data())
def test_any_cut_gives_the_same(
    conversation: tuple[bytes, list[bytes]], data: st.DataObject
) -> None:
    """The same texts, and every byte once and in order."""
    wire, said = conversation
    messages = Messages(LIMIT)
    pieces = fed(messages, data.draw(cuts(wire)))
    assert texts(pieces) == said
    assert raw(pieces) + messages.rest() == wire
    assert not messages.is_over


@given(st.binary(max_size=400), st.data())
def test_bytes_that_are_no_frames_pass(wire: bytes, data: st.DataObject) -> None:
    """Whatever comes goes out again."""
    messages = Messages(LIMIT)
    assert raw(fed(messages, data.draw(cuts(wire)))) + messages.rest() == wire


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
@pytest.mark.parametrize("key", [b"", KEY])
def test_a_frame_of_ours_is_read_by_others(size: int, key: bytes) -> None:
    """Every spelling of a length, masked or not."""
    text = b"x" * size
    assert text_frame(text, key) == spelled(TEXT, text, key=key)
    (piece,) = Messages(1 << 20).feed(text_frame(text, key))
    assert piece == Piece(text_frame(text, key), text, key)


def test_a_close_frame_has_its_code() -> None:
    """Two bytes in network order."""
    assert close_frame(1001, b"") == spelled(CLOSE, b"\x03\xe9")
    assert close_frame(1001, KEY) == spelled(CLOSE, b"\x03\xe9", key=KEY)


def test_control_frames_between_fragments_are_told_apart() -> None:
    """They must survive when the message around them is replaced."""
    ping = spelled(PING, b"?", key=KEY)
    wire = spelled(TEXT, b"a", final=False, key=KEY) + ping + spelled(0, b"b", key=b"abcd")
    messages = Messages(LIMIT)
    assert messages.feed(wire[:-1]) == []
    assert messages.is_between  # nothing of it has been given out
    assert messages.feed(wire[-1:]) == [Piece(wire, b"ab", KEY, ping)]


@pytest.mark.parametrize("is_fragmented", [False, True])
def test_a_long_message_passes_unread(is_fragmented: bool) -> None:
    """From its first byte, told once; in the middle of it nothing else may be said."""
    half = b"x" * 200
    frames = [spelled(TEXT, half * 2)]
    if is_fragmented:
        frames = [spelled(TEXT, half, final=False), spelled(0, half, final=False), spelled(0, b"")]
    wire = b"".join(frames)
    messages = Messages(LIMIT)
    pieces = messages.feed(wire[:-1])
    is_between = messages.is_between
    pieces += messages.feed(wire[-1:])
    assert (raw(pieces), texts(pieces)) == (wire, [])
    assert sum(piece.is_long for piece in pieces) == 1
    assert (is_between, messages.is_between) == (False, True)
    assert texts(messages.feed(text_frame(b"next", b""))) == [b"next"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(spelled(PING, b""), id="pings"),
        pytest.param(spelled(PONG, b"x" * 125), id="pongs"),
        pytest.param(spelled(0, b"", final=False), id="empty-fragments"),
        pytest.param(spelled(0, b"x", final=False, key=KEY), id="short-fragments"),
    ],
)
def test_a_message_in_very_many_frames_passes_unread(more: bytes) -> None:
    """A frame costs more to hold than its payload is long; what is held of them has an end."""
    begin, end = spelled(TEXT, b"a", final=False), spelled(0, b"b")
    messages = Messages(1 << 20)
    assert messages.feed(begin + more * (HELD_FRAMES_MAX - 1)) == []
    pieces = messages.feed(more[:-1])
    pieces += messages.feed(more[-1:])
    assert raw(pieces) == begin + more * HELD_FRAMES_MAX
    assert [piece.is_long for piece in pieces if piece.is_long] == [True]
    is_between = messages.is_between
    assert raw(messages.feed(more + end)) == more + end  # nothing more of it is held
    assert (is_between, messages.is_between) == (False, True)
    assert texts(messages.feed(text_frame(b"next", b""))) == [b"next"]


def test_a_message_in_as_many_frames_as_may_be_is_read() -> None:
    """All of them are held until the last one is there."""
    messages = Messages(1 << 20)
    begin, more = spelled(TEXT, b"a", final=False), spelled(0, b"b", final=False)
    assert messages.feed(begin + more * (HELD_FRAMES_MAX - 2)) == []
    assert texts(messages.feed(spelled(0, b"c"))) == [b"a" + b"b" * (HELD_FRAMES_MAX - 2) + b"c"]


def test_a_close_frame_behind_very_many_frames_is_seen() -> None:
    """It is the end, whatever it comes behind."""
    messages = Messages(1 << 20)
    messages.feed(spelled(TEXT, b"a", final=False) + spelled(PING, b"") * (HELD_FRAMES_MAX - 1))
    assert messages.feed(close_frame(1000, b""))
    assert messages.is_closed


def test_a_binary_message_is_not_held() -> None:
    """Nobody reads it, so it need not be whole."""
    messages = Messages(LIMIT)
    frame = spelled(BINARY, b"x" * 100)
    assert messages.feed(frame[:50]) == [Piece(frame[:2], is_binary=True), Piece(frame[2:50])]
    is_between = messages.is_between
    assert messages.feed(frame[50:]) == [Piece(frame[50:])]
    assert (is_between, messages.is_between) == (False, True)


def test_nothing_is_read_behind_a_close_frame() -> None:
    """It lets go of half a message, too: there will be no other half."""
    half, close = spelled(TEXT, b"a", final=False), spelled(CLOSE, b"\x03\xe8bye")
    messages = Messages(LIMIT)
    pieces = messages.feed(half + close + text_frame(b"late", b""))
    assert (raw(pieces), texts(pieces)) == (half + close + text_frame(b"late", b""), [])
    assert (messages.is_closed, messages.is_over, messages.is_between) == (True, True, False)
    assert messages.feed(b"later") == [Piece(b"later")]


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"\xc1\x00", id="compressed"),
        pytest.param(b"\x83\x00", id="unknown-opcode"),
        pytest.param(b"\x09\x00", id="half-a-ping"),
        pytest.param(b"\x89\x7e\x00\x80", id="long-ping"),
        pytest.param(b"\x80\x00", id="rest-of-nothing"),
        pytest.param(b"\x01\x00\x81\x00", id="message-in-a-message"),
        pytest.param(b"\x02\x00\x82\x00", id="binary-in-binary"),
        pytest.param(b"\x81\x7f\xff" + b"\x00" * 7, id="negative-length"),
    ],
)
def test_what_is_malformed_stops_the_reading(wire: bytes) -> None:
    """All of it passes, and what comes behind it, too."""
    messages = Messages(LIMIT)
    good = text_frame(b"{}", b"")
    pieces = messages.feed(good + wire + b"behind")
    assert (raw(pieces), texts(pieces)) == (good + wire + b"behind", [b"{}"])
    assert messages.is_over
    assert not messages.is_closed


def test_reading_may_be_stopped_from_outside() -> None:
    """What was held goes out with the next bytes."""
    messages = Messages(LIMIT)
    frame = text_frame(b"abc", b"")
    assert messages.feed(frame[:3]) == []
    messages.is_over = True
    assert messages.feed(frame[3:]) == [Piece(frame)]
    assert messages.feed(b"") == []
