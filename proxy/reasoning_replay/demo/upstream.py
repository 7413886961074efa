"""
Scripted upstream: a tiny Responses API that is as strict about reasoning as OpenAI's.

Its model follows SCRIPT: one entry for each request since the last user message. It refuses a
request, with the error messages of OpenAI's API, if

- an item is sent without the reasoning that led to it,
- reasoning is not directly followed by the item that it led to,
- reasoning has an unknown id and no encrypted content, or encrypted content that was not issued.

It listens on one free loopback port and keeps everything in memory. Responses are JSON or, with
`stream`, SSE.
"""

import itertools
import json
import secrets
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Self

from aiohttp import web

__all__ = ["SCRIPT", "Item", "ScriptedUpstream"]

Item = dict[str, Any]

# The output of each response, in order. Real models emit these shapes.
SCRIPT: Final[tuple[tuple[str, ...], ...]] = (
    ("reasoning", "function_call"),
    ("function_call",),
    ("reasoning", "function_call"),
    ("reasoning", "message"),
)
CITIES: Final = ("Oslo", "Bergen", "Bodø")
ANSWER: Final = "Take an umbrella to all of them."
PREFIXES: Final = {"reasoning": "rs", "function_call": "fc", "message": "msg"}
INCLUDE: Final = "reasoning.encrypted_content"
HOST: Final = "127.0.0.1"


class ErrorAnswer(NamedTuple):
    """An error response."""

    status: int
    message: str
    code: str | None = None

    def response(self) -> web.Response:
        """Return the error in the API's format."""
        error = {
            "message": self.message,
            "type": "invalid_request_error",
            "param": "input",
            "code": self.code,
        }
        return web.json_response({"error": error}, status=self.status)


class ScriptedUpstream:
    """
    A Responses API that listens while its context is open.

    Attributes:
        base_url: The base URL for clients, `/v1` included.
        received: The `input` of each request, refused ones included.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.received: list[list[Item]] = []
        self._followers: dict[str, Item] = {}  # reasoning id -> the item that it led to
        self._reasoning: dict[str, str] = {}  # item id -> id of the reasoning that led to it
        self._ids: dict[str, str] = {}  # issued encrypted content -> id of its reasoning item
        app = web.Application(client_max_size=1 << 20)
        app.router.add_post("/v1/responses", self._respond)
        self._runner = web.AppRunner(app, access_log=None)

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
        body: Item = await request.json()
        items = body["input"]
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        self.received.append(items)
        refusal = self._maybe_refusal(items)
        if refusal is not None:
            return refusal.response()
        answer = _answer(body, self._output(body, items))
        if not body.get("stream"):
            return web.json_response(answer)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for number, event in enumerate(_events(answer)):
            data = json.dumps({**event, "sequence_number": number})
            await response.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
        return response

    # --- refusals ---

    def _maybe_refusal(self, items: list[Item]) -> ErrorAnswer | None:
        before: set[str] = set()
        for item, following in zip(items, [*items[1:], {}], strict=True):
            item_id = item.get("id", "")
            if item.get("type") == "reasoning":
                blob: str = item.get("encrypted_content") or ""
                issued_for = self._ids.get(blob, "") if blob else item_id
                if blob and (not issued_for or issued_for != (item_id or issued_for)):
                    return _not_verified(item_id, blob)
                if issued_for not in self._followers:
                    return _not_found(item_id)
                item_id = issued_for
                if not _is_same(following, self._followers[item_id]):
                    return _no_follower(item_id)
            elif (reasoning_id := self._reasoning.get(item_id)) and reasoning_id not in before:
                return _no_reasoning(item_id, item["type"], reasoning_id)
            before.add(item_id)
        return None

    # --- output of the model ---

    def _output(self, body: Item, items: list[Item]) -> list[Item]:
        asked_at = max(
            (at for at, item in enumerate(items) if item.get("role") == "user"), default=0
        )
        answered = sum(item.get("type") == "function_call_output" for item in items[asked_at:])
        kinds = SCRIPT[answered % len(SCRIPT)]
        if not str(body.get("model", "")).startswith(("gpt-5", "o")):  # a model without reasoning
            kinds = tuple(kind for kind in kinds if kind != "reasoning")
        output = [_item(kind, body, answered) for kind in kinds]
        for reasoning, item in itertools.pairwise(output):
            self._followers[reasoning["id"]] = item
            self._reasoning[item["id"]] = reasoning["id"]
            self._ids[reasoning["encrypted_content"]] = reasoning["id"]
        shows_blobs = INCLUDE in (body.get("include") or ()) or body.get("store") is False
        hidden = () if shows_blobs else ("encrypted_content",)
        return [{key: item[key] for key in item if key not in hidden} for item in output]


def _is_same(item: Item, emitted: Item) -> bool:
    """Return whether a client's item is the emitted one; clients may omit its id."""
    if "id" in item:
        return bool(item["id"] == emitted["id"])
    kind = item.get("type", "message")
    return kind == emitted["type"] and item.get("call_id") == emitted.get("call_id")


