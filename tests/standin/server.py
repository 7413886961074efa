"""
Stand-in server: the Responses API on a socket, judged by rules.py, answered by answering.py.

Loopback only, one port, everything in memory. `StandIn.received` holds the requests that arrived;
`StandIn.behaviour` sets the faults that a test needs.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Container, Iterable

import msgspec
from aiohttp import hdrs, web
from typing_extensions import override

from tests.standin import neighbours, refusals
from tests.standin.answering import Behaviour, End, Issue, View, estimate_tokens, respond
from tests.standin.common.loopback import Loopback
from tests.standin.events import frame, tell, tell_refusal
from tests.standin.exchange import Exchange, Received, RefusedError
from tests.standin.ledger import Ledger
from tests.standin.mint import LINEAGE_DIGITS, Ids, Mint
from tests.standin.quirks import PLAIN, Quirks
from tests.standin.refusals import Refusal
from tests.standin.rules import Continuity, Verdict, judge
from tests.standin.sealing import Sealer
from tests.standin.shapes import Answer, AnswerError, Body, ReasoningOptions
from tests.standin.socket import Socket
from tests.standin.variants import Variant

__all__ = ["Received", "StandIn"]

RECEIVED_KEPT = 1_000


_Handler = Callable[[Exchange, str], Awaitable[web.StreamResponse]]


class StandIn(Loopback[Refusal]):
    """
    A strict stand-in for the API, serving while its context is open.

    Args:
        variant, continuity, end, always_encrypted, empty_completed_output, rotate_ids,
        chunk_bytes, delay_s, quirks: See Behaviour. They are kept as `behaviour`, which may be
        changed between requests.
        port: See Loopback.
        seed: Makes ids and blobs repeatable. Two stand-ins of one seed accept each other's blobs.
        clock: Returns unix time in seconds.

    Attributes:
        received: The last 1,000 requests, oldest first, including those on a WebSocket.
        ledger: The turns emitted.
    """

    def __init__(
        self,
        variant: Variant = "one_call",
        continuity: Continuity = "normal",
        *,
        end: End = "completed",
        always_encrypted: bool = False,
        empty_completed_output: bool = False,
        rotate_ids: bool = False,
        chunk_bytes: int | None = None,
        delay_s: float = 0.0,
        quirks: Quirks = PLAIN,
        port: int = 0,
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("/v1", port)
        seed = seed or secrets.token_bytes(16)
        self.behaviour = Behaviour(
            variant=variant,
            continuity=continuity,
            end=end,
            always_encrypted=always_encrypted,
            empty_completed_output=empty_completed_output,
            rotate_ids=rotate_ids,
            chunk_bytes=chunk_bytes,
            delay_s=delay_s,
            quirks=quirks,
        )
        self.received: list[Received] = []
        self.ledger = Ledger()
        self._sealer = Sealer(seed)
        self._mint = Mint(seed)
        self._clock = clock

    @override
    def add_routes(self, router: web.UrlDispatcher) -> None:
        for method, path, handler in (
            (hdrs.METH_GET, "/v1/responses", self._connect),
            (hdrs.METH_POST, "/v1/responses", self._create),
            (hdrs.METH_POST, "/v1/responses/input_tokens", self._count),
            (hdrs.METH_GET, "/v1/responses/{id}", self._retrieve),
            (hdrs.METH_DELETE, "/v1/responses/{id}", self._delete),
            (hdrs.METH_GET, "/v1/models", self._models),
            (hdrs.METH_POST, "/v1/embeddings", self._embed),
            (hdrs.METH_POST, "/v1/files", self._upload),
            (hdrs.METH_ANY, "/v1/responses", self._wrong_method),
            (hdrs.METH_ANY, "/{elsewhere:.*}", self._unknown_route),
        ):
            router.add_route(method, path, self._served(handler))

    def _served(self, handler: _Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Wrap a handler: record the request, send a queued refusal or identify the caller."""

        async def serve(request: web.Request) -> web.StreamResponse:
            exchange = await Exchange.take_in(request, f"req_{self._mint.digits(32)}")
            self._note(exchange.received)
            if self._refusals:
                return exchange.refuse(self._refusals.popleft())
            try:
                return await handler(exchange, self._account_of(exchange.caller))
            except RefusedError as error:
                return exchange.refuse(error.refusal)

        return serve

    # Responses...

    async def _create(self, exchange: Exchange, caller: str) -> web.StreamResponse:
        body = exchange.read_body()
        behaviour = self.behaviour
        try:
            view = self._answer(body, caller)
        except RefusedError as error:
            form = behaviour.quirks.refuses_by
            if not body.stream or form == "status":
                raise
            events = tell_refusal(error.refusal, self._failed(body, error.refusal), form)
            return await self._tell(exchange, map(frame, events))
        if body.stream:
            obfuscates = body.stream_options is None or body.stream_options.include_obfuscation
            events = tell(view.turn.answer, view.telling(behaviour, obfuscates=obfuscates))
            frames = [frame(event) for event in events]
            return await self._tell(exchange, frames)
        answer = view.answer()
        if body.background:
            answer = msgspec.structs.replace(
                answer, status="queued", completed_at=None, output=(), usage=None
            )
        return exchange.answer(answer)

    def _answer(self, body: Body, caller: str, cached: Container[str] = ()) -> View:
        """
        Judge a request, and build its response.

        Args:
            body: The request.
            caller: The caller of the request.
            cached: Responses that it may continue although they are not stored.

        Raises:
            RefusedError: The request is refused.
        """
        behaviour = self.behaviour
        verdict = self._judge(body, caller, cached)
        if verdict.refusal is not None:
            raise RefusedError(verdict.refusal)
        turn = respond(body, verdict, Issue(caller, self._mint, self._now_s()), behaviour)
        self.ledger.record(turn)
        return View(
            turn=turn,
            sealer=self._sealer,
            encrypted=(behaviour.always_encrypted or body.wants_ciphertext)
            and behaviour.quirks.takes_blobs
            and not behaviour.quirks.thinks_aloud,
            rotate_ids=behaviour.rotate_ids,
        )

    async def _connect(self, exchange: Exchange, caller: str) -> web.StreamResponse:
        """Serve a WebSocket; a GET without an upgrade is the wrong method."""
        if "websocket" not in exchange.request.headers.get(hdrs.UPGRADE, "").lower():
            return await self._wrong_method(exchange, caller)

        def answer(body: Body, cached: Container[str]) -> View:
            if self._refusals:
                raise RefusedError(self._refusals.popleft())
            return self._answer(body, caller, cached)

        socket = Socket(exchange, answer, lambda: self.behaviour, self._note)
        return await socket.serve()

    def _note(self, received: Received) -> None:
        self.received.append(received)
        del self.received[:-RECEIVED_KEPT]

    async def _count(self, exchange: Exchange, caller: str) -> web.Response:
        body = exchange.read_body()
        verdict = self._judge(body, caller)
        if verdict.refusal is not None:
            raise RefusedError(verdict.refusal)
        return exchange.answer(
            {"object": "response.input_tokens", "input_tokens": estimate_tokens(body)}
        )

    async def _retrieve(self, exchange: Exchange, caller: str) -> web.StreamResponse:
        asked = {
            *exchange.request.query.getall("include", ()),
            *exchange.request.query.getall("include[]", ()),
        }
        if "reasoning.encrypted_content" in asked:
            raise RefusedError(refusals.ciphertext_not_kept())
        turn = self.ledger.maybe_stored_turn(exchange.request.match_info["id"], caller)
        if turn is None:
            raise RefusedError(refusals.unknown_response(exchange.request.match_info["id"]))
        view = View(turn=turn, sealer=self._sealer, encrypted=False)
        if exchange.request.query.get("stream") != "true":
            return exchange.answer(view.answer())
        after = _number(exchange.request.query.get("starting_after", "-1"))
        events = tell(turn.answer, view.telling(self.behaviour, obfuscates=True))
        frames = [frame(event) for event in events if event.sequence_number > after]
        return await self._tell(exchange, frames)

    async def _delete(self, exchange: Exchange, caller: str) -> web.Response:
        response_id = exchange.request.match_info["id"]
        if not self.ledger.delete(response_id, caller):
            raise RefusedError(refusals.unknown_response(response_id))
        return exchange.answer({"object": "response", "id": response_id, "deleted": True})

    def _judge(self, body: Body, caller: str, cached: Container[str] = ()) -> Verdict:
        behaviour = self.behaviour
        return judge(
            body,
            caller,
            self.ledger,
            self._sealer,
            behaviour.continuity,
            behaviour.quirks,
            cached,
        )

    def _failed(self, body: Body, refusal: Refusal) -> Answer:
        """Return the failed response to a request that is refused after a 200."""
        now_s = self._now_s()
        return Answer(
            id=Ids(self._mint, self._mint.digits(LINEAGE_DIGITS), now_s).item("resp"),
            created_at=now_s,
            status="failed",
            error=AnswerError(refusal.code or refusal.type, refusal.message),
            model=body.model,
            reasoning=body.reasoning or ReasoningOptions(),
            store=body.stores,
        )

    async def _tell(self, exchange: Exchange, frames: Iterable[bytes]) -> web.StreamResponse:
        chunk_bytes, delay_s = self.behaviour.chunk_bytes, self.behaviour.delay_s
        return await exchange.stream(frames, chunk_bytes=chunk_bytes, delay_s=delay_s)

    # Other endpoints...

    async def _models(self, exchange: Exchange, _caller: str) -> web.Response:
        return exchange.answer(neighbours.models())

    async def _embed(self, exchange: Exchange, _caller: str) -> web.Response:
        return exchange.answer(neighbours.embed(exchange.read_json(neighbours.EmbeddingRequest)))

    async def _upload(self, exchange: Exchange, _caller: str) -> web.Response:
        boundary = (
            exchange.request.headers.get(hdrs.CONTENT_TYPE, "").partition("boundary=")[2].strip('"')
        )
        body = exchange.received.body
        found = neighbours.maybe_file(body, boundary, self._now_s()) if boundary else None
        if found is None:
            raise RefusedError(refusals.missing_parameter("file"))
        return exchange.answer(found)

    async def _wrong_method(self, exchange: Exchange, _caller: str) -> web.Response:
        return exchange.refuse(refusals.wrong_method(exchange.request.method))

    async def _unknown_route(self, exchange: Exchange, _caller: str) -> web.Response:
        request = exchange.request
        return exchange.refuse(refusals.unknown_route(request.method, request.path))

    def _account_of(self, caller: str) -> str:
        """Return the owner of items and blobs: the caller, at the account that responds."""
        account = self.behaviour.quirks.account
        return f"{account}/{caller}" if account else caller

    def _now_s(self) -> int:
        return int(self._clock())


def _number(text: str) -> int:
    """
    Read a number from a query.

    Raises:
        RefusedError: The text is not a number.
    """
    try:
        return int(text)
    except ValueError as error:
        raise RefusedError(refusals.unreadable_body(f"starting_after: {text!r}")) from error
