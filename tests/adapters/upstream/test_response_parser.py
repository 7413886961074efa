"""The response parser reads one complete response, up to its last byte, or reports an error."""

import asyncio
from collections.abc import Iterator
from itertools import chain, repeat
from typing import NamedTuple

import pytest
from reasoning_replay.adapters.upstream.response import UpstreamResponse
from reasoning_replay.adapters.upstream.response_parser import (
    HEAD_MAX_BYTES,
    OVERHEAD_MAX_BYTES,
    ResponseParser,
)

from tests.web.wire import END, chunk, head, whole

CHUNKED = "Transfer-Encoding: chunked"
ABC = chunk(b"abc") + END
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


class Nowhere:
    """Owner of a response, without a connection."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def abandon(self, response: UpstreamResponse) -> None:
        """Do nothing."""

    async def until_sent(self, response: UpstreamResponse) -> None:
        """Return at once."""


class Read(NamedTuple):
    """A parsed response; `is_whole` is also true if the end of the connection completes it."""

    status: int
    body: bytes
    is_whole: bool
    may_stay: bool


async def read(
    answers: ResponseParser, data: bytes, *, step: int = 1 << 20, has_no_body: bool = False
) -> tuple[Read, UpstreamResponse]:
    """Parse bytes as the next response, `step` bytes at a time, up to its end."""
    response = UpstreamResponse(Nowhere(), asyncio.get_running_loop().create_future())
    answers.expect(response, has_no_body=has_no_body)
    for at in range(0, len(data), step):
        if answers.feed(data[at : at + step]) or answers.error:
            break
    is_whole = answers.is_done or (answers.until_eof and not answers.error)
    response.end()
    body = await response.read()
    return Read(response.status, body, is_whole, answers.may_stay and answers.is_done), response


WHOLE = {
    "length": (whole(b"abc"), Read(200, b"abc", True, True)),
    "length-blanks": (head("Content-Length:  3  ") + b"abc", Read(200, b"abc", True, True)),
    "chunks": (head(CHUNKED) + ABC, Read(200, b"abc", True, True)),
    "chunks-upper": (head(CHUNKED.upper()) + ABC, Read(200, b"abc", True, True)),
    "chunks-blank": (head(CHUNKED + " ") + ABC, Read(200, b"abc", True, True)),
    "extension": (head(CHUNKED) + b"3;a=b\r\nabc\r\n" + END, Read(200, b"abc", True, True)),
    "trailers": (
        head(CHUNKED) + ABC[:-2] + b"X: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        Read(200, b"abc", True, True),
    ),
    "to-its-end": (head("A: b") + b"abc", Read(200, b"abc", True, False)),
    "identity": (head("Transfer-Encoding: identity") + b"abc", Read(200, b"abc", True, False)),
    "identity-and-length": (
        head("Content-Length: 3", "Transfer-Encoding: identity") + b"abc",
        Read(200, b"abc", True, False),
    ),
    "identity-and-length-and-more": (
        head("Transfer-Encoding: identity", "Content-Length: 3") + b"abcdef",
        Read(200, b"abc", True, False),
    ),
    "chunks-and-length": (head(CHUNKED, "Content-Length: 9") + ABC, Read(200, b"abc", True, False)),
    "length-and-chunks": (head("Content-Length: 1", CHUNKED) + ABC, Read(200, b"abc", True, False)),
    "1.2": (whole(b"abc").replace(b"1.1", b"1.2", 1), Read(200, b"abc", True, True)),
    "close": (head("Connection: close", CHUNKED) + ABC, Read(200, b"abc", True, False)),
    "1.0": (whole(b"abc").replace(b"1.1", b"1.0", 1), Read(200, b"abc", True, False)),
    "interim": (HINTS * 3 + whole(b"abc"), Read(200, b"abc", True, True)),
    "interim-unknown": (head(status="150 x") + whole(b"abc"), Read(200, b"abc", True, True)),
    "interim-length": (
        head("Content-Length: 3", status="100 Continue") + whole(b"abc"),
        Read(200, b"abc", True, True),
    ),
    "204": (head(status="204 No Content"), Read(204, b"", True, True)),
    "204-length": (head("Content-Length: 3", status="204 x"), Read(204, b"", True, True)),
    "304-chunks": (head(CHUNKED, status="304 Not Modified"), Read(304, b"", True, True)),
    "advertised": (
        head("Connection: upgrade", "Upgrade: h2c") + b"abc",
        Read(200, b"abc", True, False),
    ),
}


@pytest.mark.parametrize("step", [1 << 20, 1], ids=["at-once", "bytewise"])
@pytest.mark.parametrize(("data", "want"), WHOLE.values(), ids=WHOLE)
async def test_a_response_is_read_to_its_end(data: bytes, want: Read, step: int) -> None:
    """A response is complete regardless of its pieces, and the next one is read independently."""
    answers = ResponseParser()
    assert (await read(answers, data, step=step))[0] == want
    if want.may_stay:
        got, response = await read(answers, head("B: c", "Content-Length: 1") + b"z", step=step)
        assert got == Read(200, b"z", True, True)
        assert response.headers == [(b"B", b"c"), (b"Content-Length", b"1")]


@pytest.mark.parametrize(("data", "want"), WHOLE.values(), ids=WHOLE)
async def test_a_response_to_head_ends_with_its_head(data: bytes, want: Read) -> None:
    """A response to HEAD has no body, regardless of its headers."""
    answers = ResponseParser()
    just_head = data[: data.rindex(b"\r\n\r\n", 0, data.find(b"abc") + 1 or None)]
    got, _ = await read(answers, data[: len(just_head) + 4], has_no_body=True)
    assert (got.status, got.body, got.is_whole) == (want.status, b"", True)
    if got.may_stay:
        assert (await read(answers, whole(b"z")))[0] == Read(200, b"z", True, True)


@pytest.mark.parametrize(
    "name", [name for name, (data, _) in WHOLE.items() if data.endswith((b"abc", END, b"\r\n\r\n"))]
)
async def test_a_part_of_a_response_is_not_complete(name: str) -> None:
    """A part of a response is complete only if the end of the connection completes it."""
    data, _ = WHOLE[name]
    for size in range(len(data)):
        got, _ = await read(ResponseParser(), data[:size])
        ends_with_connection = name in ("to-its-end", "identity", "advertised")
        assert not got.is_whole or (ends_with_connection and got.status == 200), data[:size]


REFUSED = {
    "coding-tab": head(CHUNKED + "\t") + ABC,
    "coding-comma": head(CHUNKED + ",") + ABC,
    "coding-parameter": head(CHUNKED + ";a=b") + ABC,
    "coding-twice": head(CHUNKED, CHUNKED) + ABC,
    "coding-not-last": head(CHUNKED, "Transfer-Encoding: identity") + ABC,
    "coding-gzip": head("Transfer-Encoding: gzip, chunked") + ABC,
    "coding-unknown": head("Transfer-Encoding: xchunked") + ABC,
    "coding-folded": head("Transfer-Encoding:", " chunked") + ABC,
    "coding-none": head("Transfer-Encoding:") + ABC,
    "coding-gzip-and-length": head("Transfer-Encoding: gzip", "Content-Length: 3") + b"abc",
    "version": whole(b"abc").replace(b"/1.1", b"/2.0", 1),
    "length-twice": head("Content-Length: 3", "Content-Length: 3") + b"abc",
    "length-list": head("Content-Length: 3, 3") + b"abc",
    "length-plus": head("Content-Length: +3") + b"abc",
    "length-underscore": head("Content-Length: 1_0") + b"abc",
    "length-none": head("Content-Length:") + b"abc",
    "length-folded": head("Content-Length: 3", " 4") + b"abc",
    "length-beyond-64-bits": head("Content-Length: 18446744073709551617") + b"abc",
    "interim-with-length": head("Content-Length: 3", status="150 x") + b"abc" + whole(b"z"),
    "interim-with-chunks": head(CHUNKED, status="199 x") + ABC + whole(b"z"),
    "status-0": head("Content-Length: 3", status="000 x") + b"abc",
    "status-99": head("Content-Length: 3", status="099 x") + b"abc",
    "status-short": head("Content-Length: 3", status="20 x") + b"abc",
    "status-long": head("Content-Length: 3", status="2000 x") + b"abc",
    "name-blank": head("A : b", "Content-Length: 3") + b"abc",
    "name-none": head(": b", "Content-Length: 3") + b"abc",
    "no-colon": head("A", "Content-Length: 3") + b"abc",
    "folded": head("A: b", " c", "Content-Length: 3") + b"abc",
    "cr-in-value": head("A: b\rB: c", "Content-Length: 3") + b"abc",
    "cr-in-reason": head("Content-Length: 3", status="200 a\rB: c") + b"abc",
    "control": head("A: b\x01", "Content-Length: 3") + b"abc",
    "delete": head("A: b\x7f", "Content-Length: 3") + b"abc",
    "nul": head("A: b\0", "Content-Length: 3") + b"abc",
    "nul-in-upgrade": head("Upgrade: b\0", "Content-Length: 3") + b"abc",
}


@pytest.mark.parametrize("step", [1 << 20, 1], ids=["at-once", "bytewise"])
@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
async def test_an_ambiguous_response_is_rejected(data: bytes, step: int) -> None:
    """A head that parsers may read differently is an error: no status and no body are passed on."""
    answers = ResponseParser()
    got, _ = await read(answers, data, step=step)
    assert answers.error
    assert got == Read(0, b"", False, False)


@pytest.mark.parametrize(
    "size",
    [b"-1", b"0x3", b"3\r", b"ffffffffffffffffff", b" ", b"\r\n", b"3;a\r"],
)
async def test_an_invalid_chunk_size_is_an_error(size: bytes) -> None:
    """The head has been passed on by then, so the response can only be cut off."""
    answers = ResponseParser()
    got, _ = await read(answers, head(CHUNKED) + size + b"abc\r\n" + END)
    assert (got.body, got.is_whole, got.may_stay) == (b"", False, False)
    assert answers.error


PIECE = b"x" * 4096
ENDLESS = {
    "reason": (b"HTTP/1.1 200 ", PIECE),
    "header": (b"HTTP/1.1 200 OK\r\nA: ", PIECE),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a:\r\n" * 999),
    "interim": (b"", b"HTTP/1.1 100 x\r\n\r\n" * 99),
    "blank-lines": (b"", b"\r\n" * 999),
    "extension": (head(CHUNKED) + b"3;", PIECE),
    "size": (head(CHUNKED), b"0" * 999),
    "trailer": (head(CHUNKED) + ABC[:-2] + b"X: ", PIECE),
    "trailers": (head(CHUNKED) + ABC[:-2], b"a:\r\n" * 999),
}


def endless(start: bytes, piece: bytes) -> Iterator[bytes]:
    """Yield the start, then the same piece forever."""
    return chain([start], repeat(piece))


@pytest.mark.parametrize(("start", "piece"), ENDLESS.values(), ids=ENDLESS)
async def test_bytes_other_than_the_body_are_bounded(start: bytes, piece: bytes) -> None:
    """A head, chunk extension or trailer that does not end is an error at the limit."""
    answers, read_bytes = ResponseParser(), 0
    answers.expect(
        UpstreamResponse(Nowhere(), asyncio.get_running_loop().create_future()), has_no_body=False
    )
    for data in endless(start, piece):
        if answers.error:
            break
        answers.feed(data)
        read_bytes += len(data)
        assert read_bytes <= OVERHEAD_MAX_BYTES + 2 * len(PIECE)
    assert not answers.is_done


async def test_chunk_extensions_do_not_bound_a_body() -> None:
    """The limit is for the bytes between two pieces of a body, not for their sum."""
    answers = ResponseParser()
    body = b"1;" + b"x" * 99 + b"\r\na\r\n"
    got, _ = await read(answers, head(CHUNKED) + body * 9999 + END, step=HEAD_MAX_BYTES // 2)
    assert got == Read(200, b"a" * 9999, True, True)


@pytest.mark.parametrize("behind", [b"H", b"x", whole(b"z"), HINTS, b"\0"])
async def test_bytes_after_a_response_end_its_connection(behind: bytes) -> None:
    """Bytes after a response cannot be the response to a request that has not been sent yet."""
    got, _ = await read(ResponseParser(), whole(b"abc") + behind)
    assert got == Read(200, b"abc", True, False)


@pytest.mark.parametrize("behind", [b"", b"x", whole(b"z")])
@pytest.mark.parametrize("headers", [["Connection: upgrade", "Upgrade: x"], []])
async def test_a_protocol_switch_is_an_error(headers: list[str], behind: bytes) -> None:
    """A 101 response is an error, because no request asks for a protocol switch."""
    answers = ResponseParser()
    got, _ = await read(answers, head(*headers, status="101 Switching Protocols") + behind)
    assert got == Read(0, b"", False, False)
    assert "switched protocols" in answers.error
