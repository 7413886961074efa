"""
SSE: a reader of server-sent events that follows a stream without changing it.

Only the few events that carry whole items are worth decoding. All others (most are deltas) cost
one search for a marker and one for the end of an event.
Framing: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import re
from collections.abc import Callable

# A blank line, with any mix of the three line ends. Writing the group out twice takes half the time
# of a repeated group.
_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LF_END = b"\n\n"  # enough for a stream without "\r"; the search takes a fiftieth of the time
# Blank lines and comments before an event. A stream may hold millions of them.
_NOTHING = re.compile(rb"(?:[\r\n]++|:[^\r\n]*+[\r\n])*+")
_OF_NOTHING = (b"\n", b"\r", b":")
_LINE = re.compile(rb"\r\n|\n|\r")


class Events:
    """
    Splitter of a stream into events, independent of the chunks that the network delivers.

    Law: feeding the same bytes in any chunks returns the same events.

    Attributes:
        is_overrun: Whether an event exceeded the limit; no later event is returned.
    """

    def __init__(
        self, frame_max_bytes: int, is_worth_reading: Callable[[bytes], bool] = bool
    ) -> None:
        """
        Start at the beginning of a stream.

        Args:
            frame_max_bytes: Limit on one event.
            is_worth_reading: Cheap search. It returns whether an event, or a chunk of events, may
                hold data that the caller needs; all others are skipped.
        """
        self._is_worth_reading = is_worth_reading
        self.is_overrun = False
        self._buffer = bytearray()
        self._searched = 0  # the first bytes of the buffer that hold no end of an event
        self._has_cr = False
        self._max_bytes = frame_max_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """
        Read the next bytes of the stream.

        Returns:
            The `data` of every event that ends in this chunk and is worth reading. Several `data`
            lines are joined by line feeds, as the standard requires.
        """
        is_worth_reading = self._is_worth_reading
        is_whole = not self._buffer and chunk.endswith(b"\n\n") and len(chunk) <= self._max_bytes
        if is_whole and not is_worth_reading(chunk):
            return []  # whole events, none worth reading: the hot path of a streamed delta
        return [
            data
            for frame in self.frames(chunk)
            if is_worth_reading(frame) and (data := data_of(frame))
        ]

    def frames(self, chunk: bytes) -> list[bytes]:
        """Read the next bytes of the stream; return every event that ends in them, undecoded."""
        if self.is_overrun:
            return []
        buffer, most = self._buffer, self._max_bytes
        buffer += chunk
        self._has_cr = self._has_cr or b"\r" in chunk
        self._skip_nothing()
        search_from = max(0, self._searched - 3)  # an end may span two chunks
        if self._has_cr:
            has_end = _END.search(buffer, search_from) is not None
        else:
            has_end = buffer.find(_LF_END, search_from) >= 0
        frames: list[bytes] = []
        if has_end:
            whole = bytes(buffer)
            frames = _END.split(whole) if self._has_cr else whole.split(_LF_END)
            buffer[:] = frames.pop()
            if max(map(len, frames)) > most:
                frames = self._short(frames)
            self._skip_nothing()
        if buffer.startswith(b":"):
            del buffer[1:]  # a comment counts for nothing, however long it is
        self._searched = len(buffer)
        if len(buffer) > most + 4:  # more than the longest end of an event
            self.clear()
        return frames

    def _skip_nothing(self) -> None:
        if self._buffer.startswith(_OF_NOTHING):
            del self._buffer[: _past_nothing(self._buffer)]
            self._searched = 0

    def _short(self, frames: list[bytes]) -> list[bytes]:
        """Return the events up to the first that exceeds the limit; nothing is read after it."""
        for at, frame in enumerate(frames):
            if len(frame) - _past_nothing(frame) > self._max_bytes:
                self.clear()
                return frames[:at]
        return frames

    def clear(self) -> None:
        """Drop the event that is not complete yet; no later one is returned."""
        self.is_overrun = True
        self._buffer.clear()

    @property
    def held_bytes(self) -> int:
        """Size of the event that is not complete yet."""
        return len(self._buffer)

    def close(self) -> list[bytes]:
        """Return the data of a last event that the upstream did not end with a blank line."""
        frame = bytes(self._buffer)
        self._buffer.clear()
        data = data_of(frame) if self._is_worth_reading(frame) else b""
        return [data] if data else []


def data_of(frame: bytes) -> bytes:
    """Return the data of an event; b"" if it has none."""
    if b"\r" not in frame:  # most events are one line of data, maybe after that of their name
        name, found, rest = frame.partition(b"\ndata:")
        if not found and name.startswith(b"data:"):
            name, rest = b"event", name[5:]
        if name.startswith(b"event") and b"\n" not in rest and b"\n" not in name:
            return rest.removeprefix(b" ")
    frame = frame.removeprefix(b"\xef\xbb\xbf")  # a stream may begin with a byte order mark
    lines = [line[5:] for line in _LINE.split(frame) if line.startswith(b"data:")]
    return b"\n".join(line.removeprefix(b" ") for line in lines)


def _past_nothing(buffer: bytes | bytearray) -> int:
    """Return where an event begins after blank lines and comments."""
    nothing = _NOTHING.match(buffer)
    return nothing.end() if nothing is not None else 0
