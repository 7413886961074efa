"""Socket messages: the head of one message on a Responses WebSocket, of either side."""

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
    The head of a message, the client's or the upstream's, as raw JSON.

    Attributes:
        stream_id: Absent on the default stream.
        response: In the upstream's messages.
        previous_response_id: In the client's.
    """

    type: Raw = Raw(b"")
    stream_id: Raw = Raw(b"")
    status: Raw = Raw(b"")
    response: Raw = Raw(b"")
    previous_response_id: Raw = Raw(b"")

    @property
    def kind(self) -> str:
        """Its type; "" when it has none."""
        return json_spans.text(self.type) or ""

    @property
    def stream(self) -> str:
        """The name of its stream; "" is the default one."""
        return json_spans.text(self.stream_id) or ""

    @property
    def http_status(self) -> int:
        """The status that an error has over HTTP; 0 when it has none."""
        status = bytes(self.status)
        return int(status) if len(status) == STATUS_DIGITS and status.isdigit() else 0

    @property
    def previous(self) -> str:
        """The id of the response that this one continues; "" when it names none."""
        response = self._response
        given = self.previous_response_id if response is None else response.previous_response_id
        return json_spans.text(given) or ""

    @property
    def response_id(self) -> str:
        """The id of the response that it is about; "" when it names none."""
        response = self._response
        return "" if response is None else json_spans.text(response.id) or ""

    @property
    def _response(self) -> _Response | None:
        if bytes(self.response)[:1] != b"{":
            return None
        return msgspec.json.decode(self.response, type=_Response)


def may_be_request(text: bytes) -> bool:
    """Tell, by a cheap search, whether a client's message may be a `response.create`."""
    return CREATE.encode() in text or b"\\u" in text


def read_message(text: bytes) -> Message | None:
    """Read the head of a message; None when it is no JSON object."""
    try:
        return msgspec.json.decode(text, type=Message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
