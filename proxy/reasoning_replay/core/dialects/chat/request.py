"""Parsed request: the body of a request to `/chat/completions`, parsed as far as needed."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.dialects.request_body import ParsedRequest, read_items, read_values
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.tenancy.scope import hint_of

__all__ = ["ChatRequest", "ParsedMessages", "read_request"]

ParsedMessages = HistoryPrefix[ChatItem]

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
    def head(self) -> tuple[bytes, ...]:
        """JSON of the members that a model reads before the messages."""
        return self.raw("tools"), self.raw("functions")

    @property
    def is_switched_off(self) -> bool:
        """Whether it switches reasoning off."""
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


def read_request(
    body: bytes,
    headers: Mapping[str, str],
    cache: PrefixCache[ParsedMessages] | None = None,
    tenant: bytes = b"",
) -> ChatRequest:
    """
    Parse the body of a request to `/chat/completions`.

    Args:
        body: UTF-8 JSON, after content decoding; the caller limits its size.
        headers: Request headers, for the name of the conversation.
        cache: Parsed prefixes; the request is added to it.
        tenant: Owner of the request; prefixes of other tenants are never used.

    Raises:
        TooMany: The request has too many values or items to process.
        Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
            caller forwards such a body unchanged, and upstream reports its own error.

    Cost: linear; about three C passes over the body, and some Python for each new message.
    """
    body, values = read_values(body)
    request = ChatRequest("", b"", body=body, values=values)
    request.model = request.text("model")
    request.hint = hint_of(headers, request.text)
    if request.raw("messages").startswith(b"["):
        read_items(request, "messages", read_message, cache, tenant)
    return request
