"""
Scripted API: a server of tiny APIs, each as strict about reasoning as the vendor's.

`responses_model`, `chat_model` and `messages_model` say what each refuses and answers. It listens
on one free loopback port and accepts any key, or none. Answers are JSON or, with `stream`, SSE.
"""

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self

from aiohttp import web

from reasoning_replay.web.http.server import silent

__all__ = ["Api", "Item", "Refused", "ScriptedApi", "sse"]

Item = dict[str, Any]

HOST: Final = "127.0.0.1"
BODY_MAX_BYTES: Final = 8 << 20
RECEIVED_MAX: Final = 100
THINKING_WORDS: Final = 25  # the model thinks as long as it would write so many words


class Refused(Exception):
    """A refused request: the message of the API, and the rest of its error."""

    def __init__(
        self,
        message: str,
        status: int = HTTPStatus.BAD_REQUEST,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """
    What one vendor's API does.

    Attributes:
        path: Path of a request, after the base URL.
        history: Member of a request that has the history, a list of objects.
        answer: Returns the response to a request; raises Refused.
        events: Yields the events of a response, as a stream has them.
        error: Returns the body of a refusal.
    """

    path: str
    history: str
    answer: Callable[[Item], Item]
    events: Callable[[Item], Iterator[bytes]]
    error: Callable[[Refused], Item]


class ScriptedApi:
    """
    A server that listens while its context is open.

    Attributes:
        base_url: The base URL for clients, `/v1` included.
        received: The histories of the newest requests, refused ones included.
    """

    def __init__(self, *apis: Api, word_s: float = 0.0) -> None:
        """
        Start with nothing received.

        Args:
            apis: The APIs; the errors of unknown paths are those of the first one.
            word_s: Time in which the model writes one word, in seconds.
        """
        self.base_url = ""
        self.received: deque[list[Item]] = deque(maxlen=RECEIVED_MAX)
        self._word_s = word_s
        self._apis = {f"/v1{api.path}": api for api in apis}
        self._first = apis[0]
        app = web.Application(client_max_size=BODY_MAX_BYTES)
        app.router.add_route("*", "/{path:.*}", self._respond)
        app.on_response_prepare.append(_add_request_id)
        # A client may leave at any time, which aiohttp would log with a traceback.
        self._runner = web.AppRunner(app, access_log=None, logger=silent, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        """
        Start to listen.

        Raises:
            OSError: No loopback port is free.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        self.base_url = f"http://{HOST}:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and cut off running requests."""
        await self._runner.cleanup()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        api = self._apis.get(request.path)
        if api is None or request.method != "POST":
            words = f"Invalid URL ({request.method} {request.path})"
            return _refusal(self._first, Refused(words, HTTPStatus.NOT_FOUND))
        try:
            raw = await request.read()
        except web.RequestPayloadError:  # a damaged content coding; aiohttp closes the connection
            response = _refusal(api, Refused("We could not parse the JSON body of your request."))
            response.force_close()
            return response
        try:
            body = _body(raw, api.history)
            self.received.append(body[api.history])
            answer = api.answer(body)
        except Refused as refused:
            return _refusal(api, refused)
        return await self._sent(request, answer, api, streams=bool(body.get("stream")))

    async def _sent(
        self, request: web.Request, answer: Item, api: Api, *, streams: bool
    ) -> web.StreamResponse:
        """Send an answer as fast as the model writes."""
        events = list(api.events(answer))
        if not streams:
            await asyncio.sleep(self._word_s * (THINKING_WORDS + len(events)))
            return web.json_response(answer)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        with contextlib.suppress(ConnectionResetError):  # the client left
            await stream.prepare(request)
            await asyncio.sleep(self._word_s * THINKING_WORDS)
            for event in events:
                await stream.write(event)
                await asyncio.sleep(self._word_s)
        return stream


def sse(data: Item) -> bytes:
    """Return an event of a stream; its name, if it has one, is its type."""
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def _body(raw: bytes, history: str) -> Item:
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


def _refusal(api: Api, refused: Refused) -> web.Response:
    return web.json_response(api.error(refused), status=refused.status)


async def _add_request_id(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["x-request-id"] = f"req_{secrets.token_hex(16)}"
