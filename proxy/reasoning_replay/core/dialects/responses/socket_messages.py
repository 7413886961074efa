"""Socket messages: the head of one message on a Responses WebSocket, in either direction."""

import msgspec
from msgspec import Raw

from reasoning_replay.core.wire import json_spans

__all__ = ["CREATE", "Message", "may_be_request", "read_message"]

CREATE = "response.create"
STATUS_DIGITS = 3


class _Response(msgspec.Struct):
    id: Raw = Raw(b"")
    previous_response_id: Raw = Raw(b"")


class Message(msgspec.Struct):
    """
    The head of a message from the client or from upstream, as raw JSON.

    Attributes:
        stream_id: Absent on the default stream.
        response: Only in messages from upstream.
        previous_response_id: Only in messages from the client.
    """

    type: Raw = Raw(b"")
    stream_id: Raw = Raw(b"")
    status: Raw = Raw(b"")
    response: Raw = Raw(b"")
    previous_response_id: Raw = Raw(b"")

    @property
    def kind(self) -> str:
        """Message type; "" if it has none."""
        return json_spans.text(self.type) or ""

    @property
    def stream(self) -> str:
        """Stream name; "" is the default stream."""
        return json_spans.text(self.stream_id) or ""

    @property
    def http_status(self) -> int:
        """Status that the error would have over HTTP; 0 if it has none."""
        status = bytes(self.status)
        return int(status) if len(status) == STATUS_DIGITS and status.isdigit() else 0

    @property
    def previous(self) -> str:
        """Id of the response that this one continues; "" if none is named."""
        response = self._response
        given = self.previous_response_id if response is None else response.previous_response_id
        return json_spans.text(given) or ""

    @property
    def response_id(self) -> str:
        """Id of the response that the message is about; "" if none is named."""
        response = self._response
        return "" if response is None else json_spans.text(response.id) or ""

    @property
    def _response(self) -> _Response | None:
        if bytes(self.response)[:1] != b"{":
            return None
        return msgspec.json.decode(self.response, type=_Response)


def may_be_request(text: bytes) -> bool:
    """Return, by a cheap search, whether a client message may be a `response.create`."""
    return CREATE.encode() in text or b"\\u" in text


def read_message(text: bytes) -> Message | None:
    """Decode the head of a message; None if it is not a JSON object."""
    try:
        return msgspec.json.decode(text, type=Message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
