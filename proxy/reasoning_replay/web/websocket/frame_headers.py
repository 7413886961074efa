"""Frame headers of a WebSocket (RFC 6455, section 5.2), read from pieces of any size."""

from dataclasses import dataclass, field
from typing import NamedTuple

_FIN, _COMPRESSED, _OPCODE, _CONTROL = 0x80, 0x40, 0x0F, 0x8
_MASKED, _LENGTH, _LENGTH_16, _LENGTH_64 = 0x80, 0x7F, 126, 127
_MASK_BYTES = 4


class FrameHeader(NamedTuple):
    """
    What a header says of its frame.

    Attributes:
        is_control: Whether it is no part of a message: a ping, a pong or a close.
        is_last: Whether its message ends with it.
        is_compressed: Whether its message is compressed, if it is the first frame of it.
    """

    length: int
    is_control: bool
    is_last: bool
    is_compressed: bool


@dataclass(slots=True, eq=False)
class Frames:
    """
    The frames that one peer sends.

    Attributes:
        left: Payload bytes of the current frame that have not arrived yet.
    """

    left: int = 0
    _head: bytearray = field(default_factory=bytearray)

    def skip(self, data: bytes, at: int) -> int:
        """Skip the payload of the current frame; return where it ends, or the data."""
        step = min(self.left, len(data) - at)
        self.left -= step
        return at + step

    def header(self, data: bytes, at: int) -> tuple[int, FrameHeader | None]:
        """Read a header; return where the payload begins, and the header if it is complete."""
        head = self._head
        while at < len(data):
            missing = _header_size(head) - len(head)
            if not missing:
                break
            piece = data[at : at + missing]
            head += piece
            at += len(piece)
        if len(head) < _header_size(head):
            return at, None
        first, length = head[0], head[1] & _LENGTH
        if length == _LENGTH_16:
            length = int.from_bytes(head[2:4])
        elif length == _LENGTH_64:
            length = int.from_bytes(head[2:10])
        head.clear()
        self.left = length
        is_control = bool(first & _OPCODE & _CONTROL)
        return at, FrameHeader(length, is_control, bool(first & _FIN), bool(first & _COMPRESSED))


def _header_size(head: bytearray) -> int:
    """Return the size of a header, as far as its first bytes tell."""
    if len(head) < 2:  # noqa: PLR2004 (the two bytes that every frame has)
        return 2
    length = head[1] & _LENGTH
    more = 2 if length == _LENGTH_16 else 8 if length == _LENGTH_64 else 0
    return 2 + more + (_MASK_BYTES if head[1] & _MASKED else 0)
