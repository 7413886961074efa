"""Response parser: the responses on one connection, one after the other, by llhttp (httptools)."""

from http import HTTPStatus

import httptools

from reasoning_replay.adapters.upstream.response import UpstreamResponse

__all__ = ["ResponseParser"]

# Large enough for real responses; a larger head is an error of the upstream.
HEAD_MAX_BYTES = 64 * 1024
# The same for everything between two pieces of a body: interim responses, a head as it is spelled,
# extensions of chunks, trailers. The parser buffers what is incomplete.
OVERHEAD_MAX_BYTES = 2 * HEAD_MAX_BYTES
# What a header costs in addition to its bytes, as HTTP/2 counts (RFC 9113, 6.5.2).
HEADER_BYTES = 32
_SWITCHED = HTTPStatus.SWITCHING_PROTOCOLS
_INTERIM = range(100, 200)
_CHUNKED = "chunked"
_CODINGS = frozenset({_CHUNKED, "identity"})
_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class ResponseParser:
    """
    Parser of the responses on one connection.

    Attributes:
        is_done: Whether the response is complete.
        until_eof: Whether the end of the connection completes it.
        may_stay: Whether the connection may carry another exchange, by what was read.
        overhead_bytes: Read since the response was due, or since the last piece of its body.
        error: What is wrong with the input; "" if nothing is.
    """

    def __init__(self) -> None:
        """Expect no response yet."""
        self._parser = self._new_parser()
        self._response: UpstreamResponse | None = None
        self._has_no_body = False
        self._is_interim = False
        self._is_in_head = True
        self._head_bytes = 0
        self.is_done = self.until_eof = False
        self.may_stay = True
        self.overhead_bytes = 0
        self.error = ""

    def expect(self, response: UpstreamResponse, *, has_no_body: bool) -> None:
        """
        Expect the next response.

        Args:
            response: Filled in.
            has_no_body: Whether it has none, whatever its head says, as that to a HEAD.
        """
        if self._has_no_body:
            self._parser = self._new_parser()  # the old one still waits for a body
        self._response, self._has_no_body = response, has_no_body
        self.is_done = self.until_eof = False
        self._is_in_head, self._head_bytes, self.overhead_bytes = True, 0, 0

    def feed(self, data: bytes) -> bool:
        """Parse input; tell whether the response is complete."""
        self.overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.may_stay = False
            self.error = self.error or "what it sent is no HTTP, or its head is too long"
        if self.overhead_bytes > OVERHEAD_MAX_BYTES and not self.is_done:
            self.error = self.error or "its head does not end, or its trailers do not"
        return self.is_done

    # --- called by llhttp ---

    def on_message_begin(self) -> None:
        """Begin a response, if one is due."""
        self._is_in_head, self._is_interim = True, False
        if self._response is None or self.is_done:
            self.may_stay = False
        else:
            self._response.reason = b""
            self._response.headers = []

    def on_status(self, reason: bytes) -> None:
        """Add a part of the reason phrase."""
        if self._response is not None and not self.is_done:
            self._response.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are dropped, as hop-by-hop headers are."""
        self._head_bytes += len(name) + len(value) + HEADER_BYTES
        if self._head_bytes > HEAD_MAX_BYTES:
            raise ValueError  # llhttp stops there
        if self._response is not None and self._is_in_head and not self.is_done:
            self._response.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Complete the head, unless it is an interim one."""
        response, status = self._response, self._parser.get_status_code()
        self._is_in_head = False
        if response is None or self.is_done:
            return
        if status == _SWITCHED:
            self.error = "it switched protocols, which nothing asked for"
            raise ValueError
        if status in _INTERIM:
            self._is_interim = True
            return
        if status < _INTERIM.start:
            raise ValueError
        if length := response.value(b"content-length"):
            response.length = int(length)
        coding = response.value(b"transfer-encoding").strip(" ").lower()
        has_body = not self._has_no_body and status not in _WITHOUT_BODY
        # Any other coding would reach the client undeclared; and of "chunked, x" the parser makes
        # something else than other parsers do.
        if has_body and coding and coding not in _CODINGS:
            raise ValueError
        self.until_eof = has_body and response.length is None and coding != _CHUNKED
        self.may_stay = self._parser.should_keep_alive()
        self.is_done = self._has_no_body
        response.begin(status)

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        self.overhead_bytes = 0
        if self._is_interim:
            raise ValueError  # it has none, so this belongs to no response
        if self._response is None or self.is_done:
            self.may_stay = False
        else:
            self._response.take(data)

    def on_message_complete(self) -> None:
        """Complete the response, unless it is an interim one."""
        self.is_done = self.is_done or not self._is_interim

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # aiohttp tolerates these, too.
        parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser
