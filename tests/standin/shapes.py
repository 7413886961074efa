"""
Types of the Responses API: request bodies as read, items and responses as written.

Requests are decoded leniently (only the judged members; unknown ones are skipped). Responses are
written in full, in the member order of recorded ones.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

__all__ = [
    "Answer",
    "AnswerError",
    "Body",
    "CustomToolCall",
    "FunctionCall",
    "IncompleteDetails",
    "InputItem",
    "Message",
    "OutputItem",
    "OutputText",
    "Part",
    "Reasoning",
    "ReasoningOptions",
    "ReasoningText",
    "SearchAction",
    "SummaryText",
    "Tool",
    "Usage",
    "WebSearchCall",
    "plain_text",
]

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class Part(Struct):
    """One element of `content` or `summary`; only its text is used."""

    type: str = ""
    text: str | None = None


class InputItem(Struct):
    """One element of `input`, of any type. UNSET means that the member was not sent."""

    type: str | None = None
    id: str | UnsetType | None = UNSET
    role: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Raw = Raw(b"null")
    input: Raw = Raw(b"null")
    content: str | list[Part] | UnsetType | None = UNSET
    summary: list[Part] | UnsetType | None = UNSET
    encrypted_content: str | None = None
    status: str | UnsetType | None = UNSET


class ConversationRef(Struct):
    """The object form of `conversation`."""

    id: str


class ReasoningOptions(Struct):
    """The `reasoning` request member; `summary` asks for readable summaries."""

    effort: str | None = "medium"
    summary: str | None = None


class StreamOptions(Struct):
    """`stream_options`: obfuscation of deltas is on unless the client turns it off."""

    include_obfuscation: bool = True


class Tool(Struct):
    """A declared tool; `parameters` is the JSON schema of a function tool."""

    type: str = ""
    name: str | None = None
    parameters: Raw = Raw(b"null")


class Body(Struct):
    """The body of `POST /v1/responses`, as far as it is judged or echoed."""

    model: str
    input: str | list[InputItem] = msgspec.field(default_factory=list)
    include: list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationRef | None = None
    reasoning: ReasoningOptions | None = None
    stream_options: StreamOptions | None = None
    tools: Raw = Raw(b"[]")
    tool_choice: Raw = Raw(b'"auto"')
    instructions: Raw = Raw(b"null")
    metadata: Raw = Raw(b"{}")
    prompt_cache_key: str | None = None

    @property
    def items(self) -> list[InputItem]:
        """`input` as a list: a bare string is one user message."""
        if isinstance(self.input, str):
            return [InputItem(type="message", role="user", content=self.input)]
        return self.input

    @property
    def stores(self) -> bool:
        """Whether the response is stored: true by default, as recorded."""
        return self.store is not False

    @property
    def conversation_id(self) -> str | None:
        """The conversation named by string or by object, if any."""
        named = self.conversation
        return named.id if isinstance(named, ConversationRef) else named

    @property
    def wants_ciphertext(self) -> bool:
        """Whether `include` asks for `encrypted_content`."""
        return "reasoning.encrypted_content" in (self.include or ())

    def detach(self) -> None:
        """Copy the members that outlive the request: raw members are views of all its bytes."""
        for name in ("instructions", "metadata", "tool_choice", "tools"):
            setattr(self, name, Raw(bytes(getattr(self, name))))

    def declared_tools(self) -> list[Tool]:
        """
        Decode the tools.

        Raises:
            msgspec.ValidationError: `tools` is neither null nor a list of objects.
        """
        return msgspec.json.decode(self.tools, type=list[Tool] | None) or []


class SummaryText(Struct, frozen=True, kw_only=True):
    """One part of a reasoning summary."""

    type: str = "summary_text"
    text: str


class ReasoningText(Struct, frozen=True, kw_only=True):
    """Reasoning as plain text, which only some backends have."""

    type: str = "reasoning_text"
    text: str


class Reasoning(Struct, frozen=True, kw_only=True):
    """A reasoning item. It has no `status`, as on api.openai.com."""

    id: str
    type: str = "reasoning"
    content: tuple[ReasoningText, ...] = ()
    encrypted_content: str | None = None
    summary: tuple[SummaryText, ...] = ()


class OutputText(Struct, frozen=True, kw_only=True):
    """The one content part of an emitted message."""

    type: str = "output_text"
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()
    text: str


class Message(Struct, frozen=True, kw_only=True):
    """An assistant message; `phase` separates a preamble from the final answer."""

    id: str
    type: str = "message"
    status: ItemStatus = "completed"
    content: tuple[OutputText, ...]
    phase: Literal["commentary", "final_answer"]
    role: str = "assistant"


class FunctionCall(Struct, frozen=True, kw_only=True):
    """A call of a client's function; `arguments` is JSON text."""

    id: str
    type: str = "function_call"
    status: ItemStatus = "completed"
    arguments: str
    call_id: str
    name: str


class CustomToolCall(Struct, frozen=True, kw_only=True):
    """A call of a client's free-text tool."""

    id: str
    type: str = "custom_tool_call"
    status: ItemStatus = "completed"
    call_id: str
    input: str
    name: str


class SearchAction(Struct, frozen=True, kw_only=True):
    """The action of a web search."""

    type: str = "search"
    query: str


class WebSearchCall(Struct, frozen=True, kw_only=True):
    """A hosted call: it carries its own result and needs no output item."""

    id: str
    type: str = "web_search_call"
    status: ItemStatus = "completed"
    action: SearchAction | UnsetType = UNSET


OutputItem = Reasoning | Message | FunctionCall | CustomToolCall | WebSearchCall


class CachedTokens(Struct, frozen=True):
    """`input_tokens_details`."""

    cached_tokens: int = 0


class ReasoningTokens(Struct, frozen=True):
    """`output_tokens_details`."""

    reasoning_tokens: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """Token counts; estimates, four bytes per token."""

    input_tokens: int
    input_tokens_details: CachedTokens = CachedTokens()
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class AnswerError(Struct, frozen=True):
    """`response.error` of a failed response."""

    code: str
    message: str


class IncompleteDetails(Struct, frozen=True):
    """Why a response stopped early."""

    reason: str


class TextFormat(Struct, frozen=True):
    """`text.format`."""

    type: str = "text"


class TextOptions(Struct, frozen=True):
    """The echoed `text` member."""

    format: TextFormat = TextFormat()
    verbosity: str = "medium"


class Answer(Struct, frozen=True, kw_only=True):
    """The response object, also inside lifecycle events."""

    id: str
    object: str = "response"
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed"]
    background: bool = False
    completed_at: int | None = None
    conversation: ConversationRef | None = None
    error: AnswerError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: Raw = Raw(b"null")
    max_output_tokens: int | None = None
    model: str
    output: tuple[OutputItem, ...] = ()
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    reasoning: ReasoningOptions
    safety_identifier: str | None = None
    service_tier: str = "default"
    store: bool = True
    temperature: float = 1.0
    text: TextOptions = TextOptions()
    tool_choice: Raw = Raw(b'"auto"')
    tools: Raw = Raw(b"[]")
    top_logprobs: int = 0
    top_p: float = 1.0
    truncation: str = "disabled"
    usage: Usage | None = None
    user: str | None = None
    metadata: Raw = Raw(b"{}")


def plain_text(content: str | list[Part] | UnsetType | None) -> str:
    """Return the text of a message, in any of its forms; "" if it has none."""
    if isinstance(content, str):
        return content
    if content is None or content is UNSET:
        return ""
    return "".join(part.text or "" for part in content)
