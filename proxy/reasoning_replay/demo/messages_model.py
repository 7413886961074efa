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
from reasoning_replay.demo.scripted_api import Api, Message
from reasoning_replay.demo.scripted_steps import ANSWER, BYTES_PER_TOKEN, next_step, pieces_of

__all__ = ["MESSAGES_API"]

THINKING: Final = "thinking"
NO_REASONING: Final = (
    "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When"
    " `thinking` is enabled, a final `assistant` message must start with a thinking block."
)
BAD_SIGNATURE: Final = "messages.{}.content.{}: Invalid `signature` in `thinking` block"
_KEY: Final = secrets.token_bytes(16)


def _refusal(body: Message) -> str:
    """Refuse a message of the current loop that lacks its reasoning, and a forged block."""
    if not _thinks(body):
        return ""
    messages = _joined(body["messages"])
    asked_at = _asked_at(messages)
    for index, message in enumerate(messages):
        blocks = _blocks(message) if message.get("role") == "assistant" else []
        for at, block in enumerate(blocks):
            forged = block.get("signature") != _signature(str(block.get(THINKING)))
            if block.get("type") == THINKING and forged:
                return BAD_SIGNATURE.format(index, at)
        if blocks and index > asked_at and blocks[0].get("type") != THINKING:
            return NO_REASONING.format(index, blocks[0].get("type"))
    return ""


def _answer(body: Message) -> Message:
    """Return a complete answer; its tokens are estimated from bytes."""
    messages = _joined(body["messages"])
    since = messages[_asked_at(messages) + 1 :]
    tools = body.get("tools") or []
    choice = (body.get("tool_choice") or {}).get("type")
    step = next_step(
        sum(message.get("role") == "assistant" for message in since),
        sum(_is_result(block) for message in since for block in _blocks(message)),
        may_call=bool(tools) and choice != "none",
    )
    content: list[Message] = []
    if _thinks(body):
        signature = _signature(step.thought)
        content.append({"type": THINKING, THINKING: step.thought, "signature": signature})
    if step.cities:
        tool = tools[step.number % len(tools)]
        content += [_call(tool, city) for city in step.cities]
    else:
        content.append({"type": "text", "text": ANSWER})
    read, wrote = (len(json.dumps(each)) // BYTES_PER_TOKEN for each in (body, content))
    return {
        "id": f"msg_01{secrets.token_hex(11)}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": content,
        "stop_reason": "tool_use" if step.cities else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": read, "output_tokens": wrote},
    }


def _frames(answer: Message) -> Iterator[bytes]:
    """Yield an answer as stream events, block by block."""
    empty: Message = {"content": [], "stop_reason": None}
    yield _frame("message_start", message=answer | empty)
    for index, block in enumerate(answer["content"]):
        is_call = "input" in block
        start: Message = {name: "" for name in (THINKING, "signature", "text") if name in block}
        start |= {"input": {}} if is_call else {}
        yield _frame("content_block_start", index=index, content_block=block | start)
        for delta in _deltas(block):
            yield _frame("content_block_delta", index=index, delta=delta)
        yield _frame("content_block_stop", index=index)
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _frame("message_delta", delta=end, usage=answer["usage"])
    yield _frame("message_stop")


def _frame(kind: str, **members: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def _deltas(block: Message) -> Iterator[Message]:
    for name in (THINKING, "text"):
        for word in pieces_of(block.get(name, "")):
            yield {"type": f"{name}_delta", name: word}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}
    if "input" in block:
        for word in pieces_of(json.dumps(block["input"])):
            yield {"type": "input_json_delta", "partial_json": word}


def _thinks(body: Message) -> bool:
    return (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}


def _asked_at(messages: list[Message]) -> int:
    """Return the index of the last question: results of tools are no questions."""
    return max(
        (
            at
            for at, message in enumerate(messages)
            if message.get("role") == "user" and not any(map(_is_result, _blocks(message)))
        ),
        default=-1,
    )


def _joined(messages: list[Message]) -> list[Message]:
    """Return messages with adjacent ones of the assistant as one."""
    made: list[Message] = []
    for message in messages:
        if made and made[-1].get("role") == message.get("role") == "assistant":
            made[-1] = {**message, "content": _blocks(made[-1]) + _blocks(message)}
        else:
            made.append(message)
    return made


def _is_result(block: Message) -> bool:
    return block.get("type") == "tool_result"


def _blocks(message: Message) -> list[Message]:
    """Return the blocks of a message; a string is one text."""
    content = message.get("content")
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": content}]


def _call(tool: Message, city: str) -> Message:
    given = example(tool.get("input_schema") or {}, city)
    call_id = f"toolu_01{secrets.token_hex(11)}"
    return {"type": "tool_use", "id": call_id, "name": tool.get("name", ""), "input": given}


def _signature(text: str) -> str:
    return base64.b64encode(hmac.digest(_KEY, text.encode(), "sha512")).decode()


def _error(message: str) -> Message:
    error = {"type": "invalid_request_error", "message": message}
    return {"type": "error", "error": error}


MESSAGES_API: Final = Api(
    path="/messages",
    refusal=_refusal,
    answer=_answer,
    frames=_frames,
    error=_error,
)
