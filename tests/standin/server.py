"""
Stand-in server: the Responses API on a socket, one API for each account.

Loopback only, one port, everything in memory. `StandIn.received` holds the requests that arrived;
`StandIn.behaviour` sets the faults that a test needs.
"""

from collections import deque
from collections.abc import Container
from http import HTTPMethod
from typing import Any

from aiohttp import hdrs, web
from reasoning_replay.strict_api import Item, StrictApi
from reasoning_replay.strict_api.dialect import Refused, Rule, sse
from reasoning_replay.strict_api.scenarios import tokens_of
from reasoning_replay.strict_api.server import read_body
from typing_extensions import override

from tests.standin.api import Api, Issued, shown, veiled
from tests.standin.exchange import BODY_BYTES_MAX, OPTIONS, Exchange, Received
from tests.standin.quirks import Behaviour, Continuity
from tests.standin.socket import Socket
from tests.standin.variants import Variant

__all__ = ["StandIn"]

RECEIVED_KEPT = 1_000
_DOCS = "the API's documentation"

NOT_KEPT = Rule(
    "Encrypted content cannot be requested for persisted responses.",
    "github.com/pydantic/pydantic-ai",
    "2026-11",
    param="include",
)
UNKNOWN_RESPONSE = Rule("Response with id '{}' not found.", "not confirmed", "2026-11", status=404)
UNKNOWN_ROUTE = Rule("Invalid URL ({} {})", _DOCS, "2026-11", status=404)
WRONG_METHOD = Rule(
    "Not allowed to {} on this URL. (HINT: Perhaps you meant to use a different HTTP method?)",
    _DOCS,
    "2026-11",
    status=405,
    code="method_not_supported",
)


class StandIn(StrictApi):
    """
    A strict stand-in for the API, serving while its context is open.

    Args:
        variant, continuity, behaviour: Attributes of Behaviour, kept as `behaviour`, which may be
            changed between requests.

    Attributes:
        received: The last 1,000 requests, oldest first, including those on a WebSocket.
        blobs: What each blob is valid for.
    """

    options = OPTIONS
    received: list[Received]

    def __init__(
        self,
        variant: Variant = "one_call",
        continuity: Continuity = "normal",
        **behaviour: Any,
    ) -> None:
        super().__init__(body_max_bytes=BODY_BYTES_MAX)
        self.behaviour = Behaviour(variant=variant, continuity=continuity, **behaviour)
        self.received = []
        self.blobs: dict[str, Issued] = {}
        self._apis: dict[str, Api] = {}
        self._queue: deque[Refused] = deque()

    def refuse_next(self, refused: Refused) -> None:
        """Answer the next request with this refusal, whatever it is; several calls queue up."""
        self._queue.append(refused)

    def api_of(self, caller: str) -> Api:
        """Return the API of a caller, at the account that responds."""
        own = self.behaviour.quirks.account
        account = f"{own}/{caller}" if own else caller
        api = self._apis.setdefault(account, Api(account, self.behaviour, self.blobs))
        api.behaviour = self.behaviour
        return api

    def expire(self) -> None:
        """Delete all that is stored."""
        for api in self._apis.values():
            api.expire()

    @override
    async def respond(self, request: web.Request) -> web.StreamResponse:
        exchange = await Exchange.take_in(request)
        self._record(exchange.received)
        try:
            if self._queue:
                raise self._queue.popleft()
            return await self._route(exchange, self.api_of(exchange.caller))
        except Refused as refused:
            return exchange.refuse(refused)

    async def _route(self, exchange: Exchange, api: Api) -> web.StreamResponse:
        request = exchange.request
        method, (name, *rest) = request.method, request.path.removeprefix("/v1/").split("/")
        if name == "responses" and rest:
            return await self._stored(exchange, api, *rest)
        if name == "responses":
            if method == HTTPMethod.GET and _is_upgrade(request):
                return await self._connect(exchange, api)
            if method == HTTPMethod.POST:
                return await self._create(exchange, api)
            raise WRONG_METHOD(method)
        raise UNKNOWN_ROUTE(method, request.path)

    async def _stored(self, exchange: Exchange, api: Api, name: str) -> web.StreamResponse:
        """Serve a stored response, or count the tokens of a request for one."""
        method = exchange.request.method
        if (method, name) == ("POST", "input_tokens"):
            body = self._read(exchange)
            self._judge(api, body)
            tokens = 1 + tokens_of(body["input"])
            return exchange.answer({"object": "response.input_tokens", "input_tokens": tokens})
        stored = api.maybe_stored(name)
        if stored is None:
            raise UNKNOWN_RESPONSE(name)
        if method == HTTPMethod.DELETE:
            del api.answers[name]
            return exchange.answer({"object": "response", "id": name, "deleted": True})
        query = exchange.request.query
        asked = {*query.getall("include", ()), *query.getall("include[]", ())}
        if "reasoning.encrypted_content" in asked:
            raise NOT_KEPT(name)
        if query.get("stream") != "true":
            return exchange.answer(veiled(stored))
        told = api.told(veiled(stored), obfuscates=True)
        return await self._tell(exchange, [*map(sse, told)])

    def _read(self, exchange: Exchange) -> Item:
        exchange.read_json()
        return read_body(exchange.plain_body(), "input")

    def _judge(self, api: Api, body: Item) -> None:
        reading = api.read(body)
        judgement = api.ledger.judge(reading.frame, reading.parts)
        for refused in api.refusals(body, reading, judgement):
            raise refused

    def _answer(self, api: Api, body: Item, cached: Container[str] = ()) -> Item:
        """
        Judge a request, and build its response.

        Raises:
            Refused: The request is refused.
        """
        api.cached = cached
        outcome, answer = api.serve(body, "")
        if outcome.refused is not None:
            raise outcome.refused
        return answer

    async def _create(self, exchange: Exchange, api: Api) -> web.StreamResponse:
        body = self._read(exchange)
        streams = bool(body.get("stream"))
        try:
            answer = self._answer(api, body)
        except Refused as refused:
            if not streams or self.behaviour.quirks.refuses_by == "status":
                raise
            return await self._tell(exchange, [*api.refused(body, refused)])
        if not streams:
            output = [shown(item, "completed") for item in answer["output"]]
            return exchange.answer({**answer, "output": output})
        obfuscates = (body.get("stream_options") or {}).get("include_obfuscation", True)
        return await self._tell(exchange, [*map(sse, api.told(answer, obfuscates=obfuscates))])

    async def _connect(self, exchange: Exchange, api: Api) -> web.StreamResponse:
        def answer(body: Item, cached: Container[str]) -> list[Item]:
            if self._queue:
                raise self._queue.popleft()
            return [*api.told(self._answer(api, body, cached), obfuscates=False)]

        return await Socket(exchange, answer, lambda: self.behaviour.delay_s, self._record).serve()

    def _record(self, received: Received) -> None:
        self.received.append(received)
        del self.received[:-RECEIVED_KEPT]

    async def _tell(self, exchange: Exchange, frames: list[bytes]) -> web.StreamResponse:
        chunk_bytes, delay_s = self.behaviour.chunk_bytes, self.behaviour.delay_s
        return await exchange.stream(frames, chunk_bytes=chunk_bytes, delay_s=delay_s)


def _is_upgrade(request: web.Request) -> bool:
    return "websocket" in request.headers.get(hdrs.UPGRADE, "").lower()
