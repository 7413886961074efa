"""
Items: one element of `input` or `output`, parsed as far as recognising it needs.

An item of a shape nobody has seen yet must never cost a request, so reading fails soft:
what is not the expected type counts as absent, and an unknown type is still an item.
Types and their keys: `Items` of the Responses API; every vendor adds some of its own.
"""

import re
from typing import Any, Literal

import msgspec
from msgspec import Raw

from reasoning_replay.core.history.fingerprints import TRACE_BYTES, is_distinctive
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.json_spans import NONE, LenientDecoder
from reasoning_replay.core.wire.text_folding import folded

__all__ = ["ResponsesItem", "read_item"]


class _ItemFields(msgspec.Struct, gc=False):
    """The fields that tell an item from another; what only some items have stays raw."""

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


class _Words(msgspec.Struct, gc=False):
    """A part of a message that is words."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class _ContentPart(msgspec.Struct, gc=False):
    type: Raw = NONE
    text: Raw = NONE
    refusal: Raw = NONE


_HEAD = msgspec.json.Decoder(_ItemFields)
_LOOSE_HEAD = LenientDecoder(_ItemFields)
_TEXTS = ("type", "id", "call_id", "role", "name", "status")
_WORDS = msgspec.json.Decoder(list[_Words])
_PARTS = msgspec.json.Decoder(list[Raw])
_PART = msgspec.json.Decoder(_ContentPart)
_WHOLE_PARTS = msgspec.json.Decoder(list[_ContentPart])
_SYNTAX = b'"\\{}[]:, '  # of JSON: what every call has says nothing
_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


# Calls, programs, searches: everything that a model does ends in one of these, so far.
_MODEL_TYPE = re.compile(r".*_call|program|mcp_list_tools|mcp_approval_request|agent_message")
# Types that the API accepts without `id` (OpenAI Python SDK 3.52, `*_param.py`; for messages the
# easy form). The others would be refused without it, so theirs is never taken away.
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


class ResponsesItem(msgspec.Struct, gc=False, eq=False):
    """
    One item of a request or an answer.

    Attributes:
        raw: Its JSON, exactly as it came.
        type: Its `type`; "message" when there is a role and no type; "" when unreadable.
        id, call_id, name: As given; "" when absent or not a string.
        start, end: Where it stands in the document it was read from, in bytes.

    A history has thousands: a struct that the garbage collector does not look at is what they cost
    least as. It refers to nothing that refers to it.
    """

    raw: bytes
    start: int
    end: int
    type: str
    role: Role
    id: str
    call_id: str
    name: str
    _head: _ItemFields
    # What is made when it is asked for...
    _blob: str | None = None
    _text: str | None = None
    _content: bytes | None = None
    _said: bytes | None = None
    _trace: bytes | None = None

    @property
    def is_tool(self) -> bool:
        """Whether it is something the model did, rather than said."""
        return self.role is Role.MODEL and self.type != "message"

    @property
    def id_is_optional(self) -> bool:
        """Whether the API takes this item without its `id`."""
        return self.type in _ID_IS_OPTIONAL

    @property
    def is_finished(self) -> bool:
        """
        Whether upstream had nothing to add to it.

        Finished items carry other words than `completed` too: images stay `generating`, hosted
        tools may have `failed`, and some upstreams give no status.
        """
        return self.status not in ("incomplete", "in_progress")

    @property
    def status(self) -> str:
        """Its `status`; "" when absent."""
        return self._head.status or ""

    @property
    def blob(self) -> str:
        """Its `encrypted_content`; "" when absent or null."""
        if self._blob is None:
            self._blob = json_spans.text(self._head.encrypted_content) or ""
        return self._blob

    @property
    def is_hollow(self) -> bool:
        """Whether it is reasoning with nothing in it but its id: it stands for a stored item."""
        if self.role is not Role.REASONING or not self.id or self.blob:
            return False
        return bytes(self._head.content) in (b"", b"null", b"[]")

    @property
    def is_reasoning(self) -> bool:
        """Whether it is reasoning, or a reference that names some."""
        role = self.role
        return role is Role.REASONING or (role is Role.REFERENCE and self.id.startswith("rs_"))

    @property
    def is_id_alone(self) -> bool:
        """Whether it means nothing but to an upstream that keeps the item of its id."""
        return self.is_hollow or self.role is Role.REFERENCE

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""
        role = self.role
        if role is Role.CLIENT or role is Role.FRAME:  # first, because most items are one of these
            return self.type == "compaction"
        return role is not Role.REASONING or self.is_hollow

    @property
    def takes_id(self) -> bool:
        """
        Whether an `id` may be added to it.

        A message in the easy form (no type, or content that is not a list of output parts) is
        read by the API as another shape, which knows no id.
        """
        if self.type != "message":
            return self.role is Role.MODEL
        return self._head.type == "message" and bytes(self._head.content)[:1] == b"["

    @property
    def text(self) -> str:
        """A message's text, folded; "" for other items and messages without."""
        if self._text is None:
            self._text = folded(_said(self._head.content)[0]) if self.type == "message" else ""
        return self._text

    @property
    def content(self) -> bytes:
        """
        What it says or does, as a digest that survives what clients do to items.

        Equal for a message whose parts were joined, whose annotations were dropped or whose text
        was normalised, and for a call whose arguments were spelled differently; b"" where nothing
        was said. A message without text says what it refuses with.
        """
        if self._content is None:
            self._content = self._read_content()
        return self._content

    @property
    def chars(self) -> int:
        """About how many characters it says: what is short recurs by chance."""
        if self.type == "message":
            return len(self.text) or len(_refusal(self._head.content))
        head = self._head
        does = (head.arguments, head.input, head.action, head.operation, head.code, head.output)
        return sum(len(bytes(part).translate(None, _SYNTAX)) for part in does if part is not NONE)

    def _read_content(self) -> bytes:
        if self.type == "message":
            if self.text:
                return digest(b"m", self.text.encode("utf-8", "surrogatepass"))
            refusal = folded(_refusal(self._head.content))
            return digest(b"r", refusal.encode("utf-8", "surrogatepass")) if refusal else b""
        head = self._head
        does = (head.arguments, head.input, head.action, head.operation, head.code, head.queries)
        raw = b"\0".join([b"" if part is NONE else _canonical(bytes(part)) for part in does])
        if not self.name and not raw.strip(b"\0"):
            return b""
        return digest(b"c", self.type.encode(), self.name.encode("utf-8", "surrogatepass"), raw)

    @property
    def trace(self) -> bytes:
        """Eight bytes that tell it from what another conversation's model said or did."""
        if self._trace is None:
            self._trace = self._read_trace()[:TRACE_BYTES]
        return self._trace

    def _read_trace(self) -> bytes:
        if is_distinctive(self.call_id, self.name):
            return digest(b"i", self.call_id.encode("utf-8", "surrogatepass"))
        return self.content or digest(b"t", self.type.encode("utf-8", "surrogatepass"))

    @property
    def said(self) -> bytes:
        """What the client's side said with it, as a digest: the links of a conversation's chain."""
        if self._said is None:
            self._said = self._read_said()
        return self._said

    def _read_said(self) -> bytes:
        if self.type == "message":
            words, rest = _said(self._head.content)
            return digest(b"u", folded(words).encode("utf-8", "surrogatepass"), *rest)
        if self.type.endswith("_output"):
            # Without call_id: some clients number their calls anew.
            return digest(b"o", self.type.encode(), bytes(self._head.output) or self.raw)
        return digest(b"x", self.raw)


