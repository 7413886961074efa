"""Targets: every parser of bytes from the wire, by name, with its check and its seeds."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tests.core.dialects.anthropic import streams as messages
from tests.core.dialects.chat import streams as chat
from tests.fuzz import captures, requests, seeds, streams


class Target(NamedTuple):
    """
    One target.

    Attributes:
        check: Accepts any bytes; raises AssertionError or another error if a rule does not hold.
        seeds: Inputs of valid shapes.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


def _stream(new: captures.New, inputs: Callable[[], Iterator[bytes]]) -> Target:
    return Target(partial(captures.is_captured_in_any_pieces, new), inputs)


TARGETS: dict[str, Target] = {
    "sse": Target(streams.sse, seeds.streams),
    "coding": Target(streams.coding, seeds.encoded),
    "document": Target(requests.document, seeds.documents),
    "scope": Target(requests.scope, seeds.headers),
    "refusal": Target(streams.refusal, seeds.refusals),
    "capture_stream": _stream(captures.capture_responses, seeds.streams),
    "capture_json": Target(captures.is_captured_from_json, seeds.answers),
    "capture_messages": Target(captures.is_captured_from_events, seeds.messages),
    "chat_stream": _stream(chat.capture, seeds.chat_streams),
    "messages_stream": _stream(messages.capture, seeds.messages_streams),
}
