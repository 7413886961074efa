"""
Upstream with a fault switch: a strict API on a socket, with one API for each caller.

`received` has the requests as they arrived, `judged` what was found in them. A test may change
`behaviour` at any time, and have the next requests refused.
"""

import asyncio
import hashlib
import json
import re
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPMethod, HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from aiohttp import hdrs, web
from msgspec import Struct
from reasoning_replay.strict_api import Item, StrictApi
from reasoning_replay.strict_api.dialect import Refused, Rule
from reasoning_replay.strict_api.ledger import Finding, Judgement, State
from reasoning_replay.strict_api.server import read_body
from typing_extensions import override

__all__ = [
    "WRONG",
    "Api",
    "Behaviour",
    "Judged",
    "Received",
    "Refusal",
    "Upstream",
    "caller_of",
    "index_of",
]

BODY_BYTES_MAX = 128 * 1024 * 1024
"""Limit of a body, in bytes; more than any real request, safe for a test machine."""
KEPT = 2_000
WRONG: tuple[State, ...] = ("damaged", "misplaced", "repeated", "foreign")
"""The states of reasoning that is not what was emitted there."""
_DOCS = "the API's documentation"

NO_CREDENTIAL = Rule(
    "Incorrect API key provided: ''. You can find your API key at"
    " https://platform.openai.com/account/api-keys.",
    _DOCS,
    "2026-11",
    status=401,
    code="invalid_api_key",
)
UNKNOWN_ROUTE = Rule("Invalid URL ({} {})", _DOCS, "2026-11", status=404)


class Behaviour(Struct, kw_only=True):
    """
    Behaviour of an upstream: its model, and its faults.

    Attributes:
        loop: The scripted agent loop, a name of its LOOPS.
        repeats: Whether the model says the same in every turn, so that only places differ.
        end: How a response ends: as it should, at a token limit, or with an error.
        chunk_bytes: Size of one write of a stream, in bytes; None writes event by event.
        delay_s: Pause after every event, in seconds.
    """

    loop: str = "one_call"
    repeats: bool = False
    end: Literal["complete", "length", "error"] = "complete"
    chunk_bytes: int | None = None
    delay_s: float = 0.0


class Received(Struct, kw_only=True):
    """
    One request, and its response.

    Attributes:
        method: As sent.
        path: As sent, with the query.
        body: The bytes as sent, with their content encoding.
        headers: In order, repeated ones repeated.
        json: The decoded body; None if it is not JSON.
        status: The response status; 0 until then.
        finished: Whether the response was sent completely.
    """

    method: str
    path: str
    body: bytes
    headers: list[tuple[str, str]]
    json: Any = None
    status: int = 0
    finished: bool = False


class Refusal(Refused):
    """
    A refusal of any form.

    Args:
        status: The HTTP status. 200 is possible: the error is then in the body alone.
        message: The message of the API.
        body: The whole body, decoded; None for the usual one of the API.
        is_text: Whether the body is the bare message.
        more: `type`, `param` and `code` of the error.
    """

    def __init__(
        self,
        status: int,
        message: str = "",
        *,
        body: Any = None,
        is_text: bool = False,
        type: str = "invalid_request_error",  # noqa: A002 (the name of the member)
        **more: Any,
    ) -> None:
        super().__init__(message or json.dumps(body), status, **more)
        self.body, self.is_text, self.type = body, is_text, type


class Judged(Struct, frozen=True, kw_only=True):
    """One request: as it arrived, its messages, what was found in them, and its refusal, if any."""

    received: Received
    messages: list[Item]
    findings: Sequence[Finding]
    judgement: Judgement | None
    refusal: Refused | None


class Api:
    """
    The API of one caller, a mixin for a dialect of the strict API.

    Attributes:
        upstream: The server.
        headers: Those of the request that is served.
    """

    upstream: "Upstream"
    headers: Mapping[str, str] = MappingProxyType({})

    def queued(self) -> Iterator[Refused]:
        """Yield the refusal that the test has asked for."""
        if self.upstream.queue:
            yield self.upstream.queue.popleft()

    def written(self, value: object) -> bytes:
        """Return JSON in the spelling of the vendor."""
        return json.dumps(value).encode()

    def ended(self, answer: Item) -> tuple[int, Item]:
        """Return the status and the body of a response that is not streamed."""
        return HTTPStatus.OK, answer


