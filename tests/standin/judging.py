"""
Judging server: the strict API of one dialect as tests need it, with one ledger for each caller.

It keeps each request as it arrived, with its judgement, and can refuse one for any reason. What a
vendor refuses, and how it answers, is left to the stand-ins for the vendors.
"""

import json
import re
import secrets
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from http import HTTPMethod, HTTPStatus
from typing import Any, ClassVar, Literal

from aiohttp import web
from msgspec import Struct
from reasoning_replay.strict_api import Item, Script, StrictApi
from reasoning_replay.strict_api.dialect import Dialect, Reading, Refused
from reasoning_replay.strict_api.ledger import Finding, Judgement, Ledger, Part, State
from reasoning_replay.strict_api.server import read_body
from typing_extensions import override

from tests.standin.exchange import BODY_BYTES_MAX, OPTIONS, Exchange, Received

__all__ = ["WRONG", "ApiRefusal", "Behaviour", "Judged", "JudgingServer", "index_of", "of_model"]

JUDGED_KEPT = 2_000
WRONG: tuple[State, ...] = ("damaged", "misplaced", "repeated", "foreign")
"""The states of reasoning that is not what was emitted there."""


class Behaviour(Struct, kw_only=True):
    """
    Behaviour of a stand-in; may be changed between two requests.

    Attributes:
        loop: The scripted agent loop, a name of its LOOPS.
        repeats: Whether the model says the same in every turn, so that only places differ.
        ids: The form of the ids of its calls; "" for that of its vendor.
        end: How a response ends: as it should, at a token limit, or with an error.
        chunk_bytes: Size of one write of the stream, in bytes; None writes event by event.
        delay_s: Pause after every event, 5 s at most.
    """

    loop: str = "one_call"
    repeats: bool = False
    ids: str = ""
    end: Literal["complete", "length", "error"] = "complete"
    chunk_bytes: int | None = None
    delay_s: float = 0.0


class ApiRefusal(Refused):
    """
    An error response in a form of its own.

    Args:
        status: The HTTP status. 200 is possible: the error is then in the body alone.
        body: Decoded JSON: an object, or an array of one.
    """

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(json.dumps(body), status)
        self.body = body


class Judged(Struct, frozen=True, kw_only=True):
    """One request: as it arrived, its messages, what was found in them, and its refusal, if any."""

    received: Received
    messages: list[Item]
    findings: Sequence[Finding]
    refusal: Refused | None


class JudgingServer(StrictApi, Dialect):
    """
    A strict API, serving while its context is open.

    Args:
        root: The path of its base URL.
        profile: The profile of the proxy that fits; by its host, the stand-in would be unknown.

    Attributes:
        judged: The last 2,000 requests, oldest first.
        received: The same, as they arrived.
        behaviour: What a test may change at any time.
    """

    options = OPTIONS
    routes: ClassVar[tuple[str, ...]]
    received: list[Received]
    behaviour: Behaviour

    def __init__(self, root: str, profile: str) -> None:
        StrictApi.__init__(self, self, root=root, body_max_bytes=BODY_BYTES_MAX)
        Dialect.__init__(self, Script())
        self.profile = profile
        self.judged: list[Judged] = []
        self.received = []
        self.exchange: Exchange  # the one that is served
        self.caller = ""
        self._seed = secrets.token_bytes(16)
        self._answered = 0
        self._ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)
        self._queue: deque[Refused] = deque()

    def found(self, *states: State) -> list[tuple[int, Finding]]:
        """Return the findings of some states, with the number of their request."""
        return [
            (number, finding)
            for number, one in enumerate(self.judged)
            for finding in one.findings
            if finding.state in states
        ]

    def refuse_next(self, refused: Refused) -> None:
        """Refuse the next request, whatever it is; several calls queue up."""
        self._queue.append(refused)

    @override
    async def respond(self, request: web.Request) -> web.StreamResponse:
        exchange = await Exchange.take_in(request)
        if request.method != HTTPMethod.POST or not request.path.endswith(self.routes):
            return exchange.answer({"error": {"message": "Not found"}}, HTTPStatus.NOT_FOUND)
        try:
            self.caller = exchange.caller
            exchange.read_json()
            body = read_body(exchange.plain_body(), self.history)
        except Refused as refused:
            return self._refused(exchange, refused, streams=False)
        self.exchange, self.ledger = exchange, self._ledgers[self.caller]
        outcome, answer = self.serve(body, "")
        judged = Judged(
            received=exchange.received,
            messages=self.read(body).items,
            findings=outcome.judgement.findings if outcome.judgement else (),
            refusal=outcome.refused,
        )
        self.judged.append(judged)
        self.received.append(exchange.received)
        del self.judged[:-JUDGED_KEPT], self.received[:-JUDGED_KEPT]
        if outcome.refused is not None:
            return self._refused(exchange, outcome.refused, streams=bool(body.get("stream")))
        if not body.get("stream"):
            return self.whole(answer)
        behaviour = self.behaviour
        return await exchange.stream(
            [*self.events(answer)], chunk_bytes=behaviour.chunk_bytes, delay_s=behaviour.delay_s
        )

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        if self._queue:
            yield self._queue.popleft()
        yield from self.rules(body, reading, judgement)

    @abstractmethod
    def rules(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        """Yield what the vendor refuses in a request; the first one counts."""

    @abstractmethod
    def written(self, value: object) -> bytes:
        """Return JSON in the spelling of the vendor."""

    def whole(self, answer: Item) -> web.StreamResponse:
        """Return the response to a request that is not streamed."""
        return self.exchange.answer_bytes(self.written(answer))

    def _refused(
        self, exchange: Exchange, refused: Refused, *, streams: bool
    ) -> web.StreamResponse:
        body = refused.body if isinstance(refused, ApiRefusal) else self.error(refused)
        raw = self.written(body)
        if refused.status == HTTPStatus.OK and streams:
            return exchange.answer_bytes(b"data: " + raw + b"\n\n", kind="text/event-stream")
        return exchange.answer_bytes(raw, refused.status)

    def next_seed(self) -> bytes:
        """Return a seed for an answer, unlike that of any other."""
        self._answered += 1
        return self._seed + self._answered.to_bytes(8, "big")


def index_of(finding: Finding) -> int:
    """Return the index of the message that a finding is about."""
    found = re.match(r"messages\D(\d+)", finding.path)
    assert found is not None
    return int(found[1])


def of_model(model: object, part: Part) -> Part:
    """Return a part; reasoning is that of one model, and no other one's."""
    is_reasoning = part.kind == "reasoning"
    return part._replace(value=f"{model}\n{part.value}") if is_reasoning else part
