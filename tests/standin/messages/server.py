"""
Stand-in server for Anthropic Messages: one mode on a socket, judged by rules.py.

`behaviour` sets the loop, and the faults that a test needs. `reads` holds what the prompt cache
knew of each accepted request.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from aiohttp import web
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import Reading, Refused, canonical, sse
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.messages import Messages, blocks_of, is_reasoning
from reasoning_replay.strict_api.scenarios import tokens_of
from typing_extensions import override

from tests.standin.judging import Behaviour, JudgingServer, of_model
from tests.standin.messages.binding import Bound, bound_to
from tests.standin.messages.model import cue, perform
from tests.standin.messages.modes import MODES, ModeName
from tests.standin.messages.rules import OVERLOADED, deepseek, signatures
from tests.standin.script import Source

__all__ = ["MessagesStandIn"]

OVERLOADED_STATUS = 529
COUNT = "messages/count_tokens"
# The value of `anthropic-beta` that allows a request to have blocks left out.
DROPS_BLOCKS = "thinking-binding-controls-2026-08-01"


class Read(NamedTuple):
    """Estimated tokens of one request, and how many of them were read from the cache."""

    tokens: int
    cached: int


class MessagesStandIn(JudgingServer, Messages):
    """
    A strict stand-in for one mode of Anthropic Messages, serving while its context is open.

    Args:
        mode: The mode.
        behaviour: Attributes of Behaviour, kept as `behaviour`.

    Attributes:
        reads: The tokens of each accepted request that is no count, oldest first.
    """

    routes = ("messages", COUNT)
    behaviour: Behaviour

    def __init__(self, mode: ModeName = "manual", **behaviour: Any) -> None:
        self.mode = MODES[mode]
        self.behaviour = Behaviour(**behaviour)
        self.reads: list[Read] = []
        super().__init__(self.mode.path, self.mode.profile)
        self._bound: dict[str, Bound] = {}  # by signature
        self._left_out: list[Item] = []

    @override
    def thinks(self, body: Item) -> bool:
        kind = (body.get("thinking") or {}).get("type")
        return self.mode.thinks_unasked if kind is None else kind != "disabled"

    @override
    def read(self, body: Item) -> Reading:
        frame, messages, parts = super().read(body)
        model = body.get("model")
        frame = canonical([model, frame])
        return Reading(frame, messages, [of_model(model, part) for part in parts])

    @override
    def rules(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        self._left_out = []
        if not self.mode.is_signed:
            yield from deepseek(body, reading.items, judgement, thinks=self.thinks(body))
            return
        if self.thinks(body):
            binding = (body.get("thinking") or {}).get("block_binding") or {}
            is_asked = binding.get("prefix_mismatch_behavior") == "drop_block"
            betas = self.exchange.request.headers.get("anthropic-beta", "")
            whole = {**body, "messages": reading.items}
            known = self.caller, self._bound, self._left_out
            drops = is_asked and DROPS_BLOCKS in betas
            yield from signatures(self.mode, whole, *known, drops=drops)
        yield from Messages.refusals(self, body, reading, judgement)

    @override
    def signatures(self, reading: Reading) -> Iterator[Refused]:
        return iter(())  # rules() has looked at them

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        if self.exchange.request.path.endswith(COUNT):
            return {"input_tokens": judgement.tokens}, []
        behaviour = self.behaviour
        source = Source(self.next_seed())
        read_body = _without({one["path"] for one in self._left_out}, body, reading.items)
        blocks = self._blocks(read_body, source)
        if behaviour.end == "length":
            blocks = _cut_short(blocks)
        self.reads.append(Read(judgement.tokens, judgement.cached))
        calls = any(block["type"] == "tool_use" for block in blocks)
        reason = "tool_use" if calls else "end_turn"
        answer = {
            "id": f"msg_01{source.digits('id', 22)}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": blocks,
            "stop_reason": "max_tokens" if behaviour.end == "length" else reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": judgement.tokens - judgement.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": judgement.cached,
                "output_tokens": tokens_of(blocks),
            },
        }
        if self._left_out:
            answer["input_transformations"] = self._left_out
        if behaviour.end == "error":
            return answer, []
        _, _, said = self.read({**body, "messages": [answer]})
        return answer, said

    def _blocks(self, body: Item, source: Source) -> list[Item]:
        """Return the blocks of the next response, with the reasoning bound to its place."""
        mode = self.mode
        facts = cue(body, thinks=self.thinks(body))
        shows = mode.shows_text or (body.get("thinking") or {}).get("display") == "summarized"
        made = 0

        def think(sign: str, before: list[Item]) -> Item:
            nonlocal made
            made += 1
            text = f"{source.thought(facts.topic)} ({made})" if shows and sign == "R" else ""
            if not mode.is_signed:
                return {"type": "thinking", "thinking": text or f"Note {made}."}
            signature = source.signature(f"thought {made}")
            block = {"type": "thinking", "thinking": text, "signature": signature}
            if sign == "X":
                block = {"type": "redacted_thinking", "data": signature}
            history = [*body["messages"], {"role": "assistant", "content": [*before, block]}]
            *_, own = bound_to({**body, "messages": history}, self.caller)
            self._bound[signature] = own[len(before)]
            return block

        return perform(facts, source, think, self.behaviour, mode.ids)

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        """Yield the events with pings between them; after an error, the end is missing."""
        for frame in super().events(answer):
            if self.behaviour.end == "error" and frame.startswith(b"event: message_delta\n"):
                yield sse(OVERLOADED)
                return
            yield frame
            if frame.startswith((b"event: message_start\n", b"event: content_block_stop\n")):
                yield sse({"type": "ping"})

    @override
    def written(self, value: object) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    @override
    def whole(self, answer: Item) -> web.StreamResponse:
        if self.behaviour.end == "error":
            return self.exchange.answer_bytes(self.written(OVERLOADED), OVERLOADED_STATUS)
        return super().whole(answer)


def _without(paths: set[str], body: Item, messages: list[Item]) -> Item:
    """Return a request without the blocks at these paths, which the model does not see."""
    kept = [
        {
            **message,
            "content": [
                block
                for at, block in enumerate(blocks_of(message))
                if f"messages.{index}.content.{at}" not in paths
            ],
        }
        for index, message in enumerate(messages)
    ]
    return {**body, "messages": kept if paths else messages}


def _cut_short(blocks: list[Item]) -> list[Item]:
    """Leave out the last block that is not reasoning, and all after it, as a token limit does."""
    last = max(at for at, block in enumerate(blocks) if not is_reasoning(block))
    half = blocks[last]
    if half["type"] != "text":
        return blocks[:last]
    return [*blocks[:last], {**half, "text": half["text"][: len(half["text"]) // 2]}]
