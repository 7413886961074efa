"""
Server of the strict API: its dialects on one free loopback port, for any key, or none.

Answers are JSON or, with `stream`, SSE; Gemini's streams can be one JSON array as well.
"""

import asyncio
import contextlib
import json
import logging
import secrets
from collections import Counter, deque
from collections.abc import Mapping, MutableSequence
from http import HTTPStatus
from typing import Any, ClassVar, Final, Self

from aiohttp import hdrs, web

from reasoning_replay.strict_api.dialect import Dialect, Exchange, Item, Refused

HOST: Final = "127.0.0.1"
BODY_MAX_BYTES: Final = 8 << 20
RECEIVED_MAX: Final = 100
EXCHANGES_MAX: Final = 10_000
UNSERVED_MAX: Final = 20
UNSERVED_CHARS: Final = 120
THINKING_WORDS: Final = 25  # the model thinks as long as it would write so many words
# A client may leave at any time, which aiohttp would log with a traceback.
_SILENT: Final = logging.Logger("strict_api", logging.CRITICAL + 1)  # noqa: LOG001 (no handler)


class StrictApi:
    """
    A server that listens while its context is open.

    Attributes:
        options: Options of aiohttp's runner.
        base_url: The base URL for clients, `/v1` included.
        received: The histories of the newest requests, refused ones included.
        exchanges: The newest exchanges.
        unserved: Requests that are no exchange, such as `POST /messages`: how many of each.
    """

    options: ClassVar[Mapping[str, Any]] = {"shutdown_timeout": 0.1}

    def __init__(
        self,
        *dialects: Dialect,
        word_s: float = 0.0,
        root: str = "/v1",
        body_max_bytes: int = BODY_MAX_BYTES,
    ) -> None:
        """
        Start with nothing received.

        Args:
            dialects: The dialects; the errors of unknown paths are those of the first one.
            word_s: Time in which the model writes one word, in seconds.
            root: The path of the base URL.
            body_max_bytes: Size of the largest request.
        """
        self.base_url = ""
        self.received: MutableSequence[Any] = deque(maxlen=RECEIVED_MAX)
        self.exchanges: deque[Exchange] = deque(maxlen=EXCHANGES_MAX)
        self.unserved: Counter[str] = Counter()
        self._word_s = word_s
        self._dialects = dialects
        self._root = root
        app = web.Application(client_max_size=body_max_bytes)
        app.router.add_route("*", "/{path:.*}", self.respond)
        app.on_response_prepare.append(_add_request_id)
        self._runner = web.AppRunner(app, access_log=None, logger=_SILENT, **self.options)

    async def __aenter__(self) -> Self:
        """
        Start to listen.

        Raises:
            OSError: No loopback port is free.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        self.base_url = f"http://{HOST}:{self._runner.addresses[0][1]}{self._root}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and cut off running requests."""
        await self._runner.cleanup()

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, whatever it is."""
        asked = ((one, one.members_of(request.rel_url)) for one in self._dialects)
        dialect, named = next((one for one in asked if one[1] is not None), (None, None))
        if dialect is None or named is None or request.method != hdrs.METH_POST:
            words = f"Invalid URL ({request.method} {request.path})"
            self._note(f"{request.method} {request.path}")
            return _refusal(self._dialects[0], Refused(words, HTTPStatus.NOT_FOUND))
        try:
            raw = await request.read()
        except web.RequestPayloadError:  # a damaged content coding; aiohttp closes the connection
            words = "We could not parse the JSON body of your request."
            response = _refusal(dialect, Refused(words))
            response.force_close()
            return response
        try:
            body = read_body(raw, dialect.history) | named
        except Refused as refused:
            self._note(f"{request.method} {request.path}: {refused}")
            return _refusal(dialect, refused)
        self.received.append(body[dialect.history])
        exchange, answer = dialect.serve(body, request.headers.get(hdrs.USER_AGENT, ""))
        self.exchanges.append(exchange)
        if exchange.refused is not None:
            return _refusal(dialect, exchange.refused)
        return await self._sent(request, answer, dialect, streams=body.get("stream"))

    def _note(self, words: str) -> None:
        """Count a request that is no exchange; many different ones are counted together."""
        shown = words[:UNSERVED_CHARS]
        is_known = shown in self.unserved or len(self.unserved) < UNSERVED_MAX
        self.unserved[shown if is_known else "others"] += 1

    async def _sent(
        self, request: web.Request, answer: Item, dialect: Dialect, *, streams: object
    ) -> web.StreamResponse:
        """Send an answer as fast as the model writes."""
        events = list(dialect.events(answer))
        if not streams or streams == "array":
            await asyncio.sleep(self._word_s * (THINKING_WORDS + len(events)))
            array = [json.loads(one.removeprefix(b"data: ")) for one in events if streams]
            return web.json_response(array or answer)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        with contextlib.suppress(ConnectionResetError):  # the client left
            await stream.prepare(request)
            await asyncio.sleep(self._word_s * THINKING_WORDS)
            for event in events:
                await stream.write(event)
                await asyncio.sleep(self._word_s)
        return stream


def read_body(raw: bytes, history: str) -> Item:
    """
    Return a parsed request, with its history as a list of objects.

    Raises:
        Refused: It has no history, or one of another form.
    """
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    given = body.get(history) if isinstance(body, dict) else None
    if isinstance(given, str) and history == "input":
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Refused(f"Missing or invalid parameter: '{history}'.", param=history)
    return {**body, history: given}


def _refusal(dialect: Dialect, refused: Refused) -> web.Response:
    return web.json_response(dialect.error(refused), status=refused.status)


async def _add_request_id(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("x-request-id", f"req_{secrets.token_hex(16)}")
