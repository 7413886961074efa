"""
Blocks of a request: what is visible of its messages, where they stand, and what they are bound to.

Two spellings of one message are equal here: a string and one text block, other white space,
re-serialised input, cache marks, and null members.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tests.standin.common.judging import Message, Reading
from tests.standin.common.ledger import Visible

__all__ = [
    "MESSAGES",
    "REASONING",
    "Block",
    "Prefix",
    "asks",
    "blocks_of",
    "is_reasoning",
    "joined",
    "last_question",
    "normal",
    "prefixes",
    "text_of",
]

Block = Mapping[str, Any]

REASONING = ("thinking", "redacted_thinking")
_RESULT = "tool_result"


class Prefix(Struct, frozen=True):
    """
    What precedes a block: a digest of each part that a signature is bound to.

    Attributes:
        messages: The messages, without their reasoning.
        thinking: The last block of reasoning; "" without any.
    """

    system: str
    tools: str
    messages: str
    thinking: str


def blocks_of(message: Message) -> list[Block]:
    """Return the blocks of a message; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def joined(messages: Sequence[Message]) -> list[Message]:
    """
    Return messages as the API reads them: adjacent ones of the assistant are one.

    It joins those of the user as well; here they stay, so that a question after results is one.
    """
    made: list[Message] = []
    for message in messages:
        if made and made[-1].get("role") == message.get("role") == "assistant":
            blocks = [*blocks_of(made[-1]), *blocks_of(message)]
            made[-1] = {**made[-1], "content": blocks}
        else:
            made.append(message)
    return made


def is_reasoning(block: Block) -> bool:
    """Return whether a block is reasoning."""
    return block.get("type") in REASONING


def text_of(message: Message) -> str:
    """Return the text of a message."""
    return "".join(str(block.get("text") or "") for block in blocks_of(message))


def last_question(messages: Sequence[Message]) -> int:
    """Return the index of the last message that asks, -1 without any: a loop starts there."""
    return max((at for at, one in enumerate(messages) if asks(one)), default=-1)


def prefixes(body: Message) -> Iterator[list[Prefix]]:
    """Yield, for each message, what precedes each of its blocks; and that of a next message."""
    system = _digest(_normal_list(body.get("system")))
    tools = _digest(_normal_list(body.get("tools")))
    history = thinking = ""
    for message in joined(body["messages"]):
        before = [Prefix(system, tools, history, thinking)]
        for block in blocks_of(message):
            if message.get("role") == "assistant" and is_reasoning(block):
                thinking = _digest(normal(block))
            else:
                history = _digest([history, message.get("role"), normal(block)])
            before.append(Prefix(system, tools, history, thinking))
        yield before
    yield [Prefix(system, tools, history, thinking)]


def asks(message: Message) -> bool:
    """Return whether a message is a question of the user, not the results of calls."""
    blocks = blocks_of(message)
    return message.get("role") == "user" and not any(one.get("type") == _RESULT for one in blocks)


def _visible(message: Message) -> Visible:
    """Return what is visible of a message; ids count for nothing."""
    calls = tuple(
        (str(block.get("name") or block.get("type")), _canonical(block))
        for block in blocks_of(message)
        if block.get("type") != "text" and not is_reasoning(block)
    )
    return Visible(str(message.get("role")), " ".join(text_of(message).split()), calls)


def _canonical(block: Block) -> str:
    return json.dumps(block.get("input", _normal_list(block.get("content"))), sort_keys=True)


def _reasoning_of(message: Message) -> dict[str, Any]:
    """
    Return the reasoning of a message by its path.

    A path is `content.`, the number of other blocks before, and the place in a row of reasoning.
    """
    found: dict[str, Any] = {}
    others = row = 0
    for block in blocks_of(message):
        if is_reasoning(block):
            found[f"content.{others}.{row}"] = normal(block)
            row += 1
        else:
            others, row = others + 1, 0
    return found


def _places(caller: str, messages: Sequence[Message]) -> Iterator[str]:
    """Yield the place of each message: a digest of the caller and all that was visible before."""
    digest = hashlib.sha256(caller.encode())
    for message in messages:
        yield digest.hexdigest()
        seen = _visible(message)
        digest.update(json.dumps([seen.role, seen.text, seen.calls]).encode())
    yield digest.hexdigest()


MESSAGES = Reading(_visible, _reasoning_of, _places)


def _normal_list(value: Any) -> Any:
    if isinstance(value, str):
        return [{"text": value, "type": "text"}]
    return [normal(one) for one in value] if isinstance(value, list) else value


def normal(block: Any) -> Any:
    """Return a block in one order, without marks and null members; its input stays as it is."""
    if not isinstance(block, dict):
        return block
    return {
        name: _normal_list(block[name]) if name == "content" else block[name]
        for name in sorted(block)
        if block[name] is not None and name != "cache_control"
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
