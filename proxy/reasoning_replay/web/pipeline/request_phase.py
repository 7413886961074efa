"""Request phase: reads a request as far as replay needs it, and builds the upstream request."""

from dataclasses import dataclass
from time import monotonic

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.upstream.client import Body
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.dialects.foreign_keys import ForeignKeys
from reasoning_replay.core.dialects.registry import REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import RequestState, Route
from reasoning_replay.web.errors import FOREIGN_KEY, ProxyError, amount
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.replay import Replay, Replays
from reasoning_replay.web.pipeline.request_body import NotDecoded, decode_body
from reasoning_replay.web.pipeline.upstream_request import UpstreamAddress, UpstreamRequest


@dataclass(frozen=True, slots=True)
class RequestPhase:
    """
    Preparation of requests for one upstream: read -> decode -> replay -> address.

    Attributes:
        address: Address of the upstream.
        replays: Capture and inject, by route; empty if the mode is off.
        inspect_max_bytes: Largest body that is inspected, as received and decoded.
        exchange_log: Records a step that fails.
        foreign_keys: Requests with such a key are refused; None: they are forwarded.
    """

    address: UpstreamAddress
    replays: Replays
    inspect_max_bytes: int
    exchange_log: ExchangeLog
    foreign_keys: ForeignKeys | None = None

    async def prepare(self, exchange: Exchange, client: ClientRequest) -> UpstreamRequest:
        """
        Return the request to send to the upstream.

        Raises:
            ProxyError: The request cannot be forwarded.
        """
        began_s = monotonic()
        client.check()
        self._refuse_foreign_key(client)
        replay = self.replays.get(client.route)
        body: Body = client.body.rest() if client.http.body_exists else None
        bodies: Bodies | None = None
        try:
            if replay is None:
                if not self.replays:
                    exchange.request.state = RequestState.OFF
            elif client.route is Route.RETRIEVE:
                with self._fail_open(exchange):
                    replay.identify(exchange, client.http.headers)
                    await replay.prepare_retrieval(exchange, client.path)
            elif client.route in REPLAYED_ROUTES:
                is_identified = False
                with self._fail_open(exchange):
                    replay.identify(exchange, client.identifying_headers)
                    is_identified = True
                whole = await client.body.whole(self.inspect_max_bytes)
                began_s = monotonic()  # the time before is the client's upload
                if whole is None:
                    exchange.request.state = client.body.why
                    if client.body.why == RequestState.TOO_LARGE:
                        exchange.request.note_too_large(
                            client.body.known_size, self.inspect_max_bytes
                        )
                    body = client.body.rest()
                else:
                    body, bodies = whole, Bodies(whole, whole)
                    if is_identified:
                        bodies = await self._replayed(replay, exchange, client, whole)
            is_captured = exchange.response.capture is not None
            return self.address.request(
                # Shadow mode changes no request: an encoded response is decoded for its capture.
                client,
                body,
                bodies,
                is_captured=is_captured and replay is not None and not replay.is_shadow,
            )
        finally:
            exchange.times.before_ms = (monotonic() - began_s) * 1000

    def _refuse_foreign_key(self, client: ClientRequest) -> None:
        if self.foreign_keys is not None:
            issuer = self.foreign_keys.issuer_of(client.http.headers)
            if issuer:
                raise ProxyError(FOREIGN_KEY.filled(issuer=issuer, upstream=self.address.origin))

    async def _replayed(
        self, replay: Replay, exchange: Exchange, client: ClientRequest, whole: bytes
    ) -> Bodies:
        """Return a body as received, and as it is sent."""
        plain = whole
        with self._fail_open(exchange):
            try:
                if exchange.scope is not None:  # without a scope, the body is not read
                    plain = await decode_body(
                        whole,
                        client.content_coding,
                        self.inspect_max_bytes,
                        exchange.lease,
                        replay.offloader,
                    )
                headers = client.http.headers
                bodies = await replay.prepare(exchange, plain, headers, client.path)
            except NotDecoded as reason:
                exchange.request.state = reason.state
                if reason.is_over_limit:
                    size = f"{amount(len(whole))} encoded and more decoded"
                    exchange.request.note_too_large(size, self.inspect_max_bytes)
            else:
                if bodies.is_edited and plain is not whole:
                    exchange.lease.release(len(whole))
                return bodies
        return Bodies(whole, whole)

    def _fail_open(self, exchange: Exchange) -> FailOpen:
        """Return the context of a step without which the request is forwarded unchanged."""
        return self.exchange_log.fail_open("replay_failed", exchange, exchange.note_unread)
