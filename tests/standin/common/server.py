"""
Judging server: one stateless API on a socket, which judges each request by what it has emitted.

Loopback only, one port, everything in memory. Which requests are refused, and how they are
answered, is left to the API.
"""

import json
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from aiohttp import web
from msgspec import Struct
from typing_extensions import override

from tests.standin.common.judging import Finding, Reading, State, judge
from tests.standin.common.ledger import Ledger
from tests.standin.common.loopback import Loopback
from tests.standin.exchange import Exchange, Received, RefusedError

__all__ = ["BYTES_PER_TOKEN", "ApiRefusal", "Judged", "JudgingServer", "Ruling"]

JUDGED_KEPT = 2_000
BYTES_PER_TOKEN = 4


class ApiRefusal(Struct, frozen=True):
    """
    An error response.

    Attributes:
        status: The HTTP status. 200 is possible: the error is then in the body alone.
        body: Decoded JSON: an object, or an array of one.
    """

    status: int
    body: Mapping[str, Any] | list[Mapping[str, Any]]

    @property
    def message(self) -> str:
        """The whole body as JSON, for tests that look for a text."""
        return json.dumps(self.body)


class Ruling(Struct, frozen=True):
    """The refusal of a request, if any, and the parts that are left out of an accepted one."""

    refusal: ApiRefusal | None
    left_out: tuple[Mapping[str, Any], ...] = ()


class Judged(Struct, frozen=True, kw_only=True):
    """
    One request: as it arrived, what was found in it, and whether it was refused.

    Attributes:
        received: The request and its status.
        messages: Its messages.
        findings: See judging.py.
        ruling: What became of it.
    """

    received: Received
    messages: list[dict[str, Any]]
    findings: list[Finding]
    ruling: Ruling

    @property
    def refusal(self) -> ApiRefusal | None:
        """Its refusal; None if it was accepted."""
        return self.ruling.refusal

    def count(self, state: State) -> int:
        """Return how many findings have a state."""
        return sum(one.state == state for one in self.findings)


class JudgingServer(Loopback[ApiRefusal]):
    """
    A strict API, serving while its context is open.

    Args:
        path: The path of its base URL.
        port: See Loopback.
        seed: Makes thoughts, signatures and ids repeatable.
        clock: Returns unix time in seconds.

    Attributes:
        profile: The profile of the proxy that fits; by its host, the stand-in would be unknown.
        judged: The last 2,000 requests, oldest first.
        ledger: What was emitted.
    """

    routes: ClassVar[tuple[str, ...]]
    reading: ClassVar[Reading]

    def __init__(
        self,
        path: str,
        *,
        profile: str,
        port: int = 0,
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(path, port)
        self.profile = profile
        self.judged: list[Judged] = []
        self.ledger = Ledger()
        self._seed = seed or secrets.token_bytes(16)
        self._clock = clock
        self._served = 0

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

    @override
    def add_routes(self, router: web.UrlDispatcher) -> None:
        for route in self.routes:
            router.add_post(r"/{prefix:.*}" + route, self.serve)

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
            return self.refuse(exchange, self.unreadable(detail))
        body = self.joined(body)
        messages: list[dict[str, Any]] = body["messages"]
        model = str(body.get("model"))
        findings = judge(self.reading, caller, model, messages, self.ledger)
        ruling = self.rule(exchange, body, caller, findings)
        if self._refusals:
            ruling = Ruling(self._refusals.popleft())
        received = exchange.received
        judged = Judged(received=received, messages=messages, findings=findings, ruling=ruling)
        self.judged.append(judged)
        del self.judged[:-JUDGED_KEPT]
        if ruling.refusal is not None:
            return self.refuse(exchange, ruling.refusal, streams=bool(body.get("stream")))
        return await self.answer(exchange, body, caller, ruling)

    def joined(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a request as the API reads it."""
        return body

    @abstractmethod
    def unreadable(self, detail: str) -> ApiRefusal:
        """Return the refusal of a body that is not a request."""

    @abstractmethod
    def rule(
        self, exchange: Exchange, body: Mapping[str, Any], caller: str, findings: list[Finding]
    ) -> Ruling:
        """Decide what becomes of a request."""

    @abstractmethod
    def refuse(
        self, exchange: Exchange, refused: ApiRefusal, *, streams: bool = False
    ) -> web.StreamResponse:
        """Send a refusal."""

    @abstractmethod
    async def answer(
        self, exchange: Exchange, body: Mapping[str, Any], caller: str, ruling: Ruling
    ) -> web.StreamResponse:
        """Answer a request that is accepted, and record what is emitted."""


def _maybe_fault(body: Mapping[str, Any]) -> str:
    """Return why a body is no request; "" if it is one."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages is missing or empty"
    if not all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages):
        return "each message needs a role"
    return ""
