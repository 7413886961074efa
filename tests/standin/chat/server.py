"""
Stand-in server for Chat Completions: one family on a socket, judged by rules.py.

`behaviour` sets the loop, and the faults that a test needs.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import msgspec
from aiohttp import web
from typing_extensions import override

from tests.standin.chat.answers import answer, cut_short, due, head_of, message, written
from tests.standin.chat.behaviour import Behaviour, Options
from tests.standin.chat.deltas import Cutting, stream
from tests.standin.chat.families import FAMILIES, Family, FamilyName
from tests.standin.chat.messages import CHAT, places
from tests.standin.chat.model import cue, perform
from tests.standin.chat.refusals import unreadable
from tests.standin.chat.rules import refusal
from tests.standin.common.judging import Finding
from tests.standin.common.script import Source
from tests.standin.common.server import BYTES_PER_TOKEN, ApiRefusal, JudgingServer, Ruling
from tests.standin.exchange import Exchange

__all__ = ["ChatStandIn"]

BLANK_LINES = b"\n         \n\n         \n"
CHOICES_MAX = 8


class ChatStandIn(JudgingServer):
    """
    A strict stand-in for one vendor's Chat Completions, serving while its context is open.

    Args:
        family: The vendor, by name or as data.
        options: Attributes of Behaviour, kept as `behaviour`; a test may change it at any time.

    The other arguments are those of JudgingServer.
    """

    routes = ("chat/completions",)
    reading = CHAT

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
        profile = self.family.profile or self.family.name
        super().__init__(self.family.path, profile=profile, port=port, seed=seed, clock=clock)

    @override
    def unreadable(self, detail: str) -> ApiRefusal:
        return unreadable(detail)

    @override
    def rule(
        self,
        exchange: Exchange,
        body: Mapping[str, Any],
        caller: str,
        findings: list[Finding],
    ) -> Ruling:
        return Ruling(refusal(self.family, body, findings))

    @override
    async def answer(
        self,
        exchange: Exchange,
        body: Mapping[str, Any],
        caller: str,
        ruling: Ruling,
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
        if not body.get("stream"):
            whole = written(family, answer(family, head, made, behaviour.end))
            return exchange.answer_bytes(BLANK_LINES * family.blank_lines + whole)
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        cutting = Cutting(
            call_index=behaviour.call_index or family.call_index,
            halves=behaviour.halves,
            usage=wants_usage,
        )
        frames = list(stream(family, head, made, behaviour.end, cutting))
        return await exchange.stream(
            frames,
            chunk_bytes=behaviour.chunk_bytes,
            delay_s=behaviour.delay_s,
        )

    @override
    def refuse(
        self, exchange: Exchange, refused: ApiRefusal, *, streams: bool = False
    ) -> web.StreamResponse:
        raw = written(self.family, refused.body)
        if refused.status == web.HTTPOk.status_code and streams:
            response = web.Response(
                body=b"data: " + raw + b"\n\n", content_type="text/event-stream"
            )
            exchange.received.status = response.status
            return response
        return exchange.answer_bytes(raw, refused.status)


def _usage(body: bytes, made: list[dict[str, Any]]) -> Mapping[str, int]:
    """Return estimates: numbers that grow with the request, nothing more exact."""
    asked, said = len(body) // BYTES_PER_TOKEN, sum(len(str(one)) for one in made)
    return {
        "prompt_tokens": asked,
        "completion_tokens": said // BYTES_PER_TOKEN,
        "total_tokens": asked + said // BYTES_PER_TOKEN,
    }
