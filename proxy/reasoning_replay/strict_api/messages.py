"""
Messages of the strict API, as strict about reasoning as Anthropic's.

Models up to 4.6 think if they are asked to, later ones unasked. With manual thinking, each
assistant message of the current tool loop starts with its thinking block. Any block is as it was
emitted, and the latest message has all of its blocks, or none. Adjacent assistant messages are one.
"""

import base64
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final

from typing_extensions import override

from reasoning_replay.strict_api.cache_diagnosis import Fingerprint, Fingerprints
from reasoning_replay.strict_api.dialect import (
    Dialect,
    Item,
    Reading,
    Refused,
    Rule,
    asked_at,
    canonical,
    joined,
    sse,
)
from reasoning_replay.strict_api.example_values import example
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.scenarios import Script, pieces_of, tokens_of

THINKING: Final = "thinking"
REASONING: Final = (THINKING, "redacted_thinking")
SIGNATURE_BYTES: Final = 64
# Later models think unasked.
THINKS_IF_ASKED: Final = re.compile(r"claude-(?:[123]|[a-z]+-4)")

# The index of a message, and the type of its first block.
MISSING: Final = Rule(
    "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When"
    " `thinking` is enabled, a final `assistant` message must start with a thinking block"
    " (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",  # codespell:ignore
    "github.com/anomalyco/opencode/issues/3077",
    "2025-10",
)
# The index of a message, and that of a block; the member, and the type of the block.
BAD_SIGNATURE: Final = Rule(
    "messages.{}.content.{}: Invalid `{}` in `{}` block",
    "github.com/zed-industries/zed/issues/48872",
    "2026-02",
)
MODIFIED: Final = Rule(
    "messages.{}.content.{}: `thinking` or `redacted_thinking` blocks in the latest assistant"
    " message cannot be modified. These blocks must remain as they were in the original response.",
    "github.com/anthropics/claude-code/issues/63404",
    "2026-05",
)
UNANSWERED: Final = Rule(
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}."
    " Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    "github.com/anthropics/claude-code/issues/8210",
    "2025-09",
)


class Messages(Dialect):
    """
    A Messages API that has emitted nothing yet.

    Attributes:
        fingerprints: What was read before each answer to a request that carries `diagnostics`.
    """

    name = "messages"
    path = "/messages"
    history = "messages"

    def __init__(self, script: Script, *, is_strict: bool = False) -> None:
        super().__init__(script, is_strict=is_strict)
        self.fingerprints = Fingerprints("messages_changed")

    @override
    def read(self, body: Item) -> Reading:
        messages = joined_by_role(body["messages"])
        parts = [
            part
            for at, message in enumerate(messages)
            for part in _parts(message, f"messages.{at}")
        ]
        return Reading(canonical([_plain(body.get("system")), body.get("tools")]), messages, parts)

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        if self.thinks(body):
            yield from self.signatures(reading)
            yield from self._current_loop(body, reading.items, judgement)
            yield from _unanswered(reading.items)

    def signatures(self, reading: Reading) -> Iterator[Refused]:
        """Each block is one that was emitted."""
        for index, at, block in thoughts_of(reading.items):
            if not self._is_emitted(block):
                yield bad_signature(index, at, block)

    def _current_loop(
        self, body: Item, messages: Sequence[Item], judgement: Judgement
    ) -> Iterator[Refused]:
        """
        With manual thinking, each message starts with its thoughts, unless it was made without any.

        In any mode, the latest one has all of its thoughts, or none.
        """
        said = [at for at, one in enumerate(messages) if one.get("role") == "assistant"]
        start = question(messages)
        is_manual = (body.get(THINKING) or {}).get("type") == "enabled"
        lacking = [*(one.path for one in judgement.lost), *judgement.unknown]
        for index in said if is_manual else ():
            blocks = blocks_of(messages[index])
            path = f"messages.{index}."
            is_due = any(one.startswith(path) for one in lacking)
            if is_due and index > start and not (blocks and is_reasoning(blocks[0])):
                yield MISSING(index, blocks[0].get("type") if blocks else "text")
        for index in said[-1:]:
            thoughts = [at for _, at, _ in thoughts_of(messages[index:], index)]
            path = f"messages.{index}."
            if thoughts and any(one.path.startswith(path) for one in judgement.lost):
                yield MODIFIED(index, thoughts[0])

    def thinks(self, body: Item) -> bool:
        """Return whether thinking is on in a request."""
        kind = (body.get(THINKING) or {}).get("type")
        if kind is None:
            model = str(body.get("model"))
            return "claude" in model and THINKS_IF_ASKED.search(model) is None
        return bool(kind != "disabled")

    def _is_emitted(self, block: Item) -> bool:
        part = self.ledger.by_name(str(block.get("signature") or block.get("data")))
        return part is not None and part.value == _value(block)

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        since = reading.items[question(reading.items) + 1 :]
        answered = sum(is_result(block) for message in since for block in blocks_of(message))
        tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
        choice = (body.get("tool_choice") or {}).get("type")
        content: list[Item] = []
        for sign, words in self.script.pieces(answered, may_call=bool(tools) and choice != "none"):
            if sign == "C":
                content.append(_call(tools[answered % len(tools)], words))
            elif sign != "R":
                content.append({"type": "text", "text": words})
            elif self.thinks(body):
                signature = base64.b64encode(secrets.token_bytes(SIGNATURE_BYTES)).decode()
                content.append({"type": THINKING, THINKING: words, "signature": signature})
        calls = any(block["type"] == "tool_use" for block in content)
        message = {
            "id": f"msg_01{secrets.token_hex(11)}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", ""),
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": judgement.tokens - judgement.cached,
                "cache_read_input_tokens": judgement.cached,
                "cache_creation_input_tokens": 0,
                "output_tokens": tokens_of(content),
            },
        }
        message |= self._diagnosed(body, reading, message["id"])
        return message, list(_parts(message, "message"))

    def _diagnosed(self, body: Item, reading: Reading, answer_id: str) -> Item:
        """Return the member that says why the cache missed, if the request asks for it."""
        asked = body.get("diagnostics")
        if asked is None:
            return {}
        now = Fingerprint(
            {
                "model_changed": canonical([body.get("model"), body.get("speed")]),
                "system_changed": canonical(_plain(body.get("system"))),
                "tools_changed": canonical(_plain(body.get("tools"))),
            },
            [part.value for part in reading.parts],
        )
        named = asked.get("previous_message_id")
        told: Item = {}
        if named and named not in self.fingerprints:
            told = {"cache_miss_reason": {"type": "previous_message_not_found"}}
        elif named and (miss := self.fingerprints.miss(named, now)) is not None:
            reason = {"type": miss.reason, "cache_missed_input_tokens": miss.missed}
            told = {"cache_miss_reason": reason}
        self.fingerprints.keep(answer_id, now)
        return {"diagnostics": told} if named else {}

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        empty: Item = {"content": [], "stop_reason": None}
        yield sse({"type": "message_start", "message": answer | empty})
        for index, block in enumerate(answer["content"]):
            start: Item = {name: "" for name in (THINKING, "signature", "text") if name in block}
            start |= {"input": {}} if "input" in block else {}
            place = {"index": index}
            yield sse({"type": "content_block_start", **place, "content_block": block | start})
            for delta in _deltas(block):
                yield sse({"type": "content_block_delta", **place, "delta": delta})
            yield sse({"type": "content_block_stop", **place})
        end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield sse({"type": "message_delta", "delta": end, "usage": answer["usage"]})
        yield sse({"type": "message_stop"})

    @override
    def error(self, refused: Refused) -> Item:
        error = {"type": "invalid_request_error", "message": refused.message}
        return {"type": "error", "error": error}


