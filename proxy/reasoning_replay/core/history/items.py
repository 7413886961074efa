"""Items: the interface by which every dialect presents a unit of history to lookup and matching."""

from enum import Enum
from typing import Protocol


class Role(Enum):
    """Side that an item belongs to, for lookup and matching."""

    REASONING = "reasoning"
    MODEL = "model"  # emitted by a model: a run of reasoning can lead to it
    CLIENT = "client"  # from the client's side: users and tools
    FRAME = "frame"  # system and developer messages: set by the application
    REFERENCE = "reference"  # refers to an item that upstream stores, by id


class HistoryItem(Protocol):
    """One item of a request, parsed by a dialect."""

    @property
    def raw(self) -> bytes:
        """JSON of the item, as received."""

    @property
    def type(self) -> str:
        """The dialect's type name; "message" for the text of either side."""

    @property
    def role(self) -> Role:
        """Side that it belongs to."""

    @property
    def id(self) -> str:
        """The item's own id; "" when absent."""

    @property
    def call_id(self) -> str:
        """The id that links a call to its output; "" when absent."""

    @property
    def name(self) -> str:
        """The tool's name; "" when absent."""

    @property
    def start(self) -> int:
        """Byte offset of the item in the request's body."""

    @property
    def end(self) -> int:
        """Byte offset after the item."""

    @property
    def content(self) -> bytes:
        """Digest of the item's text or action, equal for all spellings; b"" if it is empty."""

    @property
    def trace(self) -> bytes:
        """Eight bytes that distinguish it from a model's items in other conversations."""

    @property
    def said(self) -> bytes:
        """Digest of the client side's content: a link of the conversation's chain."""

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""

    @property
    def chars(self) -> int:
        """Approximate length of its content in characters: short content recurs by chance."""
