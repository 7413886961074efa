"""Anthropic Messages with a fault switch: one model of the strict API, with what tests set."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.binding import is_reasoning
from reasoning_replay.strict_api.dialect import Reading, Refused, sse
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.messages import Messages
from reasoning_replay.strict_api.scenarios import Script
from typing_extensions import override

from tests.strict.scripts import Marked, Repeating
from tests.strict.upstream import Api, Behaviour, Upstream

__all__ = ["LOOPS", "MODES", "MessagesBehaviour", "ModeName", "StrictMessages"]

ModeName = Literal["manual", "adaptive", "bound", "deepseek"]
OVERLOADED: Item = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "Overloaded"},
}
OVERLOADED_STATUS = 529
COUNT = "messages/count_tokens"
# The value of `anthropic-beta` that allows a request to have blocks left out.
DROPS_BLOCKS = "thinking-binding-controls-2026-08-01"
LOOPS: Mapping[str, tuple[str, ...]] = {
    "one_call": ("RC", "RA"),
    "parallel": ("RCC", "RA"),
    "chain": ("RC", "RC", "RA"),
    "gaps": ("RC", "C", "A"),
    "preamble": ("RTC", "RA"),
    "redacted": ("XC", "RXA"),
    "interleaved": ("RTRC", "RRC", "RA"),
    "ending": ("RCR", "RA"),
    "search": ("RWRTC", "RA"),
    "text": ("RA",),
    "plain": ("C", "A"),
}


class Mode(Struct, frozen=True):
    """
    A model, and how it thinks.

    Attributes:
        model: Its name.
        thinking: The member `thinking` of a request that switches it on.
        path: The path of its base URL.
        profile: The profile of the proxy that fits.
    """

    model: str
    thinking: Mapping[str, Any]
    path: str = "/v1"
    profile: str = "anthropic"


MODES: Mapping[ModeName, Mode] = {
    "manual": Mode("claude-sonnet-4-6", {"type": "enabled", "budget_tokens": 1024}),
    "adaptive": Mode("claude-sonnet-5", {"type": "adaptive"}),
    "bound": Mode("claude-fable-5-1", {"type": "adaptive"}),
    "deepseek": Mode("deepseek-v4-flash", {"type": "enabled"}, "/anthropic/v1", "deepseek"),
}


class MessagesBehaviour(Behaviour, kw_only=True):
    """
    Behaviour of the upstream.

    Attributes:
        counts_ids: Whether the ids of calls repeat in every turn.
    """

    counts_ids: bool = False


class MessagesApi(Api, Messages):
    """The API of one caller."""

    upstream: "StrictMessages"

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        yield from self.queued()
        yield from super().refusals(body, reading, judgement)
        if body.get("model") == MODES["deepseek"].model:
            for one in judgement.lost:
                if one.state in {"damaged", "misplaced", "repeated"}:
                    # The vendor does not notice it, so the words are the test's own.
                    yield Refused(f"{one.path} is not what was emitted for this message (test)")

    @override
    def drops(self, body: Item) -> bool:
        return super().drops(body) and DROPS_BLOCKS in self.headers.get("anthropic-beta", "")

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        behaviour = self.upstream.behaviour
        if self.upstream.counts:
            return {"input_tokens": judgement.tokens}, []
        self.script = (Repeating if behaviour.repeats else Marked)(LOOPS[behaviour.loop])
        answer, said = super().answer(body, reading, judgement)
        if behaviour.end == "length":
            answer["content"] = _cut_short(answer["content"])
            answer["stop_reason"] = "max_tokens"
            _, _, said = self.read({**body, "messages": [answer]})
        return answer, [] if behaviour.end == "error" else said

    @override
    def call(self, tool: Item, city: str, at: int) -> Item:
        made = super().call(tool, city, at)
        return made | ({"id": f"call_{at}"} if self.upstream.behaviour.counts_ids else {})

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        """Yield the events with pings between them; after an error, the end is missing."""
        for frame in super().events(answer):
            if self.upstream.behaviour.end == "error" and frame[:20] == b"event: message_delta":
                yield sse(OVERLOADED)
                return
            yield frame
            if frame.startswith((b"event: message_start\n", b"event: content_block_stop\n")):
                yield sse({"type": "ping"})

    @override
    def written(self, value: object) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    @override
    def ended(self, answer: Item) -> tuple[int, Item]:
        is_error = self.upstream.behaviour.end == "error"
        return (OVERLOADED_STATUS, OVERLOADED) if is_error else super().ended(answer)


class StrictMessages(Upstream):
    """
    One mode of Anthropic Messages on a socket.

    Args:
        mode: The mode.
        behaviour: Attributes of MessagesBehaviour, kept as `behaviour`.

    Attributes:
        counts: Whether the request that is served only counts tokens.
    """

    routes = ("messages", COUNT)
    behaviour: MessagesBehaviour

    def __init__(self, mode: ModeName = "manual", **behaviour: Any) -> None:
        self.mode, self.counts = MODES[mode], False
        super().__init__(MessagesBehaviour(**behaviour), self.mode.path, self.mode.profile)

    @property
    def model(self) -> str:
        """A model that thinks in this mode."""
        return self.mode.model

    @override
    def made_for(self, caller: str) -> MessagesApi:
        return MessagesApi(Script())

    @override
    def serve(self, received: Any, body: Item, api: Any) -> Item:
        self.counts = received.path.endswith(COUNT)
        return super().serve(received, body, api)


def _cut_short(blocks: list[Item]) -> list[Item]:
    """Leave out the last block that is not reasoning, and all after it, as a token limit does."""
    last = max(at for at, block in enumerate(blocks) if not is_reasoning(block))
    half = blocks[last]
    if half["type"] != "text":
        return blocks[:last]
    return [*blocks[:last], {**half, "text": half["text"][: len(half["text"]) // 2]}]
