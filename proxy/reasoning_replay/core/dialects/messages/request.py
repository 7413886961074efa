"""Parsed request: the body of a request to `/messages`, parsed as far as injection needs it."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from reasoning_replay.core.dialects.contents import text_and_rest
from reasoning_replay.core.dialects.messages.items import MessagesItem, read_message
from reasoning_replay.core.dialects.messages.routes import model_in
from reasoning_replay.core.dialects.request_body import ParsedRequest, read_items, read_values
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.tenancy.scope import hint_of
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.text_folding import folded

__all__ = ["MessagesRequest", "ParsedMessages", "read_request"]

ParsedMessages = HistoryPrefix[MessagesItem]


class _Thinking(msgspec.Struct, gc=False):
    """The field of `thinking` that matters."""

    type: object = None


_THINKING = msgspec.json.Decoder(_Thinking)


@dataclass(slots=True)
class MessagesRequest(ParsedRequest[MessagesItem]):
    """One parsed request; `places` is [] if `messages` is missing or not an array."""

    @property
    def head(self) -> tuple[bytes, ...]:
        """JSON of the members that a model reads before the messages."""
        return self.raw("system"), self.raw("tools")

    @property
    def is_switched_off(self) -> bool:
        """Whether it switches reasoning off. Without the switch, newer models reason."""
        try:
            return _THINKING.decode(self.raw("thinking")).type == "disabled"
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return False

    @property
    def messages(self) -> list[tuple[int, int]]:
        """Byte range of each message."""
        if not self.raw("messages").startswith(b"["):
            return []
        place = json_spans.place_of(self.values, self.body, "messages")
        return json_spans.elements(self.body, place.start, place.end)


def read_request(
    body: bytes,
    headers: Mapping[str, str],
    cache: PrefixCache[ParsedMessages] | None = None,
    tenant: bytes = b"",
    path: str = "",
) -> MessagesRequest:
    """
    Parse the body of a request to `/messages`.

    Args:
        body: UTF-8 JSON, after content decoding; the caller limits its size.
        headers: Request headers, for the name of the conversation.
        cache: Parsed prefixes; the request is added to it.
        tenant: Owner of the request; prefixes of other tenants are never used.
        path: Path of the request, which names the model in some clouds.

    Raises:
        TooMany: The request has too many values or items to process.
        Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
            caller forwards such a body unchanged, and upstream reports its own error.

    Cost: linear; about three C passes over the body, and some Python for each new block.
    """
    body, values = read_values(body)
    request = MessagesRequest("", b"", body=body, values=values)
    request.model = request.text("model") or model_in(path)
    request.hint = hint_of(headers, request.text)
    if request.raw("system")[:1] in (b'"', b"["):
        words, rest = text_and_rest(values["system"])
        if words or rest:
            said = folded(words).encode("utf-8", "surrogatepass")
            request.frame = digest(b"system", said, *rest)
    if request.raw("messages").startswith(b"["):
        read_items(request, "messages", read_message, cache, tenant)
    return request
