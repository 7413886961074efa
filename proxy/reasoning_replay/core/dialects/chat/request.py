"""Parsed request: the body of a request to `/chat/completions`, parsed as far as needed."""

from dataclasses import dataclass

import msgspec
from typing_extensions import override

from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader

# Values by which a request switches reasoning off, by their place; () is the value itself.
# Sources: the vendors' references (DeepSeek, Z.ai and Moonshot `thinking`; Qwen and SiliconFlow
# `enable_thinking`; vLLM and SGLang `chat_template_kwargs`; OpenAI, Gemini, Groq and Cerebras
# `reasoning_effort`; OpenRouter and Vercel `reasoning`; Ollama `think`).
_SWITCHES: dict[str, tuple[tuple[str, object], ...]] = {
    "thinking": (("type", "disabled"), ("", False)),
    "enable_thinking": (("", False),),
    "chat_template_kwargs": (("enable_thinking", False), ("thinking", False)),
    "reasoning_effort": (("", "none"),),
    "reasoning": (("enabled", False), ("effort", "none")),
    "think": (("", False),),
}


@dataclass(slots=True)
class ChatRequest(ParsedRequest[ChatItem]):
    """One parsed request; `places` is [] if `messages` is missing or not an array."""

    may_rename: bool = True
    may_merge: bool = True

    @property
    @override
    def head(self) -> tuple[bytes, ...]:
        return self.raw("tools"), self.raw("functions")

    @property
    @override
    def is_switched_off(self) -> bool:
        return any(_is_off(self.raw(key), key) for key in _SWITCHES if key in self.values)


def _is_off(raw: bytes, key: str) -> bool:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    for name, off in _SWITCHES[key]:
        given = value.get(name) if name and isinstance(value, dict) else value
        if given is off or (isinstance(off, str) and given == off):
            return True
    return False


read_request = RequestReader(ChatRequest, "messages", read_message)
