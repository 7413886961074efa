"""Parsed request: the body of a request to `/messages`, parsed as far as injection needs it."""

import re
from dataclasses import dataclass
from typing import ClassVar

from reasoning_replay.core.dialects.anthropic.items import MessagesItem, read_message
from reasoning_replay.core.dialects.item_content import text_and_rest
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.text_folding import folded


@dataclass(slots=True)
class MessagesRequest(ParsedRequest[MessagesItem]):
    """One parsed request."""

    switches: ClassVar = {"thinking": (("type", "disabled"),)}  # without it, newer models reason

    @property
    def messages(self) -> list[tuple[int, int]]:
        """Byte range of each message; of a view only the new ones."""
        return self.spans("messages")


def _note_frame(request: MessagesRequest) -> None:
    if request.raw("system")[:1] in (b'"', b"["):
        words, rest = text_and_rest(request.values["system"])
        if words or rest:
            said = folded(words).encode("utf-8", "surrogatepass")
            request.frame = digest(b"system", said, *rest)


# On Google Cloud, `count-tokens` stands for the model that the body names.
_MODEL = re.compile(
    r"/models?/(?!count-tokens\b[:%])([^/]+?)"
    r"(?:/invoke|(?::|%3[Aa])(?:rawPredict|streamRawPredict))\Z"
)
read_request = RequestReader(MessagesRequest, "messages", read_message, _note_frame, _MODEL)