def read_item(raw: bytes, start: int = 0, end: int = 0) -> ResponsesItem:
    """Read one item; never raises, whatever the bytes are."""
    try:
        head = _HEAD.decode(raw)
    except _ERRORS:
        head = _loosely(raw)
    item_id, kind, said_by = head.id or "", head.type, head.role or ""
    if not kind:
        kind = "message" if said_by else "item_reference" if item_id else ""
    role = _ROLES.get((kind, said_by)) or _role(kind, said_by)
    call_id, name = head.call_id or "", head.name or ""
    return ResponsesItem(raw, start, end, kind, role, item_id, call_id, name, head)


def _loosely(raw: bytes) -> _ItemFields:
    """Read a head of which some field is not of the type that it should be, or nothing at all."""
    try:
        members = _LOOSE_HEAD.decode(raw)
    except _ERRORS:
        return _ItemFields()
    texts: dict[str, Any] = {name: json_spans.text(members.pop(name)) for name in _TEXTS}
    return _ItemFields(**texts | members)


def _role(kind: str, said_by: str) -> Role:
    if kind == "message":
        if said_by == "assistant":
            return Role.MODEL
        return Role.FRAME if said_by in ("system", "developer") else Role.CLIENT
    if kind == "reasoning":
        return Role.REASONING
    if kind == "item_reference":
        return Role.REFERENCE
    if _MODEL_TYPE.fullmatch(kind):
        return Role.MODEL
    return Role.FRAME if said_by in ("system", "developer") else Role.CLIENT


# Those that histories are made of, so that most items are looked up and not matched.
_ROLES = {
    (kind, said_by): _role(kind, said_by)
    for kind, said_by in (
        ("message", "assistant"),
        ("message", "user"),
        ("message", "developer"),
        ("message", "system"),
        ("reasoning", ""),
        ("function_call", ""),
        ("function_call_output", ""),
        ("custom_tool_call", ""),
        ("custom_tool_call_output", ""),
    )
}


def _said(content: Raw) -> tuple[str, list[bytes]]:
    """Split a message's content into its words and the raw parts that are not words."""
    raw = bytes(content)
    words = json_spans.text(raw)
    if words is not None:
        return words, []
    try:
        return "".join([part.text for part in _WORDS.decode(raw)]), []
    except _ERRORS:
        pass  # some part is not words, or not as it should be
    try:
        parts = _PARTS.decode(raw)
    except _ERRORS:
        return "", [raw]
    said: list[str] = []
    rest: list[bytes] = []
    for part in parts:
        try:
            head = _PART.decode(part)
        except _ERRORS:
            rest.append(bytes(part))
            continue
        words = json_spans.text(head.text)
        if words is not None and json_spans.text(head.type) in _TEXT_PARTS:
            said.append(words)
        else:
            rest.append(bytes(head.refusal) or bytes(part))
    return "".join(said), rest


def _refusal(content: Raw) -> str:
    """Return what a message refuses with, in place of text."""
    try:
        parts = _WHOLE_PARTS.decode(content)
    except _ERRORS:
        return ""
    refused = [part.refusal for part in parts if json_spans.text(part.type) == "refusal"]
    return "".join([json_spans.text(words) or "" for words in refused])


def _canonical(raw: bytes) -> bytes:
    """Return JSON spelled one way, also where it is wrapped in a string (once or twice)."""
    value = raw
    for _ in range(3):
        inner = json_spans.text(value)
        if inner is None:
            break
        value = inner.encode("utf-8", "surrogatepass")
    try:
        return msgspec.json.encode(msgspec.json.decode(value), order="sorted")
    except (*_ERRORS, ValueError, OverflowError):
        return value
