"""
Response items: one element of `input` or `output`, parsed only as far as matching needs.

An item of unknown shape must never fail a request, so parsing is lenient: a value of an unexpected
type counts as absent, and an item of an unknown type is still an item.
Types and their keys: `Items` of the Responses API; every vendor adds its own.
"""

import msgspec
from msgspec import Raw
from typing_extensions import override

from reasoning_replay.core.dialects.item_content import (
    canonical,
    chars_of,
    refusal_in,
    text_and_rest,
)
from reasoning_replay.core.dialects.lenient import LenientDecoder
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE
from reasoning_replay.core.wire.text_folding import folded


class _ItemFields(msgspec.Struct, gc=False):
    """The fields that distinguish items; fields that only some items have stay raw."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    role: str | None = None
    name: str | None = None
    status: str | None = None
    content: Raw = NONE
    arguments: Raw = NONE
    input: Raw = NONE
    action: Raw = NONE
    operation: Raw = NONE
    code: Raw = NONE
    queries: Raw = NONE
    output: Raw = NONE
    encrypted_content: Raw = NONE


_HEAD = LenientDecoder(_ItemFields)


# Everything that a model does (calls, programs, searches) has had one of these types so far, or one
# that ends in `_call`. What another agent sent (`agent_message`) is input, as an output is.
_MODEL_TYPES = frozenset({"program", "mcp_list_tools", "mcp_approval_request"})
_FRAMES = frozenset({"system", "developer"})
# Types that are known to have `encrypted_content` (OpenAI Python SDK 3.52; those of several agents
# are a beta, `beta_response_input_item.py`).
_SEALED_TYPES = frozenset(
    {
        *("reasoning", "compaction"),
        *("agent_message", "multi_agent_call", "multi_agent_call_output"),
    }
)
# Types that the API accepts without `id` (OpenAI Python SDK 3.52, `*_param.py`; for messages the
# easy form). It refuses the others without an id, so theirs is never removed.
_ID_IS_OPTIONAL = frozenset(
    {
        "message",
        "function_call",
        "custom_tool_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
    }
)


class ResponsesItem(HistoryItem, gc=False, eq=False):
    """
    One item of a request or a response.

    Attributes:
        raw: JSON, exactly as received.
        type: Value of `type`; "message" if there is a role and no type; "" if unreadable.
        id: Value as received; "" if absent or not a string.
    """

    raw: bytes
    id: str
    _head: _ItemFields
    # Computed on first use
    _blob: str | None = None
    _text: str | None = None

    @property
    def is_tool(self) -> bool:
        """Whether it is an action of the model and not a message."""
        return self.role is Role.MODEL and self.type != "message"

    @property
    def id_is_optional(self) -> bool:
        """Whether the API takes this item without its `id`."""
        return self.type in _ID_IS_OPTIONAL

    @property
    def is_finished(self) -> bool:
        """
        Whether upstream completed it.

        A finished item may have another status than `completed`: images stay `generating`, hosted
        tools may be `failed`, and some upstreams send no status.
        """
        return self.status not in ("incomplete", "in_progress")

    @property
    def status(self) -> str:
        """Value of `status`; "" if absent."""
        return self._head.status or ""

    @property
    def blob(self) -> str:
        """Value of `encrypted_content`; "" if absent or null."""
        if self._blob is None:
            self._blob = json_spans.text(self._head.encrypted_content) or ""
        return self._blob

    @property
    def is_unknown_carrier(self) -> bool:
        """Whether it has encrypted content, and a type of which nothing is known."""
        return self.blob != "" and self.type not in _SEALED_TYPES

    @property
    def is_hollow(self) -> bool:
        """Whether it is reasoning with only an id, which stands for a stored item."""
        if self.role is not Role.REASONING or not self.id or self.blob:
            return False
        return bytes(self._head.content) in (b"", b"null", b"[]")

    @property
    def is_reasoning(self) -> bool:
        """Whether it is reasoning, or a reference to reasoning."""
        role = self.role
        return role is Role.REASONING or (role is Role.REFERENCE and self.id.startswith("rs_"))

    @property
    def is_id_alone(self) -> bool:
        """Whether it is useful only to an upstream that stores the item with its id."""
        return self.is_hollow or self.role is Role.REFERENCE

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""
        role = self.role
        if role is Role.CLIENT or role is Role.FRAME:  # first, because most items have these roles
            return self.type == "compaction"
        return role is not Role.REASONING or self.is_hollow

    @property
    def takes_id(self) -> bool:
        """
        Whether an `id` may be added to it.

        The API reads a message in the easy form (no type, or content that is not a list of output
        parts) as another shape, which has no id.
        """
        if self.type != "message":
            return self.role is Role.MODEL
        return self._head.type == "message" and bytes(self._head.content)[:1] == b"["

    @property
    def text(self) -> str:
        """Folded text of a message; "" for other items and for messages without text."""
        if self._text is None:
            self._text = (
                folded(text_and_rest(self._head.content)[0]) if self.type == "message" else ""
            )
        return self._text

    @override
    def _read_content(self) -> bytes:
        """
        Return a digest that is b"" without content.

        It is equal for a message with joined parts, dropped annotations or normalised text, and for
        a call with differently spelled arguments. For a message without text, its refusal counts.
        """
        if self.type == "message":
            if self.text:
                return digest(b"m", utf8(self.text))
            refusal = folded(refusal_in(self._head.content))
            return digest(b"r", utf8(refusal)) if refusal else b""
        head = self._head
        does = (head.arguments, head.input, head.action, head.operation, head.code, head.queries)
        raw = b"\0".join([b"" if part is NONE else canonical(bytes(part)) for part in does])
        if not self.name and not raw.strip(b"\0"):
            return b""
        return digest(b"c", self.type.encode(), utf8(self.name), raw)

    @override
    def _read_text(self) -> str:
        return text_and_rest(self._head.content)[0] if self.type == "message" else ""

    @override
    def _count_chars(self) -> int:
        if self.type == "message":
            return len(self.text) or len(refusal_in(self._head.content))
        head = self._head
        does = (head.arguments, head.input, head.action, head.operation, head.code, head.output)
        return sum(chars_of(bytes(part)) for part in does if part is not NONE)

    @override
    def _read_said(self) -> bytes:
        if self.type == "message":
            words, rest = text_and_rest(self._head.content)
            return digest(b"u", utf8(folded(words)), *rest)
        if self.type.endswith("_output"):
            # Without call_id: some clients renumber their calls.
            return digest(b"o", self.type.encode(), bytes(self._head.output) or self.raw)
        return digest(b"x", self.raw)


def read_item(raw: bytes, start: int = 0, end: int = 0) -> ResponsesItem:
    """Parse one item; never raises, whatever the bytes are."""
    head = _HEAD.decode(raw) or _ItemFields()
    item_id, kind, said_by = head.id or "", head.type, head.role or ""
    if not kind:
        kind = "message" if said_by else "item_reference" if item_id else ""
    role = _ROLES.get((kind, said_by)) or _role(kind, said_by)
    call_id, name = head.call_id or "", head.name or ""
    return ResponsesItem(kind, role, start, end, call_id, name, raw, item_id, head)


def _role(kind: str, said_by: str) -> Role:
    if kind == "message" and said_by == "assistant":
        return Role.MODEL
    if kind == "reasoning":
        return Role.REASONING
    if kind == "item_reference":
        return Role.REFERENCE
    if kind.endswith("_call") or kind in _MODEL_TYPES:
        return Role.MODEL
    return Role.FRAME if said_by in _FRAMES else Role.CLIENT


# Of most items.
_ROLES = {
    one: _role(*one)
    for one in (
        ("message", "user"),
        ("message", "assistant"),
        ("message", "system"),
        ("message", "developer"),
        ("reasoning", ""),
        ("function_call", ""),
        ("function_call_output", ""),
        ("custom_tool_call", ""),
        ("custom_tool_call_output", ""),
    )
}