def _parts(message: Item, path: str) -> Iterator[Part]:
    """Yield the parts of a message, block by block."""
    is_said = message.get("role") == "assistant"
    for at, block in enumerate(blocks_of(message)):
        place = f"{path}.content.{at}"
        if not is_said:
            yield Part("given", place, canonical([message.get("role"), _plain(block)]))
        elif is_reasoning(block):
            signature = block.get("signature") or block.get("data")
            yield Part("reasoning", place, _value(block), (signature,) if signature else ())
        elif block.get("type") == "tool_use":
            names = (block["id"],) if block.get("id") else ()
            yield Part("said", place, canonical([block.get("name"), block.get("input")]), names)
        elif block.get("type") == "text":
            yield Part("said", place, canonical(["assistant", block.get("text")]))
        else:  # a search that the API ran itself, and what it found
            yield Part("said", place, canonical(_plain(block)))


def thoughts_of(messages: Sequence[Item], start: int = 0) -> Iterator[tuple[int, int, Item]]:
    """Yield each block of reasoning with the index of its message, from `start` on, and its own."""
    for index, message in enumerate(messages, start):
        for at, block in enumerate(blocks_of(message)):
            if message.get("role") == "assistant" and is_reasoning(block):
                yield index, at, block


def is_reasoning(block: Item) -> bool:
    """Return whether a block is reasoning."""
    return block.get("type") in REASONING


def bad_signature(index: int, at: int, block: Item) -> Refused:
    """Return the refusal of a block that was not issued like this."""
    kind = block.get("type")
    return BAD_SIGNATURE(index, at, "signature" if kind == THINKING else "data", kind)


def _value(block: Item) -> str:
    return canonical([block.get(name) for name in (THINKING, "signature", "data")])


def _plain(value: object) -> object:
    """Return a block, or some, without the marks that clients move from one to the next."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(value[name]) for name in value if name != "cache_control"}
    return value


def _unanswered(messages: Sequence[Item]) -> Iterator[Refused]:
    """Each call has its result in the next message."""
    for index, (message, following) in enumerate(zip(messages, [*messages[1:], {}], strict=True)):
        calls = [one.get("id") for one in blocks_of(message) if one.get("type") == "tool_use"]
        results = {one.get("tool_use_id") for one in blocks_of(following) if is_result(one)}
        if left := [str(call) for call in calls if call not in results]:
            yield UNANSWERED(index, ", ".join(left))


def _deltas(block: Item) -> Iterator[Item]:
    for name in (THINKING, "text"):
        for word in pieces_of(block.get(name, "")):
            yield {"type": f"{name}_delta", name: word}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}
    if "input" in block:
        for word in pieces_of(json.dumps(block["input"])):
            yield {"type": "input_json_delta", "partial_json": word}


def joined_by_role(messages: Sequence[Item]) -> list[Item]:
    """Return messages with adjacent ones of the assistant as one."""
    return joined(messages, "assistant", "content", blocks_of)


def question(messages: Sequence[Item]) -> int:
    """Return the index of the last question; results of tools are none."""
    return asked_at(
        messages,
        lambda one: one.get("role") == "user" and not any(map(is_result, blocks_of(one))),
    )


def is_result(block: Item) -> bool:
    """Return whether a block is the result of a call."""
    return block.get("type") == "tool_result"


def blocks_of(message: Item) -> list[Item]:
    """Return the blocks of a message; a string is one text."""
    content = message.get("content")
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": content}]


def _call(tool: Item, city: str) -> Item:
    given = example(tool.get("input_schema") or {}, city)
    call_id = f"toolu_01{secrets.token_hex(11)}"
    return {"type": "tool_use", "id": call_id, "name": tool.get("name", ""), "input": given}
