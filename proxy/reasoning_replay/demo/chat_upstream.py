"""
Scripted chat upstream: a tiny Chat Completions API that is as strict about reasoning as DeepSeek's.

With thinking on and tools in a request, it refuses each assistant message after the last one of the
user that lacks the key `reasoning_content`, with the error message of DeepSeek's API. It listens on
one free loopback port and accepts any key, or none. Answers are JSON or, with `stream`, SSE.
"""

import asyncio
import contextlib
import json
from http import HTTPStatus
from typing import Final, Self

from aiohttp import web

from reasoning_replay.demo.chat_model import (
    REASONING,
    Message,
    answer_for,
    chunks_of,
    completion_of,
    since_asked,
    thinks,
)

__all__ = ["HOST", "ScriptedChat"]

HOST: Final = "127.0.0.1"
BODY_MAX_BYTES: Final = 8 << 20
RECEIVED_MAX: Final = 100
NO_REASONING: Final = "The `reasoning_content` in the thinking mode must be passed back to the API."
NO_MESSAGES: Final = "Missing or invalid parameter: 'messages' must be an array of messages."


class ScriptedChat:
    """
    A Chat Completions API that listens while its context is open.

    Attributes:
        base_url: The base URL for clients, `/v1` included.
        received: The messages of the newest requests, refused ones included.
    """

    def __init__(self, word_s: float = 0.0) -> None:
        """Start; the model writes one word of reasoning, text or arguments in `word_s` seconds."""
        self._word_s = word_s
        self.base_url = ""
        self.received: list[list[Message]] = []
        app = web.Application(client_max_size=BODY_MAX_BYTES)
        app.router.add_post("/v1/chat/completions", self.respond)
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
            return _refusal(NO_MESSAGES)
        self.received.append(body["messages"])
        del self.received[:-RECEIVED_MAX]
        if thinks(body) and body.get("tools") and _lacks_reasoning(body["messages"]):
            return _refusal(NO_REASONING)
        completion = completion_of(body, answer_for(body))
        if not body.get("stream"):
            await asyncio.sleep(self._word_s * sum(1 for _ in chunks_of(completion)))
            return web.json_response(completion)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        with contextlib.suppress(ConnectionResetError):  # the client left
            await stream.prepare(request)
            for chunk in chunks_of(completion):
                await stream.write(f"data: {json.dumps(chunk)}\n\n".encode())
                await asyncio.sleep(self._word_s)
            await stream.write(b"data: [DONE]\n\n")
        return stream


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


def _lacks_reasoning(messages: list[Message]) -> bool:
    """Return whether a message of the current round lacks its reasoning; null is absent."""
    return any(
        message.get("role") == "assistant" and message.get(REASONING) is None
        for message in since_asked(messages)
    )


def _refusal(message: str) -> web.Response:
    kind = "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": kind}
    return web.json_response({"error": error}, status=HTTPStatus.BAD_REQUEST)
