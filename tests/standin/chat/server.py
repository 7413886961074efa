"""
Stand-in server for Chat Completions: one family on a socket, judged by rules.py.

Loopback only, one port, everything in memory. `judged` holds the verdict on each request that
arrived; `behaviour` sets the loop, and the faults that a test needs.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec
from aiohttp import web
from msgspec import Struct

from tests.standin.chat.answers import answer, cut_short, due, head_of, message, written
from tests.standin.chat.behaviour import Behaviour, Options
from tests.standin.chat.deltas import Cutting, stream
from tests.standin.chat.families import FAMILIES, Family, FamilyName
from tests.standin.chat.judging import Finding, State, judge
from tests.standin.chat.ledger import Ledger
from tests.standin.chat.messages import places
from tests.standin.chat.model import Source, cue, perform
from tests.standin.chat.refusals import ChatRefusal, unreadable
from tests.standin.chat.rules import refusal
from tests.standin.exchange import BODY_BYTES_MAX, Exchange, Received, RefusedError

__all__ = ["ChatStandIn", "Judged"]

HOST = "127.0.0.1"
JUDGED_KEPT = 2_000
BLANK_LINES = b"\n         \n\n         \n"
CHOICES_MAX = 8
_BYTES_PER_TOKEN = 4


class Judged(Struct, frozen=True, kw_only=True):
    """
    One request: as it arrived, what was found in it, and whether it was refused.

    Attributes:
        received: The request and its status.
        messages: Its messages.
        findings: See judging.py.
        refusal: None if it was accepted.
    """

    received: Received
    messages: list[dict[str, Any]]
    findings: list[Finding]
    refusal: ChatRefusal | None

    def count(self, state: State) -> int:
        """Return how many findings have a state."""
        return sum(one.state == state for one in self.findings)


class ChatStandIn:
    """
    A strict stand-in for one vendor's Chat Completions, serving while its context is open.

    Args:
        family: The vendor, by name or as data.
        options: Attributes of Behaviour, kept as `behaviour`; a test may change it at any time.
        port: TCP port; 0 takes a free one.
        seed: Makes thoughts, signatures and ids repeatable.
        clock: Returns unix time in seconds.

    Attributes:
        judged: The last 2,000 requests, oldest first.
        ledger: What was emitted.

    Raises:
        OSError: On entering, if the port is in use.
    """

    def __init__(
        self,
        family: FamilyName | Family = "deepseek",
        *,
        port: int = 0,
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
        **options: Unpack[Options],
    ) -> None:
        self.family = FAMILIES[family] if isinstance(family, str) else family
        self.behaviour = Behaviour(**options)
        self.judged: list[Judged] = []
        self.ledger = Ledger()
        self._seed = seed or secrets.token_bytes(16)
        self._clock = clock
        self._port = port
        self._served = 0
        self._refusals: deque[ChatRefusal] = deque()
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """The base URL for a client, with the path of this vendor."""
        return f"http://{HOST}:{self._port}{self.family.path}"

    @property
    def received(self) -> list[Received]:
        """The requests as they arrived."""
        return [one.received for one in self.judged]

    def found(self, *states: State) -> list[tuple[int, Finding]]:
        """Return the findings of some states, with the number of their request."""
        return [
            (number, finding)
            for number, one in enumerate(self.judged)
            for finding in one.findings
            if finding.state in states
        ]

    def refuse_next(self, refused: ChatRefusal) -> None:
        """Answer the next request with this refusal, whatever it is; several calls queue up."""
        self._refusals.append(refused)

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_post(r"/{prefix:.*}chat/completions", self.serve)
        # Bodies keep their content encoding: `received` must show the bytes that the proxy sent.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            auto_decompress=False,
            handler_cancellation=True,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Judge one request and answer it; may be a route of another server."""
        self._served += 1
        exchange = await Exchange.take_in(request, f"req_{self._served}")
        try:
            caller = exchange.caller
            body = exchange.read_json(dict[str, Any])
        except RefusedError as error:
            return exchange.refuse(error.refusal)
        if detail := _maybe_fault(body):
            return self._refuse(exchange, unreadable(detail))
        judged = self._judge(exchange.received, body, caller)
        self.judged.append(judged)
        del self.judged[:-JUDGED_KEPT]
        if judged.refusal is not None:
            return self._refuse(exchange, judged.refusal, streams=bool(body.get("stream")))
        return await self._answer(exchange, body, caller)

    def _judge(self, received: Received, body: Mapping[str, Any], caller: str) -> Judged:
        messages: list[dict[str, Any]] = body["messages"]
        findings = judge(caller, str(body.get("model")), messages, self.ledger)
        rounds = self.behaviour.all_rounds
        refused = refusal(self.family, body, findings, all_rounds=rounds)
        if self._refusals:
            refused = self._refusals.popleft()
        return Judged(received=received, messages=messages, findings=findings, refusal=refused)

    async def _answer(
        self, exchange: Exchange, body: Mapping[str, Any], caller: str
    ) -> web.StreamResponse:
        behaviour, family = self.behaviour, self.family
        if behaviour.halves:  # half of a character can only be written as an escape
            family = msgspec.structs.replace(family, spelling="ascii")
        model = str(body.get("model"))
        *_, place = places(caller, body["messages"])
        made = []
        for number in range(min(int(body.get("n") or 1), CHOICES_MAX)):
            source = Source(self._seed, place, self.ledger.attempt(place))
            turn = perform(
                behaviour.loop if not number else "text",
                cue(body),
                family,
                source,
                ids=behaviour.ids or family.ids,
                repeats=behaviour.repeats,
            )
            if behaviour.end == "length":
                turn = cut_short(turn)
            made.append(message(family, model, turn))
            if behaviour.end in {"complete", "length"}:
                self.ledger.record(due(family, model, caller, place, made[-1]))
        usage = _usage(exchange.received.body, made)
        head = head_of(model, source, int(self._clock()), usage)
        is_cut = behaviour.end == "cut"
        if not body.get("stream"):
            whole = written(family, answer(family, head, made, behaviour.end))
            if is_cut:
                return await exchange.answer_half(whole)
            return exchange.answer_bytes(BLANK_LINES * family.blank_lines + whole)
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        cutting = Cutting(
            call_index=behaviour.call_index or family.call_index,
            halves=behaviour.halves,
            usage=wants_usage,
        )
        frames = list(stream(family, head, made, behaviour.end, cutting))
        return await exchange.stream(
            frames[: len(frames) // 2] if is_cut else frames,
            chunk_bytes=behaviour.chunk_bytes,
            delay_s=behaviour.delay_s,
            cut=is_cut,
        )

    def _refuse(
        self, exchange: Exchange, refused: ChatRefusal, *, streams: bool = False
    ) -> web.StreamResponse:
        """Send a refusal; one with status 200 is an event if the request asked for a stream."""
        raw = written(self.family, refused.body)
        if refused.status == web.HTTPOk.status_code and streams:
            response = web.Response(
                body=b"data: " + raw + b"\n\n", content_type="text/event-stream"
            )
            exchange.received.status = response.status
            return response
        return exchange.answer_bytes(raw, refused.status)


def _maybe_fault(body: Mapping[str, Any]) -> str:
    """Return why a body is no request; "" if it is one."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages is missing or empty"
    if not all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages):
        return "each message needs a role"
    return ""


def _usage(body: bytes, made: list[dict[str, Any]]) -> Mapping[str, int]:
    """Return estimates: numbers that grow with the request, nothing more exact."""
    asked, said = len(body) // _BYTES_PER_TOKEN, sum(len(str(one)) for one in made)
    return {
        "prompt_tokens": asked,
        "completion_tokens": said // _BYTES_PER_TOKEN,
        "total_tokens": asked + said // _BYTES_PER_TOKEN,
    }
