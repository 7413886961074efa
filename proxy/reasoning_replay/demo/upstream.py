"""
Scripted upstream: a tiny Responses API that is as strict about reasoning as OpenAI's.

It listens on one free loopback port, keeps everything in memory, and drops the oldest. Responses
are JSON or, with `stream`, SSE. It accepts any key, or none.
"""

import asyncio
import hashlib
import itertools
import json
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, Self

from aiohttp import web

from reasoning_replay.demo.issued_items import IssuedItems, Refused, keep
from reasoning_replay.demo.scripted_api import HOST, ScriptedApi
from reasoning_replay.demo.scripted_model import (
    SCRIPT,
    Item,
    events_of,
    output_for,
    response_of,
)
from reasoning_replay.web.http.server import silent

__all__ = ["SCRIPT", "Item", "ScriptedUpstream"]

INCLUDE: Final = "reasoning.encrypted_content"
BODY_MAX_BYTES: Final = 8 << 20
RECEIVED_MAX: Final = 100
PREFIXES_MAX: Final = 10_000
# How long the model thinks before an item, in words that it could write in that time.
THOUGHTS: Final = (20, 45, 12, 30)


class ScriptedUpstream:
    """
    A Responses API that listens while its context is open.

    Attributes:
        base_url: The base URL for clients, `/v1` included.
        received: The `input` of the newest requests, refused ones included.
    """

    def __init__(self, word_s: float = 0.0, others: Iterable[ScriptedApi] = ()) -> None:
        """
        Start with nothing issued.

        Args:
            word_s: Time for one word of a response, in seconds; thinking takes some words' time.
            others: Other APIs under the same base URL.
        """
        self.base_url = ""
        self.received: list[list[Item]] = []
        self._word_s = word_s
        self._thoughts = itertools.cycle(THOUGHTS)
        self._issued = IssuedItems()
        self._prefixes: dict[bytes, None] = {}  # digests of the histories that the cache holds
        app = web.Application(client_max_size=BODY_MAX_BYTES)
        app.router.add_post("/v1/responses", self._respond)
        for other in others:
            app.router.add_post(f"/v1{other.path}", other.respond)
        app.router.add_route("*", "/{path:.*}", _unknown_path)
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
        try:
            body, given = _body_and_input(await request.read())
            self.received.append(given)
            del self.received[:-RECEIVED_MAX]
            items = self._issued.resolve(body, given)
            self._issued.judge(items)
        except Refused as refused:
            return _refusal(refused)
        output = output_for(body, items)
        self._issued.issue(output)
        stores = body.get("store") is not False
        shows_blobs = INCLUDE in (body.get("include") or ()) or not stores
        hidden = () if shows_blobs else ("encrypted_content",)
        shown = [{key: item[key] for key in item if key not in hidden} for item in output]
        response = response_of(body, shown, *self._sizes(items))
        if stores:
            self._issued.store(response, items)
        return await self._sent(request, response, streams=bool(body.get("stream")))

    async def _sent(
        self, request: web.Request, response: Item, *, streams: bool
    ) -> web.StreamResponse:
        """Send a response as fast as the model writes."""
        if not streams:
            await asyncio.sleep(sum(map(self._pause_s, events_of(response))))
            return web.json_response(response)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await stream.prepare(request)
        for event in events_of(response):
            data = json.dumps(event)
            await stream.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
            if pause_s := self._pause_s(event):
                await asyncio.sleep(pause_s)
        return stream

    def _pause_s(self, event: Item) -> float:
        """Return the time that the model takes after an event."""
        if event["type"].endswith(".delta"):
            return self._word_s
        is_thinking = event.get("item", {}).get("type") == "reasoning"
        begins = event["type"] == "response.output_item.added"
        return self._word_s * next(self._thoughts) if is_thinking and begins else 0.0

    def _sizes(self, items: list[Item]) -> tuple[int, int]:
        """Return the bytes of a history, and those of its longest prefix that was sent before."""
        digest, size, cached = hashlib.sha256(), 0, 0
        for item in items:
            raw = json.dumps(item).encode()
            digest.update(raw)
            size += len(raw)
            if digest.digest() in self._prefixes:
                cached = size
            keep(self._prefixes, digest.digest(), None, PREFIXES_MAX)
        return size, cached


def _body_and_input(raw: bytes) -> tuple[Item, list[Item]]:
    """
    Return a parsed request body, and its input as a list of items.

    Raises:
        Refused: The body has no input, or one that is neither a text nor a list of items.
    """
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    given = body.get("input") if isinstance(body, dict) else None
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        words = "Missing or invalid parameter: 'input' must be a string or an array of items."
        raise Refused(HTTPStatus.BAD_REQUEST, words)
    return body, given


async def _add_request_id(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["x-request-id"] = f"req_{secrets.token_hex(16)}"


async def _unknown_path(request: web.Request) -> web.Response:
    words = f"Invalid URL ({request.method} {request.path})"
    return _refusal(Refused(HTTPStatus.NOT_FOUND, words, param=None))


def _refusal(refused: Refused) -> web.Response:
    return web.json_response({"error": refused.error}, status=refused.status)
