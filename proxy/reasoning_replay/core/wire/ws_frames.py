"""
WebSocket frames, read while the very bytes of them pass by.

The law of this file: what is given out, joined, is what was taken in. Nothing is written anew but
a text message that the caller chooses to replace.
Framing: https://www.rfc-editor.org/rfc/rfc6455#section-5.2
"""

from typing import NamedTuple

__all__ = ["HELD_FRAMES_MAX", "Messages", "Piece", "close_frame", "text_frame"]

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_CONTROL = frozenset({_CLOSE, _PING, _PONG})
_KNOWN = _CONTROL | {_CONTINUATION, _TEXT, _BINARY}
_FINAL = 0x80
_RESERVED = 0x70
_MASKED = 0x80
_IN_2_BYTES, _IN_8_BYTES = 126, 127
_CONTROL_MAX_BYTES = 125
_KEY_BYTES = 4
# Of one message, control frames between its fragments included. Each costs some 200 bytes beside
# its payload, so this is 3 MB; and 32 MB in fragments of 2 KB are fewer.
HELD_FRAMES_MAX = 1 << 14


class Piece(NamedTuple):
    """
    Bytes as they came.

    Attributes:
        raw: To be passed on, unless the message in it is replaced.
        text: The text message that `raw` is the whole of, unmasked; None where there is none.
        key: What its first frame was masked with; b"" when it was not.
        between: Control frames that came between its fragments, and are in `raw` as well.
        is_long: Whether a text message over a bound passes unread from here on.
        is_binary: Whether a binary message begins here, which passes unread.
        is_let_pass: Whether it is long only by the word of the caller, who has no room for it.
    """

    raw: bytes
    text: bytes | None = None
    key: bytes = b""
    between: bytes = b""
    is_long: bool = False
    is_binary: bool = False
    is_let_pass: bool = False


class _Malformed(ValueError):
    """These are no frames, or frames that only an extension gives a meaning."""


class _Header(NamedTuple):
    opcode: int
    is_final: bool
    key: bytes
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class Messages:
    """
    Cut one direction of a WebSocket into messages, wherever the network cut it.

    A text message is given out in one piece, when it is there to its end; everything else passes
    as it comes. So the bytes of half a text message wait for its other half.
    Behind a close frame, and where frames cannot be followed, all bytes pass unread.

    Law: the same bytes in any cut give the same messages.

    Attributes:
        is_over: Whether nothing is read any more; may be set.
        is_closed: Whether there was a close frame.
    """

    def __init__(self, max_bytes: int) -> None:
        """
        Start behind the handshake.

        Args:
            max_bytes: Of a text message; a longer one is not held, nor is one in very many frames.
        """
        self.is_over = False
        self.is_closed = False
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._passing = 0  # so many bytes of a frame that is not held are still to come
        self._is_open = False  # a message has begun and not ended
        self._held: list[bytes] = []  # the open message's frames, when it is text and read
        self._parts: list[bytes] = []
        self._between: list[bytes] = []
        self._key = b""
        self._size = 0

    @property
    def is_between(self) -> bool:
        """Whether a message of somebody else's may follow what was given out so far."""
        return not (self.is_over or self._passing or (self._is_open and not self._held))

    @property
    def held_bytes(self) -> int:
        """How much is held of a message that is not whole; what is unmasked of it is held twice."""
        return len(self._buffer) + 2 * self._size

    def let_pass(self) -> list[Piece]:
        """Give out what is there of an open text message; the rest of it passes unread, too."""
        header = None if self.is_over or self._passing else _header(self._buffer, 0)
        if header is None or header.opcode in _CONTROL or not self._is_held(header):
            held = self._let_go()
            return [Piece(held, is_long=True, is_let_pass=True)] if held else []
        begun = self._pass(header, 0, is_long=True)._replace(is_let_pass=True)
        del self._buffer[: header.start]
        return [begun, *self.feed(b"")]

    def feed(self, chunk: bytes) -> list[Piece]:
        """Take the next bytes."""
        self._buffer += chunk
        pieces: list[Piece] = []
        at = 0
        try:
            while not self.is_over and (taken := self._next(at, pieces)):
                at += taken
        except _Malformed:
            self.is_over = True
        del self._buffer[:at]
        if self.is_over and (rest := self.rest()):
            pieces.append(Piece(rest))
        return pieces

    def rest(self) -> bytes:
        """Give up what is held of a message that will not be complete."""
        rest = self._let_go() + bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _next(self, at: int, pieces: list[Piece]) -> int:
        """Take one frame, or what is there of one that is not held; 0 where more must come."""
        buffer = self._buffer
        if self._passing:
            taken = min(self._passing, len(buffer) - at)
            self._passing -= taken
            if taken:
                pieces.append(Piece(bytes(buffer[at : at + taken])))
            return taken
        header = _header(buffer, at)
        if header is None:
            return 0
        is_held = self._is_held(header)
        if not is_held or self._is_long(header):
            pieces.append(self._pass(header, at, is_long=is_held))
            return header.start - at
        if header.end > len(buffer):
            return 0
        with memoryview(buffer) as view:
            raw = bytes(view[at : header.end])
        if header.opcode in _CONTROL:
            self._control(header, raw, pieces)
        else:
            self._text(header, raw, header.start - at, pieces)
        return header.end - at

    def _is_held(self, header: _Header) -> bool:
        if header.opcode in _CONTROL:
            return True
        if self._is_open == (header.opcode != _CONTINUATION):
            raise _Malformed  # a message inside another one, or the rest of none
        return header.opcode == _TEXT or (header.opcode == _CONTINUATION and bool(self._held))

    def _is_long(self, header: _Header) -> bool:
        if header.opcode == _CLOSE:
            return False
        if len(self._held) >= HELD_FRAMES_MAX:
            return True
        return header.opcode not in _CONTROL and self._size + header.length > self._max_bytes

    def _pass(self, header: _Header, at: int, *, is_long: bool) -> Piece:
        """Begin to give out a frame that is not held, behind what was held of its message."""
        self._passing = header.length
        if header.opcode not in _CONTROL:
            self._is_open = not header.is_final
        raw = self._let_go() + bytes(self._buffer[at : header.start])
        return Piece(raw, is_long=is_long, is_binary=header.opcode == _BINARY)

    def _control(self, header: _Header, raw: bytes, pieces: list[Piece]) -> None:
        if header.opcode == _CLOSE:
            pieces.append(Piece(self._let_go() + raw))
            self.is_over = self.is_closed = True
        elif self._held:
            self._held.append(raw)
            self._between.append(raw)
        else:
            pieces.append(Piece(raw))

    def _text(self, header: _Header, raw: bytes, start: int, pieces: list[Piece]) -> None:
        payload = raw[start:]
        if not self._held:
            self._key = header.key
        self._held.append(raw)
        self._parts.append(_masked(payload, header.key))
        self._size += header.length
        self._is_open = not header.is_final
        if header.is_final:
            text, between = b"".join(self._parts), b"".join(self._between)
            pieces.append(Piece(self._let_go(), text, self._key, between))

    def _let_go(self) -> bytes:
        held = b"".join(self._held)
        self._held.clear()
        self._parts.clear()
        self._between.clear()
        self._size = 0
        return held


