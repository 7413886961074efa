"""
Random worlds of the Messages API: the items of Responses as content blocks.

All responses have the same id. In every other world, the model binds its reasoning to the history
before it, and each block that upstream receives is compared with the history that it was made
under.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import structs
from reasoning_replay.core.dialects.anthropic.binding import prefix_of
from reasoning_replay.core.dialects.anthropic.capture import MessagesCapture
from reasoning_replay.core.dialects.anthropic.placement import plan_injection
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest, read_request
from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.request_history import RequestHistory
from typing_extensions import override

from tests.core.worlds.dialect import CAPTURE_MAX_BYTES, WorldDialect, text_of
from tests.core.worlds.said import Said

MODELS = ("claude-opus-4-6", "claude-fable-5-1")
MARK = {"cache_control": {"type": "ephemeral"}}
BLANK = {"type": "text", "text": "\n\n"}
Block = dict[str, Any]
SHAPES = (
    "R C",
    "R C",
    "R M C",
    "R C C",
    "R M",
    "C",
    "R C R C",
    "R M C C",
    "M R C",
    "R M R M",
)
STYLES = (
    "plain",
    "plain",
    "strings",
    "marked",
    "trimmed",
    "blank kept",
    "blank dropped",
    "split",
)


class MessagesWorld(WorldDialect):
    """Blocks without ids, and in every other world a model that binds its reasoning."""

    name = "messages"
    shapes: ClassVar[tuple[str, ...]] = SHAPES
    styles: ClassVar[tuple[str, ...]] = STYLES

    def __init__(self, number: int, draw: Callable[[], str]) -> None:
        super().__init__(number, draw)
        self._model = MODELS[number % 2]
        self._body = b""
        self._prefix = b""
        self._received: list[Any] = []  # what upstream received last, in one form
        # What was visible before each block, and the block before it.
        self._made: dict[str, tuple[list[Any], str | None]] = {}
        self._places: list[list[int]] = []  # for each message the items of the request in it

    @override
    def capturing(self, origin: Origin) -> Capture:
        return MessagesCapture(structs.replace(origin, binding=self._prefix), CAPTURE_MAX_BYTES)

    @override
    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        top = {"model": self._model, **more}
        if frame := top.pop("instructions", ""):
            top["system"] = frame
        self._places = self.messages(sent, joins_outputs=True)
        messages = [self._message([sent[n] for n in places]) for places in self._places]
        for message in messages if self.style == "strings" else ():
            if len(message["content"]) == 1 and message["content"][0]["type"] == "text":
                message["content"] = message["content"][0]["text"]
        if self.style == "marked" and messages:
            messages[-1]["content"][-1] |= MARK
        self._body = json.dumps(top | {"messages": messages}).encode()
        request = read_request(self._body, {})
        is_bound = GENERIC.is_bound(self._model)
        self._prefix = prefix_of(request) if is_bound else b""
        self._received = _form(self._body)
        return request

    @override
    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> Mapping[int, list[str]]:
        assert isinstance(request, MessagesRequest)
        plan = plan_injection(request, matched, GENERIC)
        self._prefix = plan.binding or b""
        body = plan.apply(self._body)
        self._received = _form(body)
        if self._prefix:
            self._judge_prefixes()
        injected: dict[int, list[str]] = defaultdict(list)
        for message, places in zip(json.loads(body)["messages"], self._places, strict=True):
            left, run = list(places), []
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "thinking":
                    run.append(block["signature"])
                elif block != BLANK:
                    injected[left.pop(0)] += run
                    run = []
        return injected

    def _judge_prefixes(self) -> None:
        """Compare what is visible before each block, and the block before it, with what was."""
        last: str | None = None
        for signature, visible, _ in _blocks_in(self._received):
            made, before = self._made[signature]
            if made != visible or last not in (None, before):
                self.faults.append(f"bound elsewhere: {signature}")
            last = signature

    @override
    def response_of(self, said: Sequence[Said]) -> bytes:
        blocks: list[Block] = []
        for each in said:
            if each.kind == "R":
                blob = each.item["encrypted_content"]
                blocks.append({"type": "thinking", "thinking": "", "signature": blob})
                now = [*self._received, {"role": "assistant", "content": list(blocks)}]
                *_, (_, visible, before) = _blocks_in(now)
                self._made[blob] = visible, before
                if self.style.startswith("blank"):
                    blocks.append(BLANK)
            else:
                blocks.append(_block(each))
        top = {"id": "msg_0", "model": self._model, "stop_reason": "end_turn", "content": blocks}
        return json.dumps(top).encode()

    def _message(self, items: Sequence[Said]) -> dict[str, Any]:
        """Return a message of these items, spelled as the clients of this world do."""
        first = items[0]
        role = "assistant" if first.kind in "MC" else first.item.get("role", "user")
        blocks = [block for said in items for block in self._blocks(said)]
        return {"role": "system" if role == "developer" else role, "content": blocks}

    def _blocks(self, said: Said) -> list[Block]:
        if said.kind == "O":
            result = {"type": "tool_result", "tool_use_id": said.item["call_id"]}
            return [result | {"content": said.item["output"]}]
        if said.kind not in "MC":
            return [{"type": "text", "text": said.item["content"]}]
        block = _block(said)
        if self.style == "trimmed" and said.kind == "M":
            block["text"] = f"\n{block['text']} "
        return [BLANK, block] if self.style == "blank kept" and said.after == "R" else [block]


def _block(said: Said) -> Block:
    """Return the block of a text or a call."""
    item = said.item
    if said.kind == "M":
        return {"type": "text", "text": text_of(said)}
    given = json.loads(item["arguments"])
    return {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": given}


def _form(body: bytes) -> list[Any]:
    """Return what precedes the messages, and the messages as the API joins them, in one form."""
    top = json.loads(body)
    joined: list[Any] = [top.get("system")]
    for message in top["messages"]:
        blocks = _as_blocks(message["content"])
        if len(joined) > 1 and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] += blocks
        else:
            joined.append({"role": message["role"], "content": blocks})
    return joined


def _blocks_in(received: Sequence[Any]) -> Iterator[tuple[str, list[Any], str | None]]:
    """Yield each signature, with what is visible before it, and the signature before it."""
    visible: list[Any] = [received[0]]
    last: str | None = None
    for message in received[1:]:
        for block in map(_cleaned, message["content"]):
            if block["type"] == "thinking":
                yield block["signature"], list(visible), last
                last = block["signature"]
            else:
                visible.append((message["role"], block))


def _as_blocks(content: Any) -> list[Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [_cleaned(block) for block in blocks]


def _cleaned(block: Block) -> Block:
    return {key: value for key, value in block.items() if key != "cache_control"}
