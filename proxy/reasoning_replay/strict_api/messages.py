"""
Messages of the strict API, as strict about reasoning as Anthropic's.

Models up to 4.6 think if they are asked to, later ones unasked, and those show their thoughts only
if asked to. With manual thinking, each assistant message of the current tool loop starts with its
thinking block. Any block is as it was emitted, for the same model, and the latest message has all
of its blocks, or none. The newest models also bind a block to what was before it. A model of
DeepSeek signs nothing, and demands the thoughts of the current loop. Adjacent assistant messages
are one.
"""

import base64
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final

from typing_extensions import override

from reasoning_replay.strict_api.binding import (
    Bindings,
    blocks_of,
    is_reasoning,
    joined_by_role,
    thoughts_of,
)
from reasoning_replay.strict_api.cache_diagnosis import Fingerprint, Fingerprints
from reasoning_replay.strict_api.dialect import (
    Dialect,
    Item,
    Reading,
    Refused,
    Rule,
    asked_at,
    canonical,
    sse,
)
from reasoning_replay.strict_api.example_values import example
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.scenarios import Script, pieces_of, tokens_of

THINKING: Final = "thinking"
SIGNATURE_BYTES: Final = 64
# Later models think unasked.
THINKS_IF_ASKED: Final = re.compile(r"claude-(?:[123]|[a-z]+-4(?:[-.][0-6])?(?!\d|[-.]\d(?!\d)))")
BINDS: Final = re.compile(r"claude-fable-(?:5[-.][1-9]|[6-9]|\d\d)")

# The index of a message, and the type of its first block.
MISSING: Final = Rule(
    "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When"
    " `thinking` is enabled, a final `assistant` message must start with a thinking block"
    " (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",  # codespell:ignore
    "github.com/anomalyco/opencode/issues/3077",
    "2025-10",
)
MODIFIED: Final = Rule(
    "messages.{}.content.{}: `thinking` or `redacted_thinking` blocks in the latest assistant"
    " message cannot be modified. These blocks must remain as they were in the original response.",
    "github.com/anthropics/claude-code/issues/63404",
    "2026-05",
)
MISSING_DEEPSEEK: Final = Rule(
    "The `content[].thinking` in the thinking mode must be passed back to the API.",
    "api-docs.deepseek.com/guides/anthropic_api",
    "2026-11",
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
        bindings: What each block was made for.
        fingerprints: What was read before each answer to a request that carries `diagnostics`.
    """

    name = "messages"
    path = "/messages"
    history = "messages"

    def __init__(self, script: Script, *, is_strict: bool = False) -> None:
        super().__init__(script, is_strict=is_strict)
        self.fingerprints = Fingerprints("messages_changed")
        self.bindings = Bindings()

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
        self.bindings.left_out = []
        if _is_unsigned(body):
            yield from self._demanded(body, reading.items, judgement)
        elif self.thinks(body):
            model = str(body.get("model"))
            yield from self.bindings.refusals(
                {**body, "messages": reading.items},
                is_bound=BINDS.search(model) is not None,
                is_manual=THINKS_IF_ASKED.search(model) is not None,
                drops=self.drops(body),
            )
            yield from self._current_loop(body, reading.items, judgement)
            yield from _unanswered(reading.items)

    def drops(self, body: Item) -> bool:
        """Return whether a request asks to leave out blocks of another history."""
        binding = (body.get(THINKING) or {}).get("block_binding") or {}
        return bool(binding.get("prefix_mismatch_behavior") == "drop_block")

    def _demanded(
        self, body: Item, messages: Sequence[Item], judgement: Judgement
    ) -> Iterator[Refused]:
        """With tools and thinking, each message of the round has its reasoning, signed or not."""
        lacking = [one.path for one in judgement.lost if one.state == "missing"]
        start = question(messages) + 1
        for index, message in enumerate(messages) if body.get("tools") else ():
            if index < start or message.get("role") != "assistant" or not self.thinks(body):
                continue
            due = [*lacking, *judgement.unknown]
            is_due = any(path.startswith(f"messages.{index}.") for path in due)
            if is_due and not any(map(is_reasoning, blocks_of(message))):
                yield MISSING_DEEPSEEK()

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
            is_claude = "claude" in model and THINKS_IF_ASKED.search(model) is None
            return is_claude or _is_unsigned(body)
        return bool(kind != "disabled")

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        since = reading.items[question(reading.items) + 1 :]
        answered = sum(is_result(block) for message in since for block in blocks_of(message))
        tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
        choice = (body.get("tool_choice") or {}).get("type")
        content: list[Item] = []
        read_body = self.bindings.read(body, reading.items)
        pieces = self.script.pieces(answered, may_call=bool(tools) and choice != "none")
        for sign, words in pieces:
            if sign == "C":
                content.append(self.call(tools[answered % len(tools)], words, len(content)))
            elif sign == "W":
                content += _search(words)
            elif sign in {"T", "A"}:
                content.append({"type": "text", "text": words})
            elif self.thinks(body):
                content.append(self._thought(read_body, content, words, is_hidden=sign == "X"))
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
        if self.bindings.left_out:
            message["input_transformations"] = self.bindings.left_out
        message |= self._diagnosed(body, reading, message["id"])
        return message, list(_parts(message, "message"))

    def _thought(self, body: Item, before: list[Item], words: str, *, is_hidden: bool) -> Item:
        """Return a block of reasoning, bound to its place; `before` is what the answer has yet."""
        if _is_unsigned(body):
            return {"type": THINKING, THINKING: words}
        is_asked = (body.get(THINKING) or {}).get("display") == "summarized"
        is_shown = is_asked or THINKS_IF_ASKED.search(str(body.get("model")))
        signature = base64.b64encode(secrets.token_bytes(SIGNATURE_BYTES)).decode()
        block = {"type": THINKING, THINKING: words if is_shown else "", "signature": signature}
        if is_hidden:
            block = {"type": "redacted_thinking", "data": signature}
        self.bindings.keep(signature, body, [*before, block])
        return block

    def call(self, tool: Item, city: str, _at: int) -> Item:
        """Return a call of a tool."""
        given = example(tool.get("input_schema") or {}, city)
        call_id = f"toolu_01{secrets.token_hex(11)}"
        return {"type": "tool_use", "id": call_id, "name": tool.get("name", ""), "input": given}

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


def question(messages: Sequence[Item]) -> int:
    """Return the index of the last question; results of tools are none."""
    return asked_at(
        messages,
        lambda one: one.get("role") == "user" and not any(map(is_result, blocks_of(one))),
    )


def is_result(block: Item) -> bool:
    """Return whether a block is the result of a call."""
    return block.get("type") == "tool_result"


def _is_unsigned(body: Item) -> bool:
    """Return whether a model signs nothing."""
    return "deepseek" in str(body.get("model"))


def _search(query: str) -> list[Item]:
    """Return a search that the API ran itself, and what it found."""
    call_id = f"srvtoolu_01{secrets.token_hex(11)}"
    blob = base64.b64encode(secrets.token_bytes(SIGNATURE_BYTES)).decode()
    page = {"type": "web_search_result", "url": "https://example.org", "title": "Rain"}
    found = {**page, "encrypted_content": blob}
    search: Item = {"type": "server_tool_use", "id": call_id, "name": "web_search"}
    return [
        {**search, "input": {"query": query}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]},
    ]
