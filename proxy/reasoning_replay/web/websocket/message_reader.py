"""What listens to one direction of a WebSocket, and how much it holds while it does."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reasoning_replay.core.wire.ws_frames import Messages, Piece
from reasoning_replay.web.memory_budget import MemoryLease

__all__ = ["Ear"]


@dataclass(frozen=True, slots=True)
class Ear:
    """
    What listens to one direction.

    Attributes:
        is_worth: A cheap search, so that most messages are not looked into.
        read: Returns what goes out for a message.
        skip: Told that a message passes unread, which begins with this.
        share: Of the room, for what is held of an open message; None where there is no bound.
    """

    messages: Messages
    is_worth: Callable[[bytes], bool]
    read: Callable[[Piece], Awaitable[bytes]]
    skip: Callable[[Piece], None]
    share: MemoryLease | None = None

    def feed(self, data: bytes) -> list[Piece]:
        """Take the next bytes; what there is no room for passes unread."""
        pieces = self.messages.feed(data)
        if self.share is not None and not self.share.resize(self.messages.held_bytes):
            pieces += self.messages.let_pass()
            self.share.resize(0)
        return pieces
