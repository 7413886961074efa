"""Parsed request: the body of a request to `/chat/completions`, parsed as far as needed."""

from dataclasses import dataclass
from typing import ClassVar

from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.plan import Outcome, Plan
from reasoning_replay.core.history.sent_items import SentItems, packed
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

_NO_PLAN = Plan()
# Sources: the vendors' references (DeepSeek, Z.ai and Moonshot `thinking`; Qwen and SiliconFlow
# `enable_thinking`; vLLM and SGLang `chat_template_kwargs`; OpenAI, Gemini, Groq and Cerebras
# `reasoning_effort`; OpenRouter and Vercel `reasoning`; Ollama `think`).
_SWITCHES: dict[str, tuple[tuple[str, object], ...]] = {
    "thinking": (("type", "disabled"), ("", "disabled"), ("", False)),
    "enable_thinking": (("", False),),
    "chat_template_kwargs": (("enable_thinking", False), ("thinking", False)),
    "reasoning_effort": (("", "none"),),
    "reasoning": (("", False), ("", "none"), ("enabled", False), ("effort", "none")),
    "think": (("", False),),
}


@dataclass(slots=True)
class ChatRequest(ParsedRequest[ChatItem]):
    """One parsed request."""

    head_keys: ClassVar = ("tools", "functions")
    switches: ClassVar = _SWITCHES

    may_rename: bool = True
    may_merge: bool = True


read_request = RequestReader(ChatRequest, "messages", read_message)


def start_of_round(request: ChatRequest) -> int:
    """Return the index after the last message of the user; 0 if there is none."""
    for index in range(len(request.places) - 1, -1, -1):
        item = request.places[index].item
        if item.role is Role.CLIENT and item.type == "message":
            return index + 1
    return 0


def sent_messages(request: ChatRequest, plan: Plan = _NO_PLAN) -> SentItems:
    """
    Return a short digest of each item of a request, in the form in which it is sent.

    The items of one message share its bytes, so the digest of each covers the whole message, with
    what was injected into it: it does not matter whether a plan, a cure or the client added that.

    Args:
        request: The request before it is edited.
        plan: Its edits. What it injects at one place counts as one injected item.
    """
    pending = sorted(plan.edits, key=lambda edit: edit.start)[::-1]
    places = {note.place for note in plan.notes if note.outcome is Outcome.INJECTED}
    digests, injected = [], list[int]()
    message, raw, new = None, b"", b""
    for index, place in enumerate(request.places):
        item = place.item
        if item.message is not message:
            message = item.message
            raw, start, inside = message.raw, message.start, list[Edit]()
            while pending and pending[-1].start < start + len(raw):
                edit = pending.pop()
                inside.append(Edit(edit.start - start, edit.end - start, edit.new))
            raw = json_spans.apply(raw, inside)
            new = b"".join(edit.new for edit in inside)
        if index in places:
            injected.append(hash((new, item.number)))
        digests.append(hash((raw, item.number)))
    return SentItems(hash(request.head), packed(digests), packed(injected))
