"""
Scripted Messages model: the demo's Messages API, as strict about reasoning as Anthropic's.

With manual thinking, it refuses each assistant message of the current tool loop that does not start
with its thinking block, and any block whose signature is not of its text, with the error messages
of Anthropic's API. As that does, it reads adjacent assistant messages as one. Without the member
`thinking`, it does not think.
"""

import base64
import hmac
import json
import secrets
from collections.abc import Iterator
from typing import Final

from reasoning_replay.demo.example_values import example
from reasoning_replay.demo.scripted_api import Api, Item, Refused, sse
from reasoning_replay.demo.scripted_steps import ANSWER, next_step, pieces_of, tokens_of

__all__ = ["MESSAGES_API"]

THINKING: Final = "thinking"
NO_REASONING: Final = (
    "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When"
    " `thinking` is enabled, a final `assistant` message must start with a thinking block."
)
BAD_SIGNATURE: Final = "messages.{}.content.{}: Invalid `signature` in `thinking` block"
_KEY: Final = secrets.token_bytes(16)


def _answer(body: Item) -> Item:
    """Return a complete answer; its tokens are estimated from bytes."""
    messages = _joined(body["messages"])
    # Results of tools are no questions.
    asked_at = max(
        (
            at
            for at, message in enumerate(messages)
            if message.get("role") == "user" and not any(map(_is_result, _blocks(message)))
        ),
        default=-1,
    )
    thinks = (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}
    if thinks:
        _judge(messages, asked_at)
    since = messages[asked_at + 1 :]
    answered = sum(_is_result(block) for message in since for block in _blocks(message))
    tools = body.get("tools") or []
    choice = (body.get("tool_choice") or {}).get("type")
    step = next_step(answered, may_call=bool(tools) and choice != "none")
    content: list[Item] = []
    if thinks:
        signature = _signature(step.thought)
        content.append({"type": THINKING, THINKING: step.thought, "signature": signature})
    if step.cities:
        content += [_call(tools[answered % len(tools)], city) for city in step.cities]
    else:
        content.append({"type": "text", "text": ANSWER})
    return {
        "id": f"msg_01{secrets.token_hex(11)}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": content,
        "stop_reason": "tool_use" if step.cities else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens_of(body), "output_tokens": tokens_of(content)},
    }


def _judge(messages: list[Item], asked_at: int) -> None:
    """Refuse a message of the current loop that lacks its reasoning, and a forged block."""
    for index, message in enumerate(messages):
        blocks = _blocks(message) if message.get("role") == "assistant" else []
        for at, block in enumerate(blocks):
            forged = block.get("signature") != _signature(str(block.get(THINKING)))
            if block.get("type") == THINKING and forged:
                raise Refused(BAD_SIGNATURE.format(index, at))
        if blocks and index > asked_at and blocks[0].get("type") != THINKING:
            raise Refused(NO_REASONING.format(index, blocks[0].get("type")))


def _events(answer: Item) -> Iterator[bytes]:
    """Yield an answer as stream events, block by block."""
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


def _deltas(block: Item) -> Iterator[Item]:
    for name in (THINKING, "text"):
        for word in pieces_of(block.get(name, "")):
            yield {"type": f"{name}_delta", name: word}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}
    if "input" in block:
        for word in pieces_of(json.dumps(block["input"])):
            yield {"type": "input_json_delta", "partial_json": word}


def _joined(messages: list[Item]) -> list[Item]:
    """Return messages with adjacent ones of the assistant as one."""
    made: list[Item] = []
    for message in messages:
        if made and made[-1].get("role") == message.get("role") == "assistant":
            made[-1] = {**message, "content": _blocks(made[-1]) + _blocks(message)}
        else:
            made.append(message)
    return made


def _is_result(block: Item) -> bool:
    return block.get("type") == "tool_result"


def _blocks(message: Item) -> list[Item]:
    """Return the blocks of a message; a string is one text."""
    content = message.get("content")
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": content}]


def _call(tool: Item, city: str) -> Item:
    given = example(tool.get("input_schema") or {}, city)
    call_id = f"toolu_01{secrets.token_hex(11)}"
    return {"type": "tool_use", "id": call_id, "name": tool.get("name", ""), "input": given}


def _signature(text: str) -> str:
    return base64.b64encode(hmac.digest(_KEY, text.encode(), "sha512")).decode()


def _error(refused: Refused) -> Item:
    error = {"type": "invalid_request_error", "message": refused.message}
    return {"type": "error", "error": error}


MESSAGES_API: Final = Api(
    path="/messages",
    history="messages",
    answer=_answer,
    events=_events,
    error=_error,
)
