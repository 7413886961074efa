"""Checks of the web layer without sockets: no error is raised, nothing reaches other tenants."""

import asyncio
import io
from collections.abc import Callable
from contextlib import nullcontext

from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache
from reasoning_replay.adapters.resilience.safe_store import SafeStore
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.diagnosis import diagnose
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import PROFILES
from reasoning_replay.core.dialects.responses.socket_messages import may_be_request, read_message
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.tenancy.scope import Scoping
from reasoning_replay.core.wire.content_coding import decoder_for, is_encoded
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.pipeline.capture_tee import CaptureTee
from reasoning_replay.web.pipeline.replay import Replay, ReplaySettings
from reasoning_replay.web.websocket.session import ResponseStreams

from tests.fuzz.inputs import cut, read

__all__ = ["replay", "response_streams"]

MAX_BYTES = 1 << 20
METRICS = Metrics()  # hundreds of them, none of which matters here


class _Web:
    """One proxy without its sockets: a memory store, its guard, and the pipeline of an exchange."""

    def __init__(self, profile: str, *, is_shadow: bool) -> None:
        self.log = Log("error", "json", io.StringIO())
        self.now = 0.0
        self.clock: Callable[[], float] = lambda: self.now
        self.account = ExchangeRecorder(METRICS, self.log, self.clock)
        bounds = Bounds(ttl_s=60, max_turns=50, max_bytes=MAX_BYTES)
        store = MemoryStore(bounds, MAX_BYTES, self.clock)
        settings = ReplaySettings(
            scoping=Scoping("http://upstream", "secret"),
            is_shadow=is_shadow,
            heals=True,
            store_budget_s=10.0,
        )
        dialect = ResponsesDialect(PROFILES[profile], repairs=frozenset(Repair))
        engine = Engine(dialect, self.clock, nullcontext(), MAX_BYTES, is_shadow=is_shadow)
        metrics = self.account.metrics
        offloader = Offloader()
        guard = StoreGuard(10.0, metrics, self.log, self.clock)
        safe = SafeStore(store, guard, ConversationCache(MAX_BYTES, metrics), offloader)
        self.replay = Replay(settings, engine, safe, lambda: int(self.now), offloader)

    def exchange(self, key: str) -> Exchange:
        exchange = Exchange(Route.RESPONSES, Times(self.now))
        self.replay.identify(exchange, {"authorization": f"Bearer {key}"})
        return exchange

    def reader(self, exchange: Exchange, coding: str, *, is_stream: bool) -> CaptureTee | None:
        if exchange.answer.capture is None:
            return None
        return CaptureTee(
            replay=self.replay,
            exchange=exchange,
            capture=exchange.answer.capture,
            decoder=decoder_for(coding, MAX_BYTES),
            max_bytes=MAX_BYTES,
            left=None,
            is_stream=is_stream,
            is_encoded=is_encoded(coding),
            log=self.log,
            lease=exchange.lease,
        )


async def _replay(data: bytes) -> None:
    given = read(data)
    dice = given.dice
    web = _Web(dice.choice(sorted(PROFILES)), is_shadow=dice.random() < 0.1)
    coding = dice.choice(("", "", "", "gzip", "br"))
    reader: CaptureTee | None = None
    for n, said in enumerate(given.documents):
        web.now += 1.0
        if n % 2:
            if reader is not None:
                for chunk in cut(dice, said):
                    if not reader.take(chunk):
                        await reader.settle()
                await reader.close()
            continue
        exchange = web.exchange("ours")
        bodies = await web.replay.prepare(exchange, said, {})
        assert not (web.replay.is_shadow and bodies.is_edited)
        stranger = web.exchange("theirs")
        theirs = await web.replay.prepare(stranger, said, {})
        assert not stranger.request.outcomes.get(Outcome.INJECTED)
        assert b"gAAAA" in said or b"gAAAA" not in theirs.sent
        reader = web.reader(exchange, coding, is_stream=b"data:" in said)
        try:
            cured = await web.replay.cure(exchange, bodies, diagnose(400, said))
        except Unspliceable:
            continue
        assert cured is None or cured.body != bodies.sent


def replay(data: bytes) -> None:
    """Check that no input raises an error, and that no reasoning reaches another tenant."""
    asyncio.run(_replay(data))


async def _response_streams(data: bytes) -> None:
    given = read(data)
    web = _Web(given.dice.choice(sorted(PROFILES)), is_shadow=False)
    resent: list[bytes] = []

    async def resend(message: bytes) -> None:
        resent.append(message)

    headers = {"authorization": "Bearer ours"}
    streams = ResponseStreams(web.replay, web.account, headers, MAX_BYTES, resend)
    held: list[bytes] = []
    holds = 0
    for text in given.documents:
        web.now += 1.0
        if may_be_request(text):
            going = await streams.prepare(text)
            message = read_message(text)
            is_create = message is not None and message.kind == "response.create"
            assert going == text or is_create
        else:
            coming = await streams.capture(text)
            if coming is None:
                held.append(text)
                holds += 1
                assert holds == len(resent), "a refusal is held without a retry"
            elif coming != text:
                held.remove(coming)  # the held refusal replaces the response to the retry
    left = streams.close("ok")
    for one in held:  # a refusal is dropped when the retry has a response
        if one in left:
            left.remove(one)
    assert not left
    assert streams.idle.is_set()


def response_streams(data: bytes) -> None:
    """Check that any messages on the two sides of a WebSocket are followed, or forwarded as is."""
    asyncio.run(_response_streams(data))
