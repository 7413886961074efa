"""
Families: how the vendors of Chat Completions differ, as data, one row each.

Rows marked (R) are from recorded traffic, the others from public issue reports.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

__all__ = ["FAMILIES", "CallIndex", "Family", "FamilyName", "Form", "Spelling"]

FamilyName = Literal[
    "deepseek", "kimi", "gemini", "openrouter", "lenient", "litellm", "groq", "cerebras"
]
Form = Literal["reasoning_content", "reasoning", "details", "blocks", "signatures"]
"""
Where an answer carries reasoning.

A text of the message, `reasoning` with `reasoning_details`, `reasoning_content` with
`thinking_blocks`, or thought signatures on calls and messages.
"""
CallIndex = Literal["own", "zero", "none"]
"""The `index` of a streamed call: its own, always 0 with a new id, or missing (recorded)."""
Spelling = Literal["compact", "spaced", "ascii"]
"""JSON without spaces in UTF-8; with spaces; with spaces, and every other character escaped."""


class Family(Struct, frozen=True, kw_only=True):
    """
    One vendor's dialect of Chat Completions.

    Attributes:
        name: Decides its rules (rules.py), its deltas (deltas.py) and its errors (refusals.py).
        model: A model of this vendor that reasons.
        path: The path of its base URL.
        profile: The profile of the proxy that fits, if it has another name.
        form: Where its answers carry reasoning.
        ids: The form of the ids of its calls (model.py).
        call_index: The `index` of its calls in a stream.
        spelling: How its answers are written.
        unreasoned: The value that `form` has in an answer without reasoning; None for none.
        refuses: Members of an assistant message that its requests may not have.
        always_signs: Whether a response is signed even if the model did not think (Gemini 3).
        comments: Comments that its streams start with.
        blank_lines: Whether a JSON answer starts with blank lines.
        calls_stop: Whether `finish_reason` is "stop" although tools are called.
    """

    name: FamilyName
    model: str
    path: str = "/v1"
    profile: str = ""
    form: Form = "reasoning_content"
    ids: str = "random"
    call_index: CallIndex = "own"
    spelling: Spelling = "compact"
    unreasoned: str | None = None
    refuses: frozenset[str] = frozenset()
    always_signs: bool = False
    comments: tuple[str, ...] = ()
    blank_lines: bool = False
    calls_stop: bool = False


_FOREIGN_TO_ALL = frozenset({"reasoning_details", "extra_content", "thought_signature"})

FAMILIES: Mapping[FamilyName, Family] = {
    family.name: family
    for family in (
        # (R) The first delta is `reasoning_content: ""`, so an answer without reasoning has "" too.
        Family(
            name="deepseek",
            model="deepseek-v4-flash",
            path="/v1",
            ids="deepseek",
            unreasoned="",
            comments=("keep-alive",),
        ),
        # MoonshotAI/kimi-cli#2498: "" means "reasoned, but empty", and must be sent again.
        Family(name="kimi", model="kimi-k3", profile="moonshot", ids="kimi", unreasoned=""),
        # (R) Calls have no index, and the reason after them is "stop".
        Family(
            name="gemini",
            model="gemini-3.8-flash",
            path="/v1beta/openai",
            form="signatures",
            ids="google",
            call_index="none",
            always_signs=True,
            calls_stop=True,
        ),
        # (R) Blank lines and comments while the model thinks.
        Family(
            name="openrouter",
            model="google/gemini-3.1-pro-preview",
            path="/api/v1",
            form="details",
            ids="tool",
            always_signs=True,
            comments=("OPENROUTER PROCESSING", "OPENROUTER PROCESSING"),
            blank_lines=True,
        ),
        # Any local server: it reads what its chat template keeps, and refuses nothing.
        Family(name="lenient", model="qwen3.6-27b", profile="generic", spelling="ascii"),
        # (R) LiteLLM 1.110.2 in front of Claude: without its blocks, it switches thinking off.
        Family(name="litellm", model="claude-sonnet-4-5", profile="generic", form="blocks"),
        Family(
            name="groq",
            model="openai/gpt-oss-120b",
            path="/openai/v1",
            form="reasoning",
            ids="uuid",
            refuses=_FOREIGN_TO_ALL | {"reasoning_content"},
        ),
        Family(
            name="cerebras",
            model="zai-glm-4.7",
            form="reasoning",
            ids="short",
            refuses=_FOREIGN_TO_ALL | {"reasoning_content"},
        ),
    )
}
