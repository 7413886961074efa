"""Parsed request: the body of a request to `/messages`, parsed as far as injection needs it."""

from dataclasses import dataclass

import msgspec
from typing_extensions import override

from reasoning_replay.core.dialects.anthropic.items import MessagesItem, read_message
from reasoning_replay.core.dialects.anthropic.routes import model_in
from reasoning_replay.core.dialects.digested_item import text_and_rest
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.text_folding import folded


class _Thinking(msgspec.Struct, gc=False):
    """The field of `thinking` that matters."""

    type: object = None


_THINKING = msgspec.json.Decoder(_Thinking)


@dataclass(slots=True)
class MessagesRequest(ParsedRequest[MessagesItem]):
    """One parsed request; `places` is [] if `messages` is missing or not an array."""

    @property
    @override
    def head(self) -> tuple[bytes, ...]:
        return self.raw("system"), self.raw("tools")

    @property
    @override
    def is_switched_off(self) -> bool:
        # Without the switch, newer models reason.
        try:
            return _THINKING.decode(self.raw("thinking")).type == "disabled"
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return False

    @property
    def messages(self) -> list[tuple[int, int]]:
        """Byte range of each message; of a view only the new ones."""
        if self.elements is not None:
            return [*self.elements]
        if not self.raw("messages").startswith(b"["):
            return []
        place = json_spans.place_of(self.values, self.body, "messages")
        return json_spans.elements(self.body, place.start, place.end)


def _note_frame(request: MessagesRequest) -> None:
    if request.raw("system")[:1] in (b'"', b"["):
        words, rest = text_and_rest(request.values["system"])
        if words or rest:
            said = folded(words).encode("utf-8", "surrogatepass")
            request.frame = digest(b"system", said, *rest)


read_request = RequestReader(MessagesRequest, "messages", read_message, _note_frame, model_in)
