"""Targets: every parser of bytes from the wire, by name, with its check, its cost and its seeds."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tests.fuzz import captures, credentials, documents, seeds, streams

__all__ = ["TARGETS", "Target"]


class Target(NamedTuple):
    """
    One target.

    Attributes:
        check: Accepts any bytes; raises AssertionError or another error if a rule does not hold.
        work: Runs only the product, to measure how its cost grows.
        seeds: Inputs of valid shapes.
    """

    check: Callable[[bytes], None]
    work: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


def _stream(new: captures.New, inputs: Callable[[], Iterator[bytes]]) -> Target:
    check = partial(captures.is_captured_in_any_pieces, new)
    return Target(check, partial(captures.feed, new), inputs)


TARGETS: dict[str, Target] = {
    "sse": Target(streams.sse, streams.parse_events, seeds.streams),
    "coding": Target(streams.coding, streams.decode_all, seeds.encoded),
    "document": Target(documents.document, documents.locate, seeds.documents),
    "scope": Target(credentials.scope, credentials.compute, seeds.headers),
    "refusal": Target(streams.refusal, streams.diagnose_it, seeds.refusals),
    "capture_stream": _stream(captures.capture_responses, seeds.streams),
    "capture_json": Target(captures.is_captured_from_json, captures.read_json, seeds.answers),
    "capture_messages": Target(captures.is_captured_from_events, captures.hear_all, seeds.messages),
    "chat_stream": _stream(captures.capture_chat, seeds.chat_streams),
    "messages_stream": _stream(captures.capture_messages, seeds.messages_streams),
}
