"""Items: one unit of history as every dialect presents it to lookup and matching."""

from enum import Enum
from typing import Protocol

__all__ = ["HistoryItem", "Role"]


class Role(Enum):
    """Which side an item belongs to. Lookup and matching need no more of its type than this."""

    REASONING = "reasoning"
    MODEL = "model"  # emitted by a model: a run of reasoning can lead to it
    CLIENT = "client"  # said or done by the other side: users, tools
    FRAME = "frame"  # system and developer: set by the application, not said in the conversation
    REFERENCE = "reference"  # stands for a stored item by id


class HistoryItem(Protocol):
    """One item of a request, as a dialect reads it."""

    @property
    def type(self) -> str:
        """The dialect's word for its kind; "message" for text that one side said."""
        ...

    @property
    def role(self) -> Role:
        """Which side it belongs to."""
        ...

    @property
    def id(self) -> str:
        """The item's own id; "" when absent."""
        ...

    @property
    def call_id(self) -> str:
        """The id that ties a call to its output; "" when absent."""
        ...

    @property
    def name(self) -> str:
        """The tool's name; "" when absent."""
        ...

    @property
    def start(self) -> int:
        """Offset in the request's body, in bytes."""
        ...

    @property
    def end(self) -> int:
        """Offset behind it."""
        ...

    @property
    def content(self) -> bytes:
        """Digest of what the item says or does, equal for all spellings; b"" for nothing."""
        ...

    @property
    def trace(self) -> bytes:
        """Eight bytes that tell it from what another conversation's model said or did."""
        ...

    @property
    def said(self) -> bytes:
        """Digest of what the client's side said with it: a link of the conversation's chain."""
        ...

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""
        ...

    @property
    def chars(self) -> int:
        """About how many characters it says: what is short recurs by chance."""
        ...
