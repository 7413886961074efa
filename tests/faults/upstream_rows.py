"""Table of what upstream may do wrong, or oddly, and what its client sees: one row each."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults.kinds import ALL, HEAD, Kind, Seen
from tests.faults.steps import hang, pause, reset
from tests.web.scripted import Step, close, send
from tests.web.wire import END, chunk, head

__all__ = ["ROWS", "SHORT_S", "Row"]

SHORT_S = 0.3

Steps = Callable[[Kind], list[Step]]
Sees = Callable[[Kind], Seen]


@dataclass(frozen=True, slots=True)
class Row:
    """
    One fault of upstream.

    Attributes:
        does: Steps of upstream after it has the request.
        sees: What the client sees.
        is_kept: Whether the connection to upstream is used again; else it is closed.
        kinds: Kinds of exchange that the row is played for.
        or_sees: Another allowed result.
        settings: Settings of the proxy.
    """

    does: Steps
    sees: Sees
    is_kept: bool = False
    kinds: Sequence[Kind] = ALL
    or_sees: Sees | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def ours(status: int, code: str) -> Sees:
    """Expect this error of the proxy."""
    return lambda _: Seen(status, code=code)


def broken(pieces: int, more: bytes = b"") -> Sees:
    """Expect this many pieces, then a break."""
    return lambda kind: Seen(200, b"".join(kind.pieces[:pieces]) + more, is_whole=False)


def all_of_it(kind: Kind) -> Seen:
    """Expect the complete response."""
    return Seen(200, kind.body)


def says(*pieces: bytes, then: Sequence[Step] = ()) -> Steps:
    """Send these bytes for every kind of exchange, then do further steps."""
    return lambda _: [*map(send, pieces), *then]


GZIP = "Content-Encoding: gzip"
ELSEWHERE = "Location: /v1/elsewhere?a=%7E"
NO_UTF_8 = b'data: {"type":"response.output_text.delta","delta":"\xff\xc0\x80"}\n\n'
NO_JSON = b"event: response.output_item.done\ndata: {'item': nothing\x00\n\ndata\n\n:\n\n"

FAILED = ours(502, "upstream_failed")
TIMEOUT = ours(504, "upstream_timeout")
SHORT_HEAD: dict[str, Any] = {"first_byte_timeout_s": SHORT_S}
SHORT_READ: dict[str, Any] = {"read_timeout_s": SHORT_S}


def in_chunks(pieces: int, *more: bytes) -> Callable[[Kind], bytes]:
    """Return the head and this many chunks of a response, then these bytes."""
    return lambda kind: (
        kind.chunked() + b"".join(chunk(piece) for piece in kind.pieces[:pieces]) + b"".join(more)
    )


def ends(spell: Callable[[Kind], bytes], *then: Step) -> Steps:
    """Send the beginning of a response, then do these steps."""
    return lambda kind: [send(spell(kind)), *then]


def _1_0(answer: bytes) -> bytes:
    return answer.replace(b"HTTP/1.1", b"HTTP/1.0", 1)


def interim(status: str) -> Row:
    """Send an interim response first; it is dropped here or passed on."""
    return Row(
        ends(lambda kind: head("X: y", status=status) + kind.whole()), all_of_it, is_kept=True
    )


def bodiless(status: str) -> Row:
    """Send a response that has no body and no framing headers."""
    return Row(says(head("ETag: x", status=status)), lambda _: Seen(int(status[:3])), is_kept=True)


def called(status: str, *headers: str) -> Row:
    """Send a response with this status, which the client interprets."""
    return Row(
        ends(lambda kind: kind.whole(*headers, status=status)),
        lambda kind: Seen(int(status[:3]), kind.body),
        is_kept=True,
    )


# --- before the head is complete ---

ROWS: dict[str, Row] = {
    "closes unanswered": Row(lambda _: [close()], FAILED),
    "resets unanswered": Row(lambda _: [reset()], FAILED),
    "hangs before its head": Row(lambda _: [hang()], TIMEOUT, settings=SHORT_HEAD),
    "closes within its head": Row(says(b"HTTP/1.1 200 OK\r\nContent-Ty", then=[close()]), FAILED),
    "resets within its head": Row(says(b"HTTP/1.1 200 OK\r\nContent-Ty", then=[reset()]), FAILED),
    "hangs within its head": Row(
        says(b"HTTP/1.1 200 OK\r\nContent-Ty", then=[hang()]), TIMEOUT, settings=SHORT_HEAD
    ),
    "closes within its status line": Row(says(b"HTTP/1.1 200 O", then=[close()]), FAILED),
    "garbage": Row(says(bytes(range(256)) * 4, then=[hang()]), FAILED),
    "a header over the limit": Row(says(head("X: " + "x" * 70_000), then=[hang()]), FAILED),
    "an unrequested 101": Row(
        says(
            head("Connection: upgrade", "Upgrade: x", status="101 Switching Protocols"),
            then=[hang()],
        ),
        FAILED,
    ),
    # --- within the body ---
    "closes within a length": Row(
        ends(lambda kind: kind.sized() + kind.pieces[0], close()), broken(1)
    ),
    "resets within a length": Row(
        ends(lambda kind: kind.sized() + kind.pieces[0], reset()), broken(1)
    ),
    "hangs within a length": Row(
        ends(lambda kind: kind.sized() + kind.pieces[0], hang()), broken(1), settings=SHORT_READ
    ),
    "closes after its head": Row(ends(in_chunks(0), close()), broken(0)),
    "resets after its head": Row(ends(in_chunks(0), reset()), broken(0)),
    "hangs after its head": Row(ends(in_chunks(0), hang()), broken(0), settings=SHORT_READ),
    "closes between chunks": Row(ends(in_chunks(1), close()), broken(1)),
    "resets between chunks": Row(ends(in_chunks(1), reset()), broken(1)),
    "hangs between chunks": Row(ends(in_chunks(1), hang()), broken(1), settings=SHORT_READ),
    "closes within a chunk": Row(ends(in_chunks(1, b"ff\r\nhalf"), close()), broken(1, b"half")),
    "resets within a chunk": Row(ends(in_chunks(1, b"ff\r\nhalf"), reset()), broken(1, b"half")),
    "hangs within a chunk": Row(
        ends(in_chunks(1, b"ff\r\nhalf"), hang()), broken(1, b"half"), settings=SHORT_READ
    ),
    "closes within a chunk's size": Row(ends(in_chunks(1, b"f"), close()), broken(1)),
    "closes within the last chunk": Row(ends(in_chunks(9, b"0\r\n"), close()), broken(9)),
    "a chunk without a size": Row(
        ends(in_chunks(1), pause(), send(b"zz\r\nabc\r\n"), hang()), broken(1)
    ),
    "a chunk without a size, at once": Row(
        ends(in_chunks(1, b"zz\r\nabc\r\n"), hang()), broken(1), or_sees=FAILED
    ),
    "a chunk longer than its size": Row(
        ends(in_chunks(1), pause(), send(b"3\r\nabcdef\r\n"), hang()),
        broken(1, b"abc"),
        or_sees=broken(1),
    ),
    "resets a body without a length": Row(
        ends(lambda kind: kind.head("Connection: close") + kind.pieces[0], reset()),
        broken(1),
    ),
    "hangs in a body without a length": Row(
        ends(lambda kind: kind.head("Connection: close") + kind.pieces[0], hang()),
        broken(1),
        settings=SHORT_READ,
    ),
    # --- a wrong length ---
    "a length that is too long": Row(
        ends(lambda kind: kind.sized(len(kind.body) + 9) + kind.body, close()), broken(9)
    ),
    "a length that is too short": Row(
        ends(lambda kind: kind.sized(len(kind.pieces[0])) + kind.body, hang()),
        lambda kind: Seen(200, kind.pieces[0]),
        or_sees=FAILED,  # all bytes arrive at once: where the response ends is ambiguous
    ),
    "more after its end": Row(
        lambda kind: [send(kind.whole()), pause(), send(kind.body), hang()], all_of_it
    ),
    # --- valid HTTP: passed on unchanged, and the connection stays usable ---
    "half an event at its end": Row(
        ends(lambda kind: kind.chunked() + chunk(kind.body + b"event: resp") + END),
        lambda kind: Seen(200, kind.body + b"event: resp"),
        is_kept=True,
    ),
    "invalid UTF-8": Row(
        ends(lambda kind: kind.chunked() + chunk(NO_UTF_8 + kind.body) + END),
        lambda kind: Seen(200, NO_UTF_8 + kind.body),
        is_kept=True,
    ),
    "an event of invalid JSON": Row(
        ends(lambda kind: kind.chunked() + chunk(NO_JSON + kind.body) + END),
        lambda kind: Seen(200, NO_JSON + kind.body),
        is_kept=True,
    ),
    "gzip without a header": Row(
        ends(lambda kind: kind.chunked() + chunk(gzip.compress(kind.body, mtime=0)) + END),
        lambda kind: Seen(200, gzip.compress(kind.body, mtime=0)),
        is_kept=True,
    ),
    "gzip instead of identity": Row(
        ends(lambda kind: kind.chunked(GZIP) + chunk(gzip.compress(kind.body, mtime=0)) + END),
        lambda kind: Seen(200, gzip.compress(kind.body, mtime=0)),
        is_kept=True,
    ),
    "plain with a gzip header": Row(ends(lambda kind: kind.whole(GZIP)), all_of_it, is_kept=True),
    "half of a gzip": Row(
        ends(lambda kind: kind.chunked(GZIP) + chunk(gzip.compress(kind.body, mtime=0)[:40]) + END),
        lambda kind: Seen(200, gzip.compress(kind.body, mtime=0)[:40]),
        is_kept=True,
    ),
    "an empty body": Row(ends(lambda kind: kind.sized(0)), lambda _: Seen(200), is_kept=True),
    "a large header": Row(
        ends(lambda kind: kind.whole("X: " + "x" * 30_000)), all_of_it, is_kept=True
    ),
    "trailers": Row(ends(in_chunks(9, b"0\r\nX-T: 1\r\nX-U: 2\r\n\r\n")), all_of_it, is_kept=True),
    "chunk extensions": Row(
        ends(
            lambda kind: (
                kind.chunked() + b'%x;a=b;c="d"\r\n%b\r\n0;e\r\n\r\n' % (len(kind.body), kind.body)
            )
        ),
        all_of_it,
        is_kept=True,
    ),
    "chunks of one byte": Row(
        ends(lambda kind: kind.chunked() + b"".join(chunk(b"%c" % b) for b in kind.body) + END),
        all_of_it,
        is_kept=True,
    ),
    "byte by byte": Row(
        lambda kind: [send(b"%c" % byte) for byte in kind.whole()], all_of_it, is_kept=True
    ),
    "closes after its end": Row(ends(Kind.whole, close()), all_of_it),
    "resets after its end": Row(ends(Kind.whole, reset()), all_of_it),
    "a body for a HEAD": Row(
        ends(Kind.whole, hang()), lambda _: Seen(200), kinds=[HEAD], or_sees=FAILED
    ),
    "a body for a HEAD, later": Row(
        lambda kind: [send(kind.sized()), pause(), send(kind.body), hang()],
        lambda _: Seen(200),
        kinds=[HEAD],
    ),
    "a length for a HEAD": Row(ends(Kind.sized), lambda _: Seen(200), is_kept=True, kinds=[HEAD]),
    "chunks for a HEAD": Row(ends(Kind.chunked), lambda _: Seen(200), is_kept=True, kinds=[HEAD]),
    "ends with its connection": Row(
        ends(lambda kind: kind.head("Connection: close") + kind.body, close()), all_of_it
    ),
    "HTTP/1.0, ends with its connection": Row(
        ends(lambda kind: _1_0(kind.head()) + kind.body, close()), all_of_it
    ),
    "HTTP/1.0 with a length": Row(ends(lambda kind: _1_0(kind.whole())), all_of_it),
    "announces that it closes": Row(ends(lambda kind: kind.whole("Connection: close")), all_of_it),
    **{
        f"{status} before its response": interim(status)
        for status in ("100 Continue", "102 Processing", "103 Early Hints")
    },
    **{status: bodiless(status) for status in ("204 No Content", "304 Not Modified")},
    **{
        status: called(status, ELSEWHERE)
        for status in ("301 Moved", "302 Found", "307 Temporary", "308 Permanent")
    },
    **{
        f"status line: {status!r}": called(status)
        for status in ("200", "200 ", "200 caf\xe9 \x80", "218 This is fine", "599 No", "200  two")
    },
}
