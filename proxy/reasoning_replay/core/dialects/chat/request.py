"""Parsed request: the body of a request to `/chat/completions`, parsed as far as needed."""

from dataclasses import dataclass
from typing import ClassVar

from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.history.items import Role

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
