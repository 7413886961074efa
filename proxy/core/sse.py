"""
Server-sent events, read from the side while the bytes pass by.

Only the few events that carry whole items are worth decoding. Everything else (deltas, by far
the most) costs one search for a marker and one for the end of an event.
Framing: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import re

__all__ = ["Events", "first_event"]

# A blank line, whichever of the three line ends the upstream writes or mixes.
_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_LINE = re.compile(rb"\r\n|\n|\r")
# What an event must contain to be worth reading: whole items, or the start and end of a response.
_WORTH = re.compile(
    rb"response\.(?:output_item\.(?:done|added)|completed|incomplete|failed|created|queued|"
    rb"in_progress)|\"error\""
)


class Events:
    """
    Cut a stream into events, wherever the network cut it.

    Law: feeding the same bytes in any cut gives the same events.

    Attributes:
        is_overrun: Whether an event exceeded the bound; no event behind it is given.
    """

    def __init__(self, frame_max_bytes: int) -> None:
        """Start at the beginning of a stream."""
        self.is_overrun = False
        self._buffer = bytearray()
        self._searched = 0  # so much of the buffer holds no end of an event
        self._max_bytes = frame_max_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """
        Take the next bytes of the stream.

        Returns:
            The `data` of every event that this chunk ended and that is worth reading, joined as
            the standard says.
        """
        buffer = self._buffer
        is_whole = not buffer and chunk.endswith(b"\n\n") and len(chunk) <= self._max_bytes
        if is_whole and _WORTH.search(chunk) is None:
            return []  # whole events, none of them ours: the hot path of a streamed delta
        if self.is_overrun:
            return []
        buffer += chunk
        found: list[bytes] = []
        start = 0
        search_from = max(0, self._searched - 3)  # an end may have been cut in two
        while (end := _END.search(buffer, search_from)) is not None:
            # A final "\r" may be the first half of "\r\n": the blank line is still being written.
            if end.end() == len(buffer) and buffer.endswith(b"\r"):
                break
            if end.start() - start > self._max_bytes:
                break
            frame = bytes(buffer[start : end.start()])
            start = search_from = end.end()
            if _WORTH.search(frame) is not None and (data := _data(frame)):
                found.append(data)
        del buffer[:start]
        self._searched = len(buffer)
        if len(buffer) > self._max_bytes + 4:  # more than the longest end of an event
            self.is_overrun = True
            buffer.clear()
        return found

    def close(self) -> list[bytes]:
        """Return the data of a last event that the upstream did not end with a blank line."""
        frame = bytes(self._buffer)
        self._buffer.clear()
        data = _data(frame) if _WORTH.search(frame) is not None else b""
        return [data] if data else []


def first_event(stream: bytes) -> bytes | None:
    """Return the data of a stream's first event, behind comments; None while it is not whole."""
    start = 0
    for end in _END.finditer(stream):
        if data := _data(stream[start : end.start()]):
            return data
        start = end.end()
    return None


def _data(frame: bytes) -> bytes:
    frame = frame.removeprefix(b"\xef\xbb\xbf")  # a stream may begin with a byte order mark
    lines = [line[5:] for line in _LINE.split(frame) if line.startswith(b"data:")]
    return b"\n".join(line.removeprefix(b" ") for line in lines)
