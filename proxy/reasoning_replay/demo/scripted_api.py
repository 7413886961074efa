"""
Scripted API: a tiny API with messages, as strict about reasoning as the vendor that it stands for.

`chat_model` and `messages_model` say what it refuses and answers. It listens on one free loopback
port and accepts any key, or none. Answers are JSON or, with `stream`, SSE.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self

from aiohttp import web

__all__ = ["HOST", "Api", "Message", "ScriptedApi"]

Message = dict[str, Any]

HOST: Final = "127.0.0.1"
BODY_MAX_BYTES: Final = 8 << 20
RECEIVED_MAX: Final = 100
NO_MESSAGES: Final = "Missing or invalid parameter: 'messages' must be an array of messages."


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """
    What one vendor's API does.

    Attributes:
        path: Path of a request, after the base URL.
        refusal: Returns the error message for a request; "" if it is accepted.
        answer: Returns the response to a request.
        frames: Yields the events of a response, as a stream has them.
        error: Returns the body of a refusal with this message.
    """

    path: str
    refusal: Callable[[Message], str]
    answer: Callable[[Message], Message]
    frames: Callable[[Message], Iterator[bytes]]
    error: Callable[[str], Message]


class ScriptedApi:
    """
    An API that listens while its context is open.

    Attributes:
        path: Path of its requests, after the base URL.
        base_url: The base URL for clients, `/v1` included.
        received: The messages of the newest requests, refused ones included.
    """

    def __init__(self, api: Api, word_s: float = 0.0) -> None:
        """Start; the model writes one word of reasoning, text or arguments in `word_s` seconds."""
        self._word_s = word_s
        self.path = api.path
        self.base_url = ""
        self.received: list[list[Message]] = []
        self._api = api
        app = web.Application(client_max_size=BODY_MAX_BYTES)
        app.router.add_post(f"/v1{api.path}", self.respond)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

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

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or refuse it; may be a route of another server."""
        body = _maybe_body(await request.read())
        if body is None:
            return self._refusal(NO_MESSAGES)
        self.received.append(body["messages"])
        del self.received[:-RECEIVED_MAX]
        if fault := self._api.refusal(body):
            return self._refusal(fault)
        answer = self._api.answer(body)
        if not body.get("stream"):
            await asyncio.sleep(self._word_s * sum(1 for _ in self._api.frames(answer)))
            return web.json_response(answer)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        with contextlib.suppress(ConnectionResetError):  # the client left
            await stream.prepare(request)
            for frame in self._api.frames(answer):
                await stream.write(frame)
                await asyncio.sleep(self._word_s)
        return stream

    def _refusal(self, message: str) -> web.Response:
        return web.json_response(self._api.error(message), status=HTTPStatus.BAD_REQUEST)


def _maybe_body(raw: bytes) -> Message | None:
    """Return a parsed request; None if it has no list of messages."""
    try:
        body = json.loads(raw)
    except ValueError:
        return None
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        return None
    return {**body, "messages": messages}
