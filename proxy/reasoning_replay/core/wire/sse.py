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
_LINE = re.compile(rb"\r\n|\n|\r")


class Events:
    """
    Splitter of a stream into events, independent of the chunks that the network delivers.

    Law: feeding the same bytes in any chunks returns the same events.

    Attributes:
        is_overrun: Whether an event exceeded the limit; no later event is returned.
    """

    def __init__(self, frame_max_bytes: int, is_worth_reading: Callable[[bytes], bool]) -> None:
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
        buffer = self._buffer
        is_whole = not buffer and chunk.endswith(b"\n\n") and len(chunk) <= self._max_bytes
        if is_whole and not self._is_worth_reading(chunk):
            return []  # whole events, none worth reading: the hot path of a streamed delta
        if self.is_overrun:
            return []
        buffer += chunk
        self._has_cr = self._has_cr or b"\r" in chunk
        found: list[bytes] = []
        # Only a line end can complete a comment.
        may_skip = b"\n" in chunk or b"\r" in chunk
        start = _past_nothing(buffer, 0) if may_skip else 0
        search_from = max(start, self._searched - 3)  # an end may span two chunks
        while (end := self._end(search_from)) is not None:
            stop, following = end
            # A final "\r" may be the first half of "\r\n": the blank line may be incomplete.
            if following == len(buffer) and buffer.endswith(b"\r"):
                break
            if stop - start > self._max_bytes:
                return self._overrun(found)
            frame = bytes(buffer[start:stop])
            start = search_from = _past_nothing(buffer, following)
            if self._is_worth_reading(frame) and (data := _data(frame)):
                found.append(data)
        del buffer[:start]
        if buffer.startswith(b":"):
            del buffer[1:]  # a comment counts for nothing, however long it is
        self._searched = len(buffer)
        if len(buffer) > self._max_bytes + 4:  # more than the longest end of an event
            return self._overrun(found)
        return found

    def clear(self) -> None:
        """Drop the event that is not complete yet; no later one is returned."""
        self.is_overrun = True
        self._buffer.clear()

    def _overrun(self, found: list[bytes]) -> list[bytes]:
        self.clear()
        return found

    @property
    def held_bytes(self) -> int:
        """Size of the event that is not complete yet."""
        return len(self._buffer)

    def _end(self, search_from: int) -> tuple[int, int] | None:
        """Return the offsets where the next event ends and where the one after it begins."""
        if self._has_cr:
            match = _END.search(self._buffer, search_from)
            return match.span() if match is not None else None
        at = self._buffer.find(_LF_END, search_from)
        return (at, at + len(_LF_END)) if at >= 0 else None

    def close(self) -> list[bytes]:
        """Return the data of a last event that the upstream did not end with a blank line."""
        frame = bytes(self._buffer[_past_nothing(self._buffer, 0) :])
        self._buffer.clear()
        data = _data(frame) if self._is_worth_reading(frame) else b""
        return [data] if data else []


def _past_nothing(buffer: bytearray, start: int) -> int:
    """Return where an event begins after blank lines and comments."""
    nothing = _NOTHING.match(buffer, start)
    return nothing.end() if nothing is not None else start


def _data(frame: bytes) -> bytes:
    if frame.startswith(b"data:") and b"\n" not in frame and b"\r" not in frame:
        return frame[5:].removeprefix(b" ")  # most frames are one line
    frame = frame.removeprefix(b"\xef\xbb\xbf")  # a stream may begin with a byte order mark
    lines = [line[5:] for line in _LINE.split(frame) if line.startswith(b"data:")]
    return b"\n".join(line.removeprefix(b" ") for line in lines)
