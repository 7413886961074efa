"""
Binding: the model and the history that a block of reasoning was made for, as its signature knows.

Two spellings of one history are equal here: a string and one text block, cache marks, and null
members.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from reasoning_replay.strict_api.dialect import Item, Refused, Rule, joined

THINKING: Final = "thinking"
REASONING: Final = (THINKING, "redacted_thinking")
BOUND_MAX: Final = 10_000
_DOCS: Final = "platform.claude.com/docs/en/build-with-claude/extended-thinking"

# The index of a message, and that of a block; the member, and the type of the block.
BAD_SIGNATURE: Final = Rule(
    "messages.{}.content.{}: Invalid `{}` in `{}` block",
    "github.com/zed-industries/zed/issues/48872",
    "2026-02",
)
UNSIGNED: Final = Rule(
    "messages.{}.content.{}.thinking.signature: Field required", _DOCS, "2026-11"
)
BLANK: Final = Rule(
    "messages.{}.content.{}.thinking: each thinking block must contain non-whitespace thinking",
    _DOCS,
    "2026-11",
)
BOUND_ELSEWHERE: Final = Rule(
    "{}. The block is bound to a different conversation. Remove the block, or set"
    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". {}',
    _DOCS,
    "2026-11",
)
# The words for all but `system` are not confirmed.
_BOUND_TO: Final = {
    "system": "The `system` prompt differs from the one this block was created with.",
    "tools": "The `tools` differ from the ones this block was created with.",
    "messages": "The `messages` before it differ from the ones this block was created with.",
    "thinking": "A `thinking` block before it was left out or moved.",
}


class Bound(NamedTuple):
    """
    What one block is bound to, as digests.

    Attributes:
        content: Its text; "" if it shows none.
        model: The model.
        messages: The messages before it, without their reasoning.
        thinking: The last block of reasoning before it; "" without any.
    """

    content: str
    model: str
    system: str
    tools: str
    messages: str
    thinking: str


class Bindings:
    """
    What each block of reasoning was made for.

    Attributes:
        left_out: The blocks of the request that is served which its model does not read.
    """

    def __init__(self) -> None:
        self.left_out: list[Item] = []
        self._known: dict[str, Bound] = {}  # by signature

    def keep(self, signature: str, body: Item, content: list[Item]) -> None:
        """Keep what the last block of a new message is bound to."""
        history = [*body["messages"], {"role": "assistant", "content": content}]
        *_, own = bound_to({**body, "messages": history})
        self._known[signature] = own[-2]  # the last one is that of a next block
        if len(self._known) > BOUND_MAX:
            del self._known[next(iter(self._known))]

    def refusals(
        self, body: Item, *, is_bound: bool, is_manual: bool, drops: bool
    ) -> Iterator[Refused]:
        """
        Yield each block that is not as it was emitted, by this model, after the same history.

        Args:
            body: The request.
            is_bound: Whether the model looks at the history.
            is_manual: Whether a block must have a text.
            drops: Whether blocks of another history are to be left out, not refused.
        """
        bound = list(bound_to(body))
        for index, at, block in thoughts_of(body["messages"]):
            if block["type"] == THINKING and "signature" not in block:
                yield UNSIGNED(index, at)
            if is_manual and block["type"] == THINKING and not str(block[THINKING]).strip():
                yield BLANK(index, at)
            known = self._known.get(str(block.get("signature", block.get("data"))))
            found = flaws(known, bound[index][at]) - (set() if is_bound else _BOUND_TO.keys())
            if "content" in found or ("model" in found and not is_bound):
                yield _bad_signature(index, at, block)
            elif "model" in found or (found and drops):
                reason = "unreadable" if "model" in found else "prefix_mismatch"
                path = f"messages.{index}.content.{at}"
                self.left_out.append({"type": "thinking_dropped", "path": path, "reason": reason})
            elif found:
                differ = next(words for flaw, words in _BOUND_TO.items() if flaw in found)
                yield BOUND_ELSEWHERE(_bad_signature(index, at, block), differ)

    def read(self, body: Item, messages: list[Item]) -> Item:
        """Return a request as its model reads it: without the blocks that are left out."""
        paths = {one["path"] for one in self.left_out}
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


def bound_to(body: Item) -> Iterator[list[Bound]]:
    """Yield, for each message, what each of its blocks would be bound to; and one block more."""
    system, tools = (
        _digest(_normal_list(body.get("system"))),
        _digest(_normal_list(body.get("tools"))),
    )
    history = thinking = ""
    for message in joined_by_role(body["messages"]):
        made = []
        for block in [*blocks_of(message), {}]:
            shown = str(block.get("thinking") or "")
            made.append(Bound(shown, str(body.get("model")), system, tools, history, thinking))
            if message.get("role") == "assistant" and is_reasoning(block):
                thinking = _digest(_normal(block))
            elif block:
                history = _digest([history, message.get("role"), _normal(block)])
        yield made


def flaws(emitted: Bound | None, found: Bound) -> set[str]:
    """Return the members in which a block differs from what was emitted with its signature."""
    if emitted is None:
        return {"content"}
    was, now = emitted._asdict(), found._asdict()
    differing = {name for name in was if was[name] != now[name]}
    # Reasoning may be missing from the start of a history.
    return differing if found.thinking else differing - {"thinking"}


def _normal_list(value: object) -> object:
    if isinstance(value, str):
        return [{"text": value, "type": "text"}]
    return [_normal(one) for one in value] if isinstance(value, list) else value


def _normal(block: object) -> object:
    """Return a block in one order, without marks and null members; its input stays as it is."""
    if not isinstance(block, dict):
        return block
    return {
        name: _normal_list(block[name]) if name == "content" else block[name]
        for name in sorted(block)
        if block[name] is not None and name != "cache_control"
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def joined_by_role(messages: Sequence[Item]) -> list[Item]:
    """Return messages with adjacent ones of the assistant as one."""
    return joined(messages, "assistant", "content", blocks_of)


def is_reasoning(block: Item) -> bool:
    """Return whether a block is reasoning."""
    return block.get("type") in REASONING


def blocks_of(message: Item) -> list[Item]:
    """Return the blocks of a message; a string is one text."""
    content = message.get("content")
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": content}]


def thoughts_of(messages: Sequence[Item], start: int = 0) -> Iterator[tuple[int, int, Item]]:
    """Yield each block of reasoning with the index of its message, from `start` on, and its own."""
    for index, message in enumerate(messages, start):
        for at, block in enumerate(blocks_of(message)):
            if message.get("role") == "assistant" and is_reasoning(block):
                yield index, at, block


def _bad_signature(index: int, at: int, block: Item) -> Refused:
    """Return the refusal of a block that was not issued like this."""
    kind = block.get("type")
    return BAD_SIGNATURE(index, at, "signature" if kind == THINKING else "data", kind)