class Upstream(StrictApi):
    """
    A strict API, serving while its context is open.

    Args:
        behaviour: What a test may change at any time.
        root: The path of its base URL.
        profile: The profile of the proxy that fits; by its host, the upstream would be unknown.

    Attributes:
        received: The last 2,000 requests, oldest first.
        judged: Those of them that could be read.
        queue: The refusals of the next requests.
    """

    # `received` must show the bytes that the proxy sent.
    options = MappingProxyType(
        {"auto_decompress": False, "handler_cancellation": True, "shutdown_timeout": 1.0}
    )
    routes: ClassVar[tuple[str, ...]]
    received: list[Received]
    behaviour: Any

    def __init__(self, behaviour: Behaviour, root: str = "/v1", profile: str = "auto") -> None:
        super().__init__(root=root, body_max_bytes=BODY_BYTES_MAX)
        self.behaviour, self.profile = behaviour, profile
        self.received = []
        self.judged: list[Judged] = []
        self.queue: deque[Refused] = deque()
        self.apis: dict[str, Any] = {}

    @abstractmethod
    def made_for(self, caller: str) -> Api:
        """Return the API of a new caller."""

    def api_of(self, caller: str) -> Any:
        """Return the API of a caller."""
        if caller not in self.apis:
            self.apis[caller] = self.made_for(caller)
            self.apis[caller].upstream = self
        return self.apis[caller]

    def refuse_next(self, refused: Refused) -> None:
        """Refuse the next request, whatever it is; several calls queue up."""
        self.queue.append(refused)

    def found(self, *states: State) -> list[tuple[int, Finding]]:
        """Return the findings of some states, with the number of their request."""
        return [
            (number, finding)
            for number, one in enumerate(self.judged)
            for finding in one.findings
            if finding.state in states
        ]

    @override
    async def respond(self, request: web.Request) -> web.StreamResponse:
        received = Received(
            method=request.method,
            path=request.raw_path,
            body=await request.read(),
            headers=list(request.headers.items()),
        )
        self.note(received)
        api = self.api_of("")
        try:
            api = self.api_of(caller_of(request.headers))
            api.headers = request.headers
            return await self.route(request, received, api)
        except Refused as refused:
            if getattr(refused, "is_text", False):
                return self.whole(received, refused.message.encode(), refused.status, "text/plain")
            return self.whole(received, api.written(error_body(api, refused)), refused.status)

    def note(self, received: Received) -> None:
        """Keep a request."""
        self.received.append(received)
        del self.received[:-KEPT], self.judged[:-KEPT]

    async def route(self, request: web.Request, received: Received, api: Any) -> web.StreamResponse:
        """
        Answer a request.

        Raises:
            Refused: It is refused.
        """
        if request.method != HTTPMethod.POST or not request.path.endswith(self.routes):
            raise UNKNOWN_ROUTE(request.method, request.path)
        body = self.read(received, api)
        try:
            answer = self.serve(received, body, api)
        except Refused as refused:
            if body.get("stream") and (frames := self.refused_in_stream(api, body, refused)):
                return await self.tell(request, received, frames)
            raise
        if body.get("stream"):
            return await self.tell(request, received, api.events(answer))
        status, whole = api.ended(answer)
        return self.whole(received, api.written(whole), status)

    def read(self, received: Received, api: Any) -> Item:
        """
        Return the body of a request.

        Raises:
            Refused: It is no request of this API.
        """
        body = read_body(received.body, api.history)
        received.json = json.loads(received.body)
        return body

    def serve(self, received: Received, body: Item, api: Any) -> Item:
        """
        Judge a request, and return the answer.

        Raises:
            Refused: It is refused.
        """
        outcome, answer = api.serve(body, "")
        findings = outcome.judgement.findings if outcome.judgement else ()
        messages = api.read(body).items if outcome.judgement else []
        one = Judged(
            received=received,
            messages=messages,
            findings=findings,
            judgement=outcome.judgement,
            refusal=outcome.refused,
        )
        self.judged.append(one)
        if outcome.refused is not None:
            raise outcome.refused
        made: Item = answer
        return made

    def refused_in_stream(self, api: Any, _body: Item, refused: Refused) -> list[bytes]:
        """Return a refusal as the events of a stream that was accepted; none if it is no such."""
        if refused.status != HTTPStatus.OK:
            return []
        return [b"data: " + api.written(error_body(api, refused)) + b"\n\n"]

    def whole(
        self, received: Received, body: bytes, status: int = 200, kind: str = "application/json"
    ) -> web.Response:
        """Return a whole response."""
        received.status, received.finished = status, True
        return web.Response(body=body, status=status, content_type=kind)

    async def tell(
        self, request: web.Request, received: Received, frames: Any
    ) -> web.StreamResponse:
        """Send events, in the pieces and with the pauses that are set."""
        response = web.StreamResponse()
        response.headers[hdrs.CONTENT_TYPE] = "text/event-stream; charset=utf-8"
        received.status = response.status
        await response.prepare(request)
        # As they are set at the start: what is set later is for later streams.
        chunk_bytes, delay_s, held = self.behaviour.chunk_bytes, self.behaviour.delay_s, b""
        for one in frames:
            held += one
            size = chunk_bytes or len(held)
            while len(held) >= size > 0:
                await response.write(held[:size])
                held = held[size:]
                # Lets the client read this piece before the next one is written.
                await asyncio.sleep(0)
            await asyncio.sleep(delay_s)
        if held:
            await response.write(held)
        await response.write_eof()
        received.finished = True
        return response


def error_body(api: Any, refused: Refused) -> Any:
    """Return the body of a refusal, which may have its own."""
    own = getattr(refused, "body", None)
    return api.error(refused) if own is None else own


def caller_of(headers: Mapping[str, str]) -> str:
    """
    Return the credential and the organization it acts for, as a digest.

    Raises:
        Refused: There is no credential.
    """
    scheme, _, token = headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    credential = token.strip() if scheme.lower() == "bearer" else None
    credential = credential or headers.get("api-key") or headers.get("x-api-key")
    if not credential:
        raise NO_CREDENTIAL(credential)
    organization = headers.get("OpenAI-Organization", "")
    return hashlib.sha256(f"{credential}\n{organization}".encode()).hexdigest()[:32]


def index_of(finding: Finding) -> int:
    """Return the index of the message that a finding is about."""
    found = re.match(r"messages\D(\d+)", finding.path)
    assert found is not None
    return int(found[1])