def text_frame(text: bytes, key: bytes) -> bytes:
    """Spell a text message in one frame; `key` masks it, b"" does not."""
    return _frame(_TEXT, text, key)


def close_frame(code: int, key: bytes) -> bytes:
    """Spell a close frame without a reason; `key` as in `text_frame`."""
    return _frame(_CLOSE, code.to_bytes(2, "big"), key)


def _frame(opcode: int, payload: bytes, key: bytes) -> bytes:
    mask = _MASKED if key else 0
    size = len(payload)
    if size < _IN_2_BYTES:
        length = bytes([mask | size])
    elif size < 1 << 16:
        length = bytes([mask | _IN_2_BYTES]) + size.to_bytes(2, "big")
    else:
        length = bytes([mask | _IN_8_BYTES]) + size.to_bytes(8, "big")
    return bytes([_FINAL | opcode]) + length + key + _masked(payload, key)


def _header(buffer: bytearray, at: int) -> _Header | None:
    """Read a frame's header; None when it is not all there."""
    if len(buffer) < at + 2:
        return None
    first, second = buffer[at], buffer[at + 1]
    opcode, is_final, length = first & 0x0F, bool(first & _FINAL), second & 0x7F
    if first & _RESERVED or opcode not in _KNOWN:
        raise _Malformed
    if opcode in _CONTROL and (length > _CONTROL_MAX_BYTES or not is_final):
        raise _Malformed
    start = at + 2
    if length >= _IN_2_BYTES:
        size = 2 if length == _IN_2_BYTES else 8
        length = int.from_bytes(buffer[start : start + size], "big")
        start += size
    key_start = start
    start += _KEY_BYTES if second & _MASKED else 0
    if len(buffer) < start:
        return None
    if length >> 63:
        raise _Malformed
    return _Header(opcode, is_final, bytes(buffer[key_start:start]), start, start + length)


def _masked(payload: bytes, key: bytes) -> bytes:
    """Mask, or unmask, which is the same; b"" for a key does neither."""
    if not key:
        return payload
    size = len(payload)
    keys = (key * (size // _KEY_BYTES + 1))[:size]
    mixed = int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")
    return mixed.to_bytes(size, "little")
