"""Socket messages: the head of one message on a Responses WebSocket, in either direction."""

import msgspec

from reasoning_replay.core.dialects.lenient import LenientDecoder

CREATE = "response.create"
_STATUSES = range(100, 1000)


class _Response(msgspec.Struct):
    id: str | None = None
    previous_response_id: str | None = None


class Message(msgspec.Struct):
    """
    The head of a message from the client or from upstream; a value of another type is absent.

    Attributes:
        stream_id: Absent on the default stream.
        response: Only in messages from upstream.
        previous_response_id: Only in messages from the client.
    """

    type: str | None = None
    stream_id: str | None = None
    status: int | None = None
    response: _Response | None = None
    previous_response_id: str | None = None

    @property
    def kind(self) -> str:
        """Message type; "" if it has none."""
        return self.type or ""

    @property
    def stream(self) -> str:
        """Stream name; "" is the default stream."""
        return self.stream_id or ""

    @property
    def http_status(self) -> int:
        """Status that the error would have over HTTP; 0 if it has none."""
        status = self.status or 0
        return status if status in _STATUSES else 0

    @property
    def previous(self) -> str:
        """Id of the response that this one continues; "" if none is named."""
        named = self.response or self
        return named.previous_response_id or ""

    @property
    def response_id(self) -> str:
        """Id of the response that the message is about; "" if none is named."""
        return self.response.id or "" if self.response is not None else ""


read_message = LenientDecoder(Message).decode


def may_be_request(text: bytes) -> bool:
    """Return, by a cheap search, whether a client message may be a `response.create`."""
    return CREATE.encode() in text or b"\\u" in text
