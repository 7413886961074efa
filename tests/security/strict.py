"""
Strict reader of HTTP/1.1 requests (RFC 9112), and an upstream that uses it.

Every reader parses a request that it accepts as one request. So nothing was smuggled if upstream
received only requests that it accepts, and no more than the client sent.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import NamedTuple

# RFC 9110, 5.6.2 and 5.5. Characters that are invalid in a path separate nothing, except "#".
_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_LINE = re.compile(rb"(" + _TOKEN + rb") (/[!-\"$-~]*) HTTP/1\.([01])")
# RFC 9112, 2.2 and 3 allow every reader to accept these two deviations.
_EMPTY_LINES = re.compile(rb"[\r\n]*")
_SPACES = re.compile(rb" +")
_FIELD = re.compile(
    rb"(" + _TOKEN + rb"):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*"
    rb"[\x21-\x7e\x80-\xff])?)?)[ \t]*"
)
# RFC 9112, 7.1.1: a size, then extensions.
_WORD = rb"(?:" + _TOKEN + rb'|"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*")'
_SIZE = re.compile(
    rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[ \t]*" + _TOKEN + rb"(?:[ \t]*=[ \t]*" + _WORD + rb")?)*"
)


class Bad(Exception):
    """These bytes are not a request; the bytes after them are not parsed."""


class Request(NamedTuple):
    """One request as a strict reader parses it; field names are in lower case."""

    method: bytes
    target: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        """Return every value of a field."""
        return [value for key, value in self.fields if key == name]


def requests_in(data: bytes) -> tuple[list[Request], bytes]:
    """
    Parse consecutive requests.

    Returns:
        The requests, and the bytes of a last one that is incomplete.

    Raises:
        Bad: Some bytes are not a request.
    """
    found: list[Request] = []
    while (one := _request(data)) is not None:
        found.append(one[0])
        data = one[1]
    return found, data


def first_requests(data: bytes) -> list[Request]:
    """Parse requests up to the first bytes that are not a request."""
    found: list[Request] = []
    with contextlib.suppress(Bad):
        while (one := _request(data)) is not None:
            found.append(one[0])
            data = one[1]
    return found


def _request(data: bytes) -> tuple[Request, bytes] | None:
    data = _EMPTY_LINES.sub(b"", data, count=1)
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.split(b"\r\n")
    line = _LINE.fullmatch(_SPACES.sub(b" ", first))
    fields = [_FIELD.fullmatch(given) for given in lines]
    if line is None or None in fields:
        raise Bad(head)
    method, target, minor = line.groups()
    named = [(found[1].lower(), found[2]) for found in fields if found is not None]
    bare = Request(method, target, named, b"")
    hosts = len(bare.values(b"host"))
    if hosts > 1 or (not hosts and minor == b"1"):  # RFC 9112, 3.2: HTTP/1.0 may omit it
        raise Bad(b"host")
    lengths, codings = bare.values(b"content-length"), bare.values(b"transfer-encoding")
    if codings:
        if lengths or minor == b"0" or [coding.lower() for coding in codings] != [b"chunked"]:
            raise Bad(b"transfer-encoding")
        body = _chunks(rest)
    elif lengths:
        if len(lengths) > 1 or not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
            raise Bad(b"content-length")
        size = int(lengths[0])
        body = (rest[:size], rest[size:]) if len(rest) >= size else None
    else:
        body = (b"", rest)
    return None if body is None else (bare._replace(body=body[0]), body[1])


def _chunks(data: bytes) -> tuple[bytes, bytes] | None:
    pieces: list[bytes] = []
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end:
            return None
        size = _SIZE.fullmatch(line)
        if size is None:
            raise Bad(line)
        length = int(size[1], 16)
        if not length:
            break
        if len(data) < length + 2:
            return None
        if data[length : length + 2] != b"\r\n":
            raise Bad(b"chunk")
        pieces.append(data[:length])
        data = data[length + 2 :]
    rest = _trailers(data)
    return None if rest is None else (b"".join(pieces), rest)


def _trailers(data: bytes) -> bytes | None:
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end or not line:
            return data if end else None
        if not _FIELD.fullmatch(line):
            raise Bad(line)


class Recorder:
    """
    An upstream that records all bytes, and responds to requests that the strict reader accepts.

    Attributes:
        url: Its origin.
        requests: Every complete request, in order of arrival.
        bad: For each connection with other bytes, those bytes.
        unfinished: For each open connection, the bytes of an incomplete request.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.bad: list[bytes] = []
        self.unfinished: dict[asyncio.StreamWriter, bytes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to every request with its method and target."""
        data = b""
        try:
            while piece := await reader.read(1 << 16):
                self.unfinished[writer] = data + piece
                found, data = requests_in(data + piece)
                self.unfinished[writer] = data
                self.requests += found
                for one in found:
                    said = one.method + b" " + one.target
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
                    writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(said), said))
        except Bad:
            self.bad.append(self.unfinished[writer])
        except ConnectionError:
            pass
        self.unfinished.pop(writer, None)
        writer.close()

    @property
    def is_clean(self) -> bool:
        """Whether upstream received only complete requests."""
        return not self.bad and not any(self.unfinished.values())

    def close(self) -> None:
        """Close every connection."""
        for writer in self.unfinished:
            writer.close()


@contextlib.asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    """Listen on a free port of this machine."""
    recorder = Recorder()
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
    recorder.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield recorder
    finally:
        server.close()
        recorder.close()
