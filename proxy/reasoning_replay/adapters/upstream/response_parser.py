"""Response parser: reads the responses on one connection with llhttp (httptools)."""

from http import HTTPStatus

import httptools

from reasoning_replay.adapters.upstream.response import UpstreamResponse
from reasoning_replay.core.wire.headers import Headers

# Large enough for real responses; a larger head is an upstream error.
HEAD_MAX_BYTES = 64 * 1024
# Limit on all bytes between two pieces of a body: interim responses, the raw head, chunk extensions
# and trailers. The parser buffers incomplete parts of them.
OVERHEAD_MAX_BYTES = 2 * HEAD_MAX_BYTES
# Overhead of a header in addition to its bytes, as in HTTP/2 (RFC 9113, 6.5.2).
HEADER_BYTES = 32
_SWITCHED = HTTPStatus.SWITCHING_PROTOCOLS
_INTERIM = range(100, 200)
_LENGTH = b"content-length"
_CHUNKED = "chunked"
_CODINGS = frozenset({_CHUNKED, "identity"})
_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class ResponseParser:
    """
    Parser of the responses on one connection.

    Attributes:
        is_done: Whether the response is complete.
        until_eof: Whether the end of the connection completes the response.
        may_stay: Whether the input so far allows another exchange on the connection.
        overhead_bytes: Bytes read since `expect`, or since the last piece of the body.
        error: Description of invalid input; "" if the input is valid.
    """

    def __init__(self) -> None:
        self._parser = self._new_parser()
        self._response: UpstreamResponse | None = None
        self._has_no_body = False
        self._is_interim = False
        self._fields: Headers | None = None  # of the response, while its head is read
        self._head_left_bytes = HEAD_MAX_BYTES
        self._left_bytes: int | None = None
        self.is_done = self.until_eof = False
        self.may_stay = True
        self.overhead_bytes = 0
        self.error = ""

    def expect(self, response: UpstreamResponse, *, has_no_body: bool) -> None:
        """Prepare for the next response; `has_no_body`: regardless of its headers, as for HEAD."""
        if self._has_no_body:
            self._parser = self._new_parser()  # the old one still waits for a body
        self._response, self._has_no_body = response, has_no_body
        self.is_done = self.until_eof = False
        self._head_left_bytes, self.overhead_bytes = HEAD_MAX_BYTES, 0
        self._left_bytes = None

    def feed(self, data: bytes) -> bool:
        """Parse input; return whether the response is complete."""
        self.overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.may_stay = False
            self.error = self.error or "its response is not valid HTTP, or the head is too long"
        if self.overhead_bytes > OVERHEAD_MAX_BYTES and not self.is_done:
            self.error = self.error or "the head, a chunk extension or the trailers are too long"
        return self.is_done

    # --- called by llhttp ---

    def on_message_begin(self) -> None:
        """Begin a response, if one is expected."""
        self._is_interim = False
        if self._response is None or self.is_done:
            self.may_stay = False
        else:
            self._response.reason = b""
            self._response.headers = self._fields = []

    def on_status(self, reason: bytes) -> None:
        """Add a part of the reason phrase."""
        if self._response is not None and not self.is_done:
            self._response.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are dropped, like hop-by-hop headers."""
        self._head_left_bytes -= len(name) + len(value) + HEADER_BYTES
        if self._head_left_bytes < 0:
            raise ValueError  # stops llhttp
        if self._fields is not None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Complete the head, unless it is that of an interim response."""
        response, status = self._response, self._parser.get_status_code()
        self._fields = None
        if response is None or self.is_done:
            return
        if status == _SWITCHED:
            self.error = "it switched protocols, but the request did not ask for it"
            raise ValueError
        if status in _INTERIM:
            self._is_interim = True
            return
        if status < _INTERIM.start or not self._parser.get_http_version().startswith("1."):
            raise ValueError
        self.may_stay = self._parser.should_keep_alive()
        if length := response.value(_LENGTH):
            response.length = int(length)
        coding = response.value(b"transfer-encoding").strip(" ").lower()
        has_body = not self._has_no_body and status not in _WITHOUT_BODY
        # Any other coding would reach the client undeclared, and parsers disagree on the meaning
        # of "chunked, x".
        if has_body and coding and coding not in _CODINGS:
            raise ValueError
        if coding and response.length is not None:
            # Readers disagree on the end of such a response, so the connection is not used again.
            self.may_stay = False
            if coding == _CHUNKED:  # this one holds (RFC 9112, 6.3)
                response.drop(_LENGTH)
            elif has_body:  # llhttp would read to the end of the connection
                self._left_bytes = response.length
        self.until_eof = has_body and response.length is None and coding != _CHUNKED
        self.is_done = self._has_no_body or self._left_bytes == 0
        response.begin(status)

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        self.overhead_bytes = 0
        if self._is_interim:
            raise ValueError  # an interim response has no body
        if self._response is None or self.is_done:
            self.may_stay = False
            return
        if self._left_bytes is not None:
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
            self.is_done = not self._left_bytes
        self._response.take(data)

    def on_message_complete(self) -> None:
        """Complete the response, or pass on an interim one."""
        if not self._is_interim:
            self.is_done = True
        elif self._response is not None and not self.is_done:
            self._response.note_interim(self._parser.get_status_code())

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # aiohttp tolerates the first two. What the others let pass is checked here.
        parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_chunked_length=True,
            lenient_version=True,
        )
        return parser
