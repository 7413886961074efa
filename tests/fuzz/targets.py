"""Targets: everything that is fuzzed, by name, with its check, its cost and its seeds."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.fuzz import around, chat, documents, requests, seeds, shells, streams, work
from tests.fuzz.inputs import write

__all__ = ["TARGETS", "Target"]


class Target(NamedTuple):
    """
    One target.

    Attributes:
        check: Accepts any bytes; raises AssertionError or another error if a rule does not hold.
        work: Runs only the product, to measure how its cost grows; None if `check` has no such
            cost.
        seeds: Inputs of valid shapes.
    """

    check: Callable[[bytes], None]
    work: Callable[[bytes], None] | None
    seeds: Callable[[], Iterator[bytes]]


def _each(documents: Callable[[], Iterator[bytes]]) -> Callable[[], Iterator[bytes]]:
    return lambda: (write([document]) for document in documents())


def _encoded() -> Iterator[bytes]:
    for number in range(len(seeds.CODINGS)):
        for body in seeds.encoded():
            yield write([], bytes([number])) + body


def _refusals() -> Iterator[bytes]:
    for conversation in seeds.refused():
        yield write([conversation.rpartition(b"\x1e")[2]])


TARGETS: dict[str, Target] = {
    "sse": Target(streams.sse, work.sse, _each(seeds.streams)),
    "capture_stream": Target(streams.capture_stream, work.capture_stream, _each(seeds.streams)),
    "capture_json": Target(streams.capture_json, work.capture_json, _each(seeds.answers)),
    "capture_messages": Target(streams.capture_messages, work.capture_messages, seeds.messages),
    "chat_exchange": Target(chat.exchange, None, chat.exchanges),
    "chat_stream": Target(chat.pieces, chat.feed, _each(chat.streams)),
    "coding": Target(streams.coding, work.coding, _encoded),
    "document": Target(documents.document, work.document, _each(seeds.documents)),
    "conversation": Target(requests.conversation, work.conversation, seeds.conversations),
    "cures": Target(requests.cures, work.cures, seeds.refused),
    "refusal": Target(streams.refusal, work.refusal, _refusals),
    "replay": Target(shells.replay, None, seeds.conversations),
    "response_streams": Target(shells.response_streams, None, seeds.sockets),
    "rows": Target(around.rows, work.rows, seeds.rows),
    "scope": Target(around.scope, work.scope, seeds.headers),
}