def _not_found(item_id: str) -> ErrorAnswer:
    words = f"Item with id '{item_id}' not found. Remove this item from your input and try again."
    return ErrorAnswer(HTTPStatus.NOT_FOUND, words)


def _not_verified(item_id: str, blob: str) -> ErrorAnswer:
    shown = item_id or f"{blob[:4]}...{blob[-4:]}"
    words = f"The encrypted content for item {shown} could not be verified."
    return ErrorAnswer(HTTPStatus.BAD_REQUEST, words, "invalid_encrypted_content")


def _no_follower(item_id: str) -> ErrorAnswer:
    words = (
        f"Item '{item_id}' of type 'reasoning' was provided without its required following item."
    )
    return ErrorAnswer(HTTPStatus.BAD_REQUEST, words)


def _no_reasoning(item_id: str, kind: str, reasoning_id: str) -> ErrorAnswer:
    words = (
        f"Item '{item_id}' of type '{kind}' was provided without its required 'reasoning' item: "
        f"'{reasoning_id}'."
    )
    return ErrorAnswer(HTTPStatus.BAD_REQUEST, words)


def _item(kind: str, body: Item, answered: int) -> Item:
    """Return a complete output item."""
    item: Item = {"id": f"{PREFIXES[kind]}_{secrets.token_hex(24)}", "type": kind}
    match kind:
        case "reasoning":
            return item | {"summary": [], "encrypted_content": "gAAAA" + secrets.token_urlsafe(640)}
        case "function_call":
            tools = body.get("tools") or [{"name": "get_weather"}]
            return item | {
                "status": "completed",
                "call_id": f"call_{secrets.token_hex(12)}",
                "name": tools[0].get("name", "get_weather"),
                "arguments": json.dumps({"city": CITIES[answered % len(CITIES)]}),
            }
        case _:
            text = {"type": "output_text", "text": ANSWER, "annotations": []}
            return item | {"status": "completed", "role": "assistant", "content": [text]}


def _answer(body: Item, output: list[Item]) -> Item:
    return {
        "id": f"resp_{secrets.token_hex(24)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "model": body.get("model", ""),
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
    }


def _events(answer: Item) -> Iterator[Item]:
    """Yield a response as stream events, without their sequence numbers."""
    begun = {**answer, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty: Item = {"message": {"content": []}, "function_call": {"arguments": ""}}
        opened = item | empty.get(item["type"], {})
        if "status" in item:
            opened["status"] = "in_progress"
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        if item["type"] == "function_call":
            stem, text = "response.function_call_arguments", item["arguments"]
            yield {"type": f"{stem}.delta", **place, "delta": text}
            yield {"type": f"{stem}.done", **place, "arguments": text}
        elif item["type"] == "message":
            stem, text = "response.output_text", item["content"][0]["text"]
            yield {"type": f"{stem}.delta", **place, "content_index": 0, "delta": text}
            yield {"type": f"{stem}.done", **place, "content_index": 0, "text": text}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": answer}
