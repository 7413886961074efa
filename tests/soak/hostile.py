"""
Hostile load: what one tenant sends, or makes upstream send, to stall or swell the proxy.

Each kind is a request and its response. A header of the request names the kind, by which the relay
knows what to answer. No reasoning is expected here, but each byte must be that of upstream.
"""

import asyncio
import contextlib
import functools
import gzip
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from urllib.parse import urlsplit

import aiohttp

from tests.bombs import CODINGS, bomb
from tests.soak.claims import Item
from tests.web.wire import END, as_json, chunk, events, head

KIND = "x-soak-kind"
KEY = "Bearer sk-soak-hostile"
WAITS_S = 60.0
PAUSE_S = (0.1, 1.0)
HELD_S = 3.0  # how long a body that was announced does not come
MIB = 1 << 20

_RESPONSES, _CHAT, _MESSAGES = "/responses", "/chat/completions", "/messages"
_STREAM, _JSON = "text/event-stream", "application/json"
_SIGNS = 20  # signs of life before a response
_EVENTS = 4  # in a chunk


@dataclass(frozen=True, slots=True)
class Kind:
    """
    One kind of request, and the response to it.

    Attributes:
        path: Path below the base URL.
        body: Body of the request.
        more: Headers of the request.
        at_once: Number of such requests that are sent together.
        missing: Bytes of the body that are announced and never sent.
        status, form, coding: Status, media type and content coding of the response.
        pieces: Body of the response, each in a chunk of its own.
        paused, pause_s: Number of pieces, from the first on, that a pause follows, and its length.
        leaves_at: The client leaves once it has received this; b"": it reads all.
    """

    path: str = _RESPONSES
    body: bytes = b'{"model":"m","input":"hi","messages":[],"max_tokens":1}'
    more: Mapping[str, str] = field(default_factory=dict)
    at_once: int = 1
    missing: int = 0
    status: int = 200
    form: str = _JSON
    coding: str = "identity"
    pieces: Sequence[bytes] = (b"{}",)
    paused: int = 0
    pause_s: float = 0.1
    leaves_at: bytes = b""


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Return all kinds by name; the same in each process."""
    emitted = events(*(item for n in range(1_000) for item in _step(n)))
    named = [
        b'data: {"type":"response.output_item.added","output_index":%d,"item":%b}\n\n'
        % (n, as_json({"type": "function_call", "id": f"fc_{n}", "name": "n" * 40_000}))
        for n in range(400)
    ]
    said = [b'data: {"choices":[{"delta":{"content":"7"}}]}\n\n', b"data: [DONE]\n\n"]
    delta = (
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}'
    )
    told = [
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1"}}\n\n',
        delta + b"\n\n",
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ]
    words = {"letters": "a" * 4_096, "dots": "a." * 2_048, "brackets": "[a]" * 1_365}
    return {
        "escapes in gzip": Kind(
            body=gzip.compress(b"\\n" * (4 * MIB)), more={"Content-Encoding": "gzip"}
        ),
        **{
            f"bombs in {coding}": Kind(
                body=bomb(coding, 9 * MIB),
                more={"Content-Encoding": coding},
                at_once=4,
                coding=coding,
                pieces=[bomb(coding, 36 * MIB)],
            )
            for coding in CODINGS
        },
        "lone surrogates": Kind(body=b'{"model":"m","input":"%b"}' % (b"\\ud800" * 700_000)),
        **{
            f"a word of {name} in a 404": Kind(
                _CHAT,
                status=404,
                pieces=[as_json({"error": {"message": f"The model {word} does not exist: x"}})],
            )
            for name, word in words.items()
        },
        "thousands of items": Kind(
            form=_STREAM,
            pieces=[b"".join(emitted[n : n + _EVENTS]) for n in range(0, len(emitted), _EVENTS)],
            paused=len(emitted),
            pause_s=0.001,  # so that the chunks arrive one by one
        ),
        "long names": Kind(form=_STREAM, pieces=named),
        "comments first": Kind(
            _CHAT, form=_STREAM, pieces=[b": AT WORK\n\n"] * _SIGNS + said, paused=_SIGNS
        ),
        "white space first": Kind(
            _CHAT, pieces=[b"\n"] * _SIGNS + [b'{"choices":[]}'], paused=_SIGNS
        ),
        "leaves at message_delta": Kind(
            _MESSAGES, form=_STREAM, pieces=told, paused=len(told), leaves_at=delta
        ),
        "a body that never comes": Kind(at_once=16, missing=5 * MIB),
        "5 MB at once": Kind(body=b'{"model":"m","input":"%b"}' % (b"x" * (5 * MIB)), at_once=16),
    }


def _step(number: int) -> tuple[Item, Item]:
    """Return reasoning and the call that it led to, with ids that look random."""
    name = hashlib.sha256(b"%d" % number).hexdigest()[:24]
    thought = {"type": "reasoning", "id": f"rs_{name}", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": f"fc_{name}", "call_id": f"call_{name}", "name": "x"}
    return thought, call | {"arguments": "{}"}


async def answer(name: str, writer: asyncio.StreamWriter) -> None:
    """Write the response to a request of this kind."""
    kind = kinds()[name]
    writer.write(
        head(
            f"Content-Type: {kind.form}",
            f"Content-Encoding: {kind.coding}",
            "Transfer-Encoding: chunked",
            status=f"{kind.status} x",
        )
    )
    for at, piece in enumerate(kind.pieces):
        writer.write(chunk(piece))
        await writer.drain()
        if at < kind.paused:
            await asyncio.sleep(kind.pause_s)
    writer.write(END)
    await writer.drain()


@dataclass
class Hostile:
    """
    All clients of the hostile tenant.

    Attributes:
        counts: Requests by kind, and the faults found.
    """

    urls: Sequence[str]
    session: aiohttp.ClientSession
    chance: Random
    counts: Counter[str] = field(default_factory=Counter)
    _next: list[str] = field(default_factory=list)  # so that each kind has its turn

    async def warm_up(self) -> None:
        """Send each kind to each replica, so that its memory has its size before it is measured."""
        for url in self.urls:
            await asyncio.gather(*(self._send(name, url) for name in kinds()))

    async def run(self, clients: int, quits: Callable[[], bool]) -> None:
        """Run parallel clients until it is time to end."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client(quits))

    async def _client(self, quits: Callable[[], bool]) -> None:
        while not quits():
            self._next = self._next or self.chance.sample(list(kinds()), len(kinds()))
            await self._send(self._next.pop(), self.chance.choice(self.urls))
            await asyncio.sleep(self.chance.uniform(*PAUSE_S))

    async def _send(self, name: str, url: str) -> None:
        kind = kinds()[name]
        self.counts[f"hostile: {name}"] += kind.at_once
        ask = self._announce if kind.missing else self._ask
        await asyncio.gather(*(ask(name, kind, url) for _ in range(kind.at_once)))

    async def _ask(self, name: str, kind: Kind, url: str) -> None:
        headers = {"Authorization": KEY, "Content-Type": _JSON, KIND: name, **kind.more}
        given, body = BytesIO(kind.body), bytearray()
        try:
            async with (
                asyncio.timeout(WAITS_S),
                self.session.post(url + kind.path, data=given, headers=headers) as response,
            ):
                async for piece in response.content.iter_any():
                    body += piece
                    if kind.leaves_at and kind.leaves_at in body:
                        response.close()
                        return
        except (aiohttp.ClientError, TimeoutError):
            self.counts["hostile requests that broke off"] += 1
            return
        if response.status != kind.status:
            self.counts["hostile requests that were refused"] += 1
        elif body != b"".join(kind.pieces):
            self.counts["wrong: bytes of a hostile request"] += 1

    async def _announce(self, name: str, kind: Kind, url: str) -> None:
        """Send the head of a request and a part of its body, and leave after a while."""
        to = urlsplit(url)
        size = len(kind.body) + kind.missing
        lines = f"Host: x\r\nAuthorization: {KEY}\r\n{KIND}: {name}\r\nContent-Length: {size}"
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(to.hostname, to.port)
            writer.write(f"POST {to.path}{kind.path} HTTP/1.1\r\n{lines}\r\n\r\n".encode())
            writer.write(kind.body)
            await asyncio.sleep(HELD_S)
            writer.close()
