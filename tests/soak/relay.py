"""
Relay between the proxy and the strict API: judges requests, applies faults, records bytes.

It implements HTTP/1.1 by hand, so that the compared bytes are those on the wire.
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from urllib.parse import urlsplit

import msgspec
from multidict import CIMultiDict
from reasoning_replay.strict_api.dialect import text_of

from tests.slow_line import reset_now
from tests.soak.claims import Claim, Item
from tests.soak.hostile import KIND, answer
from tests.soak.judge import Attempt, Judge
from tests.strict import LOOPS, StrictResponses
from tests.strict.upstream import caller_of
from tests.web.line import Head, Line, line_to
from tests.web.scripted import Received, _body, _received
from tests.web.sockets import TEXT
from tests.web.wire import END, as_json, chunk, head

LOOP = "x-soak-loop"
HANGS_S = 6.0
PAUSE_S = 0.01
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")
# Faults of responses, with their weights.
FAULTS = {
    "500": 6,
    "429": 6,
    "503": 3,
    "reset": 5,  # before any response
    "hang": 2,  # no response, for longer than the proxy waits
    "cut": 6,  # reset during the response
    "closed": 4,  # closed in good order during the response
    "stall": 2,  # silence during the response, for longer than the proxy waits
    "slow": 6,  # a pause after every chunk: not a fault
}
ANSWERED = {"500": 500, "429": 429, "503": 503}
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def dice(*seed: object) -> Random:
    """Return a random source that is the same for the same seed."""
    return Random("/".join(map(str, seed)))  # noqa: S311 - no secret


def fault_of(seed: str, number: str, share: float) -> str:
    """Choose the fault of a request; "" for most."""
    thrown = dice(seed, "fault", number)
    if thrown.random() >= share:
        return ""
    return thrown.choices(list(FAULTS), list(FAULTS.values()))[0]


@dataclass(frozen=True)
class Relay:
    """
    Upstream of the proxy.

    Attributes:
        judge: Receives every request and response.
        apis: Loop -> its API; a header of each request names the loop.
        seed: Seed of the faults.
        share: Share of requests with a fault.
    """

    judge: Judge
    apis: Mapping[str, StrictResponses]
    seed: str
    share: float

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it closes."""
        # Cancelled at the very end, when no task awaits it.
        ended = (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError)
        with contextlib.suppress(*ended):
            while not writer.is_closing():
                raw = await reader.readuntil(b"\r\n\r\n")
                received = _received(raw)
                if received.values("upgrade"):
                    await self._tunnel(raw, received, (reader, writer))
                    break
                received = Received(received.line, received.headers, await _body(received, reader))
                if kind := received.values(KIND):
                    await answer(kind[0], writer)
                else:
                    await self._answer(received, writer)
        writer.close()

    # HTTP...

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> None:
        claim, attempt = self._judged(received.body, received)
        attempt.fault = fault_of(self.seed, claim.number, self.share)
        if attempt.fault == "reset":
            return reset_now(writer.transport)
        if attempt.fault == "hang":
            await asyncio.sleep(HANGS_S)
            return reset_now(writer.transport)
        if attempt.fault in ANSWERED:
            return _refuse(attempt, writer)
        async with line_to(self._api(received).base_url) as line:
            await line.send(_spelled(received))
            await self._pass_on(line, claim, attempt, writer)
        self._api(received).received.clear()
        return None

    async def _pass_on(
        self, line: Line, claim: Claim, attempt: Attempt, writer: asyncio.StreamWriter
    ) -> None:
        told = await line.head()
        _note(attempt, told)
        is_chunked = bool(told.values("transfer-encoding"))
        size = int((told.values("content-length") or ["-1"])[0])
        writer.write(_spelled_head(told))
        ends_behind = dice(self.seed, "cut", claim.number).randrange(1, 40)
        while piece := await line.some():
            ends_behind -= 1
            if attempt.fault in ("cut", "closed", "stall") and (ends_behind <= 0 or not is_chunked):
                # Only half, so that a JSON response, which is one piece, is cut as well.
                attempt.body += piece[: len(piece) // 2]
                half = piece[: len(piece) // 2]
                writer.write(chunk(half) if is_chunked and half else half)
                await writer.drain()
                return await _break_off(attempt.fault, writer)
            attempt.body += piece
            # Set before the write, because the client may report the response before the write
            # returns.
            attempt.is_whole = len(attempt.body) == size
            writer.write(chunk(piece) if is_chunked else piece)
            await writer.drain()
            if attempt.fault == "slow":
                await asyncio.sleep(PAUSE_S)
        if attempt.fault in ("cut", "closed", "stall"):
            if is_chunked:  # it was shorter than the cut: only its end is missing
                return await _break_off(attempt.fault, writer)
            attempt.fault = ""
        attempt.is_whole = True
        writer.write(END if is_chunked else b"")
        await writer.drain()
        return None

    def _judged(self, data: bytes, received: Received) -> tuple[Claim, Attempt]:
        emitter = Issued(self._api(received), caller_of(CIMultiDict(received.headers)))
        return self.judge.arrived(json.loads(data), emitter)

    def _api(self, received: Received) -> StrictResponses:
        return self.apis[received.values(LOOP)[0]]

    # WebSocket...

    async def _tunnel(self, raw: bytes, received: Received, proxy: _Streams) -> None:
        url = urlsplit(self._api(received).base_url)
        api = await asyncio.open_connection(url.hostname, url.port, limit=1 << 24)
        attempts: list[tuple[Claim, Attempt]] = []
        tasks = [
            asyncio.create_task(self._hear(received, proxy[0], api[1], attempts)),
            asyncio.create_task(self._tell(api[0], proxy[1], attempts)),
        ]
        api[1].write(raw)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            api[1].close()

    async def _hear(
        self,
        received: Received,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        attempts: list[tuple[Claim, Attempt]],
    ) -> None:
        while True:
            raw, opcode, payload = await _frame(reader)
            if opcode == TEXT:
                claim, attempt = self._judged(payload, received)
                attempt.fault = fault_of(self.seed, claim.number, self.share / 2)
                attempt.fault = "cut" if attempt.fault else ""
                attempt.status = 200
                attempts.append((claim, attempt))
            writer.write(raw)
            await writer.drain()

    async def _tell(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        attempts: list[tuple[Claim, Attempt]],
    ) -> None:
        writer.write(await reader.readuntil(b"\r\n\r\n"))
        left = 0
        while True:
            raw, opcode, payload = await _frame(reader)
            if opcode == TEXT:
                claim, attempt = attempts[0]
                if not attempt.body:
                    left = dice(self.seed, "cut", claim.number).randrange(1, 40)
                left -= 1
                if attempt.fault == "cut" and not left:
                    return reset_now(writer.transport)
                attempt.body += payload
                event = msgspec.json.decode(payload, type=Item)
                if event["type"] in TERMINAL:
                    attempts.pop(0)
                    attempt.is_whole = True
                    attempt.status = int(event.get("status") or 200)
            writer.write(raw)
            await writer.drain()


@contextlib.asynccontextmanager
async def upstream(seed: str, share: float) -> AsyncIterator[tuple[Judge, str]]:
    """Run strict APIs and the relay before them; yield the judge, and the URL for the proxy."""
    thrown = dice(seed, "apis")
    judge = Judge()
    async with contextlib.AsyncExitStack() as stack:
        apis: Mapping[str, StrictResponses] = {
            loop: await stack.enter_async_context(
                StrictResponses(loop, chunk_bytes=thrown.choice([None, None, 300, 5_000]))
            )
            for loop in LOOPS
        }
        relay = Relay(judge, apis, seed, share)
        server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, limit=1 << 24)
        stack.callback(server.close)
        yield judge, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


class Issued:
    """The items that a strict API has issued to one caller."""

    def __init__(self, upstream: StrictResponses, caller: str) -> None:
        self._blobs = upstream.blobs
        self._caller = caller
        self._api = upstream.api_of(caller)

    def id_of(self, item: Item) -> str:
        """Return the id of reasoning, from its id or from its blob."""
        given = str(item.get("id") or "")
        blob = item.get("encrypted_content")
        if not blob:
            return given
        issued = self._blobs.get(blob)
        if issued is None or issued.account != self._caller or given not in ("", issued.item_id):
            return ""
        return issued.item_id

    def owns(self, item_id: str) -> bool:
        """Return whether it was issued to this caller."""
        return item_id in self._api.emitted

    def fits(self, item_id: str, behind: Sequence[Item]) -> bool:
        """Return whether all items it led to, up to other reasoning, follow it unchanged."""
        spoken = self._api.led_to(item_id)
        return bool(spoken) and all(
            _looks(one, item) for one, item in itertools.zip_longest(spoken, behind[: len(spoken)])
        )


def _looks(emitted: Item, item: Item | None) -> bool:
    if item is None or item.get("id") not in (None, emitted["id"]):
        return False
    if emitted["type"] == "message":
        return item.get("type") == "message" and text_of(item) == text_of(emitted)
    return "call_id" in emitted and item.get("call_id") == emitted["call_id"]


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, int, bytes]:
    """Read one frame: its bytes, its opcode, its unmasked payload."""
    raw = await reader.readexactly(2)
    size = raw[1] & 0x7F
    if size > 125:
        more = await reader.readexactly(2 if size == 126 else 8)
        raw, size = raw + more, int.from_bytes(more)
    key = await reader.readexactly(4) if raw[1] & 0x80 else b""
    payload = await reader.readexactly(size)
    keys = (key * (size // 4 + 1))[:size]
    plain = (int.from_bytes(payload) ^ int.from_bytes(keys)).to_bytes(size) if key else payload
    return raw + key + payload, raw[0] & 0x0F, plain


def _spelled(received: Received) -> bytes:
    hop = ("connection", "transfer-encoding", "content-length", "expect")
    lines = [f"{name}: {value}" for name, value in received.headers if name.lower() not in hop]
    lines += [f"Content-Length: {len(received.body)}", "Connection: close"]
    return "\r\n".join([received.line, *lines, "", ""]).encode("latin-1") + received.body


def _spelled_head(told: Head) -> bytes:
    lines = [f"{name}: {value}" for name, value in told.headers if name.lower() != "connection"]
    return head(*lines, status=f"{told.status} {told.reason}")


def _note(attempt: Attempt, told: Head) -> None:
    attempt.status = told.status
    attempt.request_id = "".join(told.values("x-request-id"))


def _refuse(attempt: Attempt, writer: asyncio.StreamWriter) -> None:
    status = ANSWERED[attempt.fault]
    fault = {"message": "Not now.", "type": "server_error", "param": None, "code": None}
    attempt.status, attempt.request_id = status, f"req_{id(attempt):x}"
    attempt.body += as_json({"error": fault})
    attempt.is_whole = True
    writer.write(
        head(
            "Content-Type: application/json",
            f"Content-Length: {len(attempt.body)}",
            f"x-request-id: {attempt.request_id}",
            status=f"{status} Not now",
        )
        + attempt.body
    )


async def _break_off(fault: str, writer: asyncio.StreamWriter) -> None:
    if fault == "closed":
        writer.close()
        return
    await asyncio.sleep(HANGS_S if fault == "stall" else 0.02)
    reset_now(writer.transport)
