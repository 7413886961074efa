"""
Raw HTTP: each case is played straight to a byte recorder and through the proxy, under uvloop.

The rules by which the two may always differ: the proxy writes its own `Host` first, and the framing
last; one space stands before a value; the version is that of each side; a body may be cut into
other chunks. All else differs only in the rows of the table in docs/security.md.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
import uvloop

from tests.patience import SOON_S
from tests.web.http.raw_cases import TABLES, Case
from tests.web.world import world

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
ROWS = re.compile(r"^\| ([^|]+?) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
_OF_ONE_SIDE = (b"host:", b"content-length:", b"transfer-encoding:")
_OF_ONE_ANSWER = (b"transfer-encoding:", b"connection:", b"x-reasoning-replay")


class Head(NamedTuple):
    """A head: the parts of its first line but the version, and its fields with one space."""

    first: tuple[bytes, ...]
    fields: list[bytes]

    def value(self, name: bytes) -> bytes | None:
        """Return the first value of a header in lower case, or None."""
        found = [field for field in self.fields if field.lower().startswith(name + b": ")]
        return found[0][len(name) + 2 :].lower() if found else None

    def less(self, names: tuple[bytes, ...], lines: Sequence[bytes] = ()) -> "Head":
        """Return a head without fields of these names, and without these fields."""
        kept = [field for field in self.fields if not field.lower().startswith(names)]
        return Head(self.first, [field for field in kept if field.lower() not in lines])


class Request(NamedTuple):
    """A request that the upstream received; `framing` is its length or coding."""

    head: Head
    framing: bytes | None
    body: bytes


class Answer(NamedTuple):
    """All that a client reads of one response: the interim heads, its head, and its body."""

    interim: list[Head]
    head: Head
    body: bytes
    is_whole: bool


def head_of(raw: bytes) -> Head:
    """Read a head; a request line ends with its version, and a status line begins with it."""
    first, *lines = raw[:-4].split(b"\r\n")
    parts = first.split(b" ", 2) if first.startswith(b"HTTP/") else first.rsplit(b" ", 1)
    named = [part for part in parts if not part.startswith(b"HTTP/")]
    fields = [line.partition(b":") for line in lines]
    return Head(
        (*named, b"")[:2], [b"%b: %b" % (name, value.strip(b" ")) for name, _, value in fields]
    )


async def chunks_of(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks of a body; raise IncompleteReadError if it is cut."""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass


class Recorder:
    """
    Upstream that records each request, and answers with the bytes of a case.

    Attributes:
        url: Its origin.
        requests: What it received since the last case began.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self._cases: deque[Case] = deque()

    def plays(self, case: Case) -> None:
        """Answer the next request as this case says."""
        self.requests = []
        self._cases.clear()
        self._cases.append(case)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = head_of(await reader.readuntil(b"\r\n\r\n"))
                length, coding = head.value(b"content-length"), head.value(b"transfer-encoding")
                body = b""
                if coding is not None:
                    body = b"".join([piece async for piece in chunks_of(reader)])
                elif length is not None:
                    body = await reader.readexactly(int(length))
                self.requests.append(Request(head.less(_OF_ONE_SIDE), coding or length, body))
                case = self._cases.popleft()
                writer.write(case.answer)
                await writer.drain()
                if case.ends:
                    break
        writer.close()


async def ask(url: str, data: bytes) -> Answer:
    """Send bytes on a new connection, and read one response."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
    try:
        async with asyncio.timeout(SOON_S):
            writer.write(data)
            return await _answer(reader, is_head=data.startswith(b"HEAD "))
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, *, is_head: bool) -> Answer:
    interim: list[Head] = []
    while (head := head_of(await reader.readuntil(b"\r\n\r\n"))).first[0][:1] == b"1":
        interim.append(head)
    body, is_whole = b"", True
    length, coding = head.value(b"content-length"), head.value(b"transfer-encoding")
    try:
        if is_head or head.first[0] in {b"204", b"304"}:
            pass
        elif coding == b"chunked":
            async for piece in chunks_of(reader):
                body += piece
        elif length is not None:
            body = await reader.readexactly(int(length))
        else:
            body = await reader.read(-1)
    except asyncio.IncompleteReadError as error:
        body, is_whole = body + error.partial, False
    return Answer(interim, head.less(_OF_ONE_ANSWER), body, is_whole)


async def difference(case: Case, recorder: Recorder, proxy_url: str) -> str:
    """Play a case both ways; return what differs and may not, or ""."""
    recorder.plays(case)
    proxied = await ask(proxy_url, case.request)
    sent = recorder.requests
    if case.refused:
        is_ours = b"proxy_error" in proxied.body and bool(sent) == (case.refused == 502)
        is_right = is_ours and proxied.head.first[0] == b"%d" % case.refused
        return "" if is_right else f"{proxied.head.first} after {len(sent)} requests"
    recorder.plays(case)
    straight = await ask(recorder.url, case.request)
    (want,) = recorder.requests
    (got,) = sent
    gained = next((line.partition(b": ")[2] for line in case.gains), want.framing)
    want = want._replace(head=want.head.less((), case.loses), framing=gained)
    passed = [head for head in straight.interim if head.first[0] != b"100"]
    answer = straight._replace(head=straight.head.less((), case.loses), interim=passed)
    faults = [f"request: {got} for {want}"[:2000]] if got != want else []
    faults += [f"response: {proxied} for {answer}"[:2000]] if proxied != answer else []
    has_changed = want.framing != recorder.requests[0].framing or answer != straight
    has_changed = has_changed or want.head != recorder.requests[0].head
    if has_changed and not case.row:
        faults.append("it differs, and names no row")
    return "; ".join(faults)


@pytest.mark.parametrize("cases", TABLES.values(), ids=TABLES)
def test_both_sides_see_the_same(cases: Mapping[str, Case]) -> None:
    """Straight and through the proxy, but for the cases whose row says what differs."""

    async def play() -> dict[str, str]:
        recorder = Recorder()
        server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, limit=1 << 20)
        recorder.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with world(upstream_url=recorder.url + "/v1", log_level="error") as w:
            found = {
                name: await difference(case, recorder, w.app.url) for name, case in cases.items()
            }
        server.close()
        return {name: fault for name, fault in found.items() if fault}

    assert uvloop.run(play()) == {}


def test_each_deviation_is_in_the_table_of_the_page() -> None:
    """The table has a row for each deviation, and each row has a case here."""
    text = PAGE.read_text().partition("\n## Where HTTP allows more\n")[2].partition("\n## ")[0]
    written = set(ROWS.findall(text)) - {"what", "---"}
    named = {case.row for cases in TABLES.values() for case in cases.values()} - {""}
    assert named - written == set()
    assert written - named <= {"Uploads", "Half a request", "`Via`, `Date`"}
