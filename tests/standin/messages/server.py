"""
Stand-in server for Anthropic Messages: one mode on a socket, judged by rules.py.

`behaviour` sets the loop, and the faults that a test needs. `reads` holds what the prompt cache
knew of each accepted request.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from aiohttp import web
from typing_extensions import override

from tests.standin.common.judging import Finding
from tests.standin.common.ledger import Emission
from tests.standin.common.script import Source
from tests.standin.common.server import BYTES_PER_TOKEN, ApiRefusal, JudgingServer, Ruling
from tests.standin.exchange import Exchange
from tests.standin.messages.behaviour import Behaviour, Options
from tests.standin.messages.blocks import MESSAGES, Block, blocks_of, is_reasoning, joined, prefixes
from tests.standin.messages.caching import PromptCache, Read
from tests.standin.messages.events import stream
from tests.standin.messages.model import cue, perform
from tests.standin.messages.modes import MODES, Mode, ModeName
from tests.standin.messages.refusals import OVERLOADED, unreadable
from tests.standin.messages.rules import Case, judged
from tests.standin.messages.seals import Sealed, Sealer

__all__ = ["MessagesStandIn"]

OVERLOADED_STATUS = 529
COUNT = "messages/count_tokens"


class MessagesStandIn(JudgingServer):
    """
    A strict stand-in for one mode of Anthropic Messages, serving while its context is open.

    Args:
        mode: The mode, by name or as data.
        options: Attributes of Behaviour, kept as `behaviour`; a test may change it at any time.

    The other arguments are those of JudgingServer.

    Attributes:
        reads: The tokens of each accepted request that is no count, oldest first.
    """

    routes = ("messages", COUNT)
    reading = MESSAGES

    def __init__(
        self,
        mode: ModeName | Mode = "manual",
        *,
        port: int = 0,
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
        **options: Unpack[Options],
    ) -> None:
        self.mode = MODES[mode] if isinstance(mode, str) else mode
        self.behaviour = Behaviour(**options)
        self.reads: list[Read] = []
        profile = self.mode.profile
        super().__init__(self.mode.path, profile=profile, port=port, seed=seed, clock=clock)
        self._sealer = Sealer(self._seed)
        self._cache = PromptCache()

    @override
    def joined(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "messages": joined(body["messages"])}

    @override
    def unreadable(self, detail: str) -> ApiRefusal:
        return unreadable(detail)

    @override
    def rule(
        self, exchange: Exchange, body: Mapping[str, Any], caller: str, findings: list[Finding]
    ) -> Ruling:
        messages = body["messages"]
        both = zip(messages, MESSAGES.places(caller, messages), strict=False)
        unknown = frozenset(
            index
            for index, (message, place) in enumerate(both)
            if not self.ledger.at(place, MESSAGES.visible(message))
        )
        case = Case(
            mode=self.mode,
            body=body,
            findings=findings,
            caller=caller,
            sealer=self._sealer,
            unknown=unknown,
            betas=exchange.request.headers.get("anthropic-beta", ""),
        )
        return judged(case)

    @override
    def refuse(
        self,
        exchange: Exchange,
        refused: ApiRefusal,
        *,
        streams: bool = False,
    ) -> web.StreamResponse:
        return exchange.answer_bytes(_written(refused.body), refused.status)

    @override
    async def answer(
        self, exchange: Exchange, body: Mapping[str, Any], caller: str, ruling: Ruling
    ) -> web.StreamResponse:
        if exchange.request.path.endswith(COUNT):
            tokens = PromptCache().read(caller, body).tokens
            return exchange.answer_bytes(_written({"input_tokens": tokens}))
        behaviour = self.behaviour
        *_, place = MESSAGES.places(caller, body["messages"])
        source = Source(self._seed, place, self.ledger.attempt(place))
        read_body = _without({one["path"] for one in ruling.left_out}, body)
        blocks = self._blocks(read_body, caller, source)
        if behaviour.end == "length":
            blocks = _cut_short(blocks)
        said = {"role": "assistant", "content": blocks}
        read = self._cache.read(caller, body)
        self.reads.append(read)
        if behaviour.end in {"complete", "length"}:
            self._record(body, caller, place, said)
        answer = self._answer(body, source, blocks, read)
        if ruling.left_out:
            answer["input_transformations"] = ruling.left_out
        if not body.get("stream"):
            if behaviour.end == "error":
                return exchange.answer_bytes(_written(OVERLOADED), OVERLOADED_STATUS)
            return exchange.answer_bytes(_written(answer))
        frames = list(stream(answer, behaviour.end))
        return await exchange.stream(
            frames,
            chunk_bytes=behaviour.chunk_bytes,
            delay_s=behaviour.delay_s,
        )

    def _blocks(self, body: Mapping[str, Any], caller: str, source: Source) -> list[Block]:
        """Return the blocks of the next response, with the reasoning bound to its place."""
        mode = self.mode
        facts = cue(body, thinks_unasked=mode.thinks_unasked)
        shows = mode.shows_text or (body.get("thinking") or {}).get("display") == "summarized"
        made = 0

        def think(sign: str, before: list[Block]) -> Block:
            nonlocal made
            made += 1
            text = f"{source.thought(facts.topic)} ({made})" if shows and sign == "R" else ""
            if not mode.is_signed:
                return {"type": "thinking", "thinking": text or f"Note {made}."}
            history = [*body["messages"], {"role": "assistant", "content": before}]
            *_, own, _ = prefixes({**body, "messages": history})
            sealed = Sealed(text, str(body.get("model")), caller, own[-1])
            signature = self._sealer.seal(source.digits(f"thought {made}", 32), sealed)
            if sign == "X":
                return {"type": "redacted_thinking", "data": signature}
            return {"type": "thinking", "thinking": text, "signature": signature}

        return perform(
            self.behaviour.loop,
            facts,
            source,
            think,
            ids=self.behaviour.ids or mode.ids,
            repeats=self.behaviour.repeats,
        )

    def _record(
        self, body: Mapping[str, Any], caller: str, place: str, said: Mapping[str, Any]
    ) -> None:
        reasoning = MESSAGES.reasoning_of(said)
        emission = Emission(
            caller=caller,
            model=str(body.get("model")),
            place=place,
            visible=MESSAGES.visible(said),
            reasoning=reasoning,
            due=frozenset(reasoning),
        )
        self.ledger.record(emission)
        self._cache.write(caller, body, said)

    def _answer(
        self, body: Mapping[str, Any], source: Source, blocks: list[Block], read: Read
    ) -> dict[str, Any]:
        calls = any(block["type"] == "tool_use" for block in blocks)
        reason = "tool_use" if calls else "end_turn"
        return {
            "id": f"msg_01{source.digits('id', 22)}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": blocks,
            "stop_reason": "max_tokens" if self.behaviour.end == "length" else reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": read.tokens - read.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": read.cached,
                "output_tokens": len(_written(blocks)) // BYTES_PER_TOKEN,
            },
        }


def _without(paths: set[str], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request without the blocks at these paths, which the model does not see."""
    messages = [
        {
            **message,
            "content": [
                block
                for at, block in enumerate(blocks_of(message))
                if f"messages.{index}.content.{at}" not in paths
            ],
        }
        for index, message in enumerate(body["messages"])
    ]
    return {**body, "messages": messages} if paths else body


def _cut_short(blocks: list[Block]) -> list[Block]:
    """Leave out the last block that is not reasoning, and all after it, as a token limit does."""
    last = max(at for at, block in enumerate(blocks) if not is_reasoning(block))
    half = blocks[last]
    if half["type"] != "text":
        return blocks[:last]
    return [*blocks[:last], {**half, "text": half["text"][: len(half["text"]) // 2]}]


def _written(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
