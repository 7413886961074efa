"""Kinds of exchange that faults happen to, and what clients see of them."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.web.line import Answer, Broken, Line, request
from tests.web.test_errors import assert_ours
from tests.web.wire import ASK, CALL, MESSAGE, RESULT, RS, RS_2, as_json, events, head, response
from tests.web.world import MODEL, post

__all__ = [
    "ALL",
    "HEAD",
    "HISTORY",
    "JSON",
    "KEY",
    "OTHER",
    "READ",
    "RESTORED",
    "STREAM",
    "Kind",
    "Seen",
    "reads",
]

KEY = "Authorization: Bearer sk-a"
HISTORY = [ASK, CALL, RESULT]
RESTORED = [ASK, RS, CALL, RESULT]


class Kind(NamedTuple):
    """
    One kind of exchange.

    Attributes:
        name: Name for people.
        data: The request, as bytes.
        content_type: Content type of the response.
        pieces: Body of the response in pieces; the first piece ends inside an event or a value.
    """

    name: str
    data: bytes
    content_type: str
    pieces: Sequence[bytes]

    @property
    def body(self) -> bytes:
        """Body of the response."""
        return b"".join(self.pieces)

    def head(self, *headers: str, status: str = "200 OK") -> bytes:
        """Return the head of the response."""
        return head(f"Content-Type: {self.content_type}", *headers, status=status)

    def sized(self, size: int | None = None, *headers: str, status: str = "200 OK") -> bytes:
        """Return the head of the response, with this length or the right one."""
        length = f"Content-Length: {len(self.body) if size is None else size}"
        return self.head(length, *headers, status=status)

    def chunked(self, *headers: str) -> bytes:
        """Return the head of the response in chunks."""
        return self.head("Transfer-Encoding: chunked", *headers)

    def whole(self, *headers: str, status: str = "200 OK") -> bytes:
        """Return the complete response, with its length."""
        return self.sized(None, *headers, status=status) + self.body


def _asked(*, stream: bool) -> bytes:
    return post({"model": MODEL, "input": HISTORY, "store": False, "stream": stream})


_ANSWER = as_json(response(RS_2, MESSAGE, rid="resp_fault_0000000001"))
STREAM = Kind(
    "stream",
    _asked(stream=True),
    "text/event-stream; charset=utf-8",
    events(RS_2, MESSAGE, rid="resp_fault_0000000001"),
)
JSON = Kind("json", _asked(stream=False), "application/json", [_ANSWER[:150], _ANSWER[150:]])
OTHER = Kind(
    "other",
    request("POST", "/v1/files", KEY, body=b"\x00\xff" * 100),
    "application/octet-stream",
    [b"\x00\x01\r\n", b"\xfe\xff" * 200],
)
HEAD = Kind(
    "head", request("HEAD", "/v1/files/f/content", KEY), "application/octet-stream", [b"x" * 99]
)
ALL = (STREAM, JSON, OTHER)
READ = (STREAM, JSON)


class Seen(NamedTuple):
    """
    What a client sees.

    Attributes:
        status: Status code; 0: no head was received.
        body: Received bytes of the body; empty for the proxy's own errors.
        is_whole: Whether the framing says that the body is complete.
        code: Code of the proxy's own error.
    """

    status: int
    body: bytes = b""
    is_whole: bool = True
    code: str = ""


async def reads(line: Line) -> Seen:
    """Read one response, and skip interim responses before it."""
    try:
        head = await line.head()
        while head.status < 200:
            head = await line.head()
    except Broken:
        return Seen(0, is_whole=False)
    body, is_whole = await line.until_it_ends()
    for mark in head.values("x-reasoning-replay"):
        if mark.startswith("error="):
            code = mark.removeprefix("error=")
            if body:  # a response to HEAD has no body
                assert_ours(Answer(head, body), head.status, code)
            return Seen(head.status, b"", is_whole, code)
    return Seen(head.status, body, is_whole)
