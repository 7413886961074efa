"""
Fillers: values that say that there is no reasoning, for upstreams that demand a value.

They cure a history that began elsewhere, or that was deleted: the request is accepted, and the
model works without that reasoning. So they are used only if the operator allows them, only after a
refusal, and they are counted as degraded.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

from reasoning_replay.core.dialects.chat.heal.message_editor import (
    AssistantMessage,
    edited,
    filled,
    messages_of,
)
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request

__all__ = ["FILLERS", "Filler", "with_fillers", "with_known_fillers"]


class Filler(NamedTuple):
    """
    One filler.

    Attributes:
        name: Member that it is the value of.
        value: Its JSON.
        is_of_call: Whether it belongs to the first tool call of a message, and not to the message.
    """

    name: str
    value: bytes
    is_of_call: bool

    def is_lacking(self, message: AssistantMessage) -> bool:
        """Return whether a message has no value where the filler belongs."""
        if self.is_of_call and not message.calls:
            return False
        call = 0 if self.is_of_call else None
        return all((part.call, part.name) != (call, self.name) for part in message.parts)


# By the member that a refusal misses. DeepSeek accepts an empty text wherever it demands one.
# Google documents its value for histories of other models (ai.google.dev, thought signatures).
FILLERS = MappingProxyType(
    {
        filler.name: filler
        for filler in (
            Filler("reasoning_content", b'""', is_of_call=False),
            Filler(
                "extra_content",
                b'{"google":{"thought_signature":"skip_thought_signature_validator"}}',
                is_of_call=True,
            ),
        )
    }
)


def with_known_fillers(body: bytes, names: Iterable[str]) -> tuple[bytes, list[int]]:
    """Return a body with these fillers where they are lacking, and the messages that got one."""
    filled_in: list[int] = []
    for name in names:
        body, indexes = with_fillers(read_request(body, {}), FILLERS[name])
        filled_in += indexes
    return body, filled_in


def with_fillers(request: ChatRequest, filler: Filler) -> tuple[bytes, list[int]]:
    """
    Return the body of a request with a filler in each message that lacks it, and their indexes.

    Every such message gets one, whatever its place, so that the prefix of later requests is the
    same.
    """
    new = {
        index: filled(message, filler.name, filler.value)
        for index, message in messages_of(request).items()
        if filler.is_lacking(message)
    }
    return edited(request, new), list(new)
