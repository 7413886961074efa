"""
Work of the product alone, without checks, to measure how its cost grows.

`pumped` repeats a part of an input; `growth` measures. Four times the input may cost four times as
much, not sixteen times.
"""

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.dialects.responses.heal.cure import cure, lookups_for
from reasoning_replay.core.dialects.responses.heal.diagnosis import diagnose
from reasoning_replay.core.dialects.responses.heal.repair import Repair, Repairs, repair
from reasoning_replay.core.dialects.responses.include import include_edit
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.history.lookup_keys import LookupResult, choose, keys_of_turn
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.turns import Context, records_of, turns_of
from reasoning_replay.core.tenancy.jwt_claims import claims_of
from reasoning_replay.core.tenancy.scope import Scoping, read_parts
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.content_coding import Undecodable, decoder_for
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.core.wire.sse import Events

from tests.fuzz.inputs import HEAD_BYTES, SEPARATOR, read, read_records
from tests.fuzz.requests import Played, plain_read
from tests.fuzz.seeds import CODINGS

__all__ = ["SIZES", "Pump", "growth", "pumped"]

# Bytes of an input, each four times the one before.
SIZES = (32 * 1024, 128 * 1024, 512 * 1024)
# About one read from the network, in bytes.
CHUNK_BYTES = 4096
_MAX_BYTES = 1 << 24
_ORIGIN = Origin(Context(is_known=True), "gpt-5.4")
_REPAIRS = Repairs(frozenset(Repair), lambda _: False)
# Shortest measurement that counts, in seconds.
_NOTICEABLE_S = 0.02
# Sixteen is quadratic, four is linear; memory beyond the CPU caches costs more than that.
SUPERLINEAR = 9.0


class Pump(NamedTuple):
    """
    A scheme to make an input longer: `before`, `middle` many times, `after`.

    Attributes:
        closing: Repeated as often, after `inner`: closing brackets, for example.
    """

    before: bytes
    middle: bytes
    inner: bytes = b""
    closing: bytes = b""
    after: bytes = b""

    def of(self, size: int) -> bytes:
        """Return an input of about this size in bytes."""
        unit = max(1, len(self.middle) + len(self.closing))
        times = max(1, (size - len(self.before) - len(self.inner) - len(self.after)) // unit)
        opened, closed = self.middle * times, self.closing * times
        return self.before + opened + self.inner + closed + self.after


def _chunks(payload: bytes) -> list[bytes]:
    return [payload[n : n + CHUNK_BYTES] for n in range(0, len(payload), CHUNK_BYTES)]


def sse(data: bytes) -> None:
    """Parse the events of a stream."""
    stream = read(data).payload
    events = Events(_MAX_BYTES, is_worth_reading)
    for chunk in _chunks(stream):
        events.feed(chunk)
    events.close()


def capture_stream(data: bytes) -> None:
    """Capture a stream."""
    capture = ResponsesCapture(_ORIGIN, _MAX_BYTES)
    for chunk in _chunks(read(data).payload):
        capture.feed(chunk)
    capture.close()
    _keep(capture)


def capture_json(data: bytes) -> None:
    """Capture a whole response."""
    capture = ResponsesCapture(_ORIGIN, _MAX_BYTES)
    capture.read(read(data).payload)
    _keep(capture)


def _keep(capture: ResponsesCapture) -> None:
    turn = capture.snapshot(1).turn
    if turn is not None:
        keys_of_turn(turn)
        turns_of(turn.conversation, records_of(turn))


def capture_messages(data: bytes) -> None:
    """Capture the messages of a WebSocket."""
    capture = ResponsesCapture(_ORIGIN, _MAX_BYTES)
    for text in read(data).documents:
        capture.hear(text)
    _keep(capture)


def coding(data: bytes) -> None:
    """Decode a body."""
    name = CODINGS[data[0] % len(CODINGS) if data else 0]
    try:
        decoder = decoder_for(name, _MAX_BYTES)
        for chunk in _chunks(read(data).payload):
            decoder.feed(chunk)
    except Undecodable:
        return


def document(data: bytes) -> None:
    """Locate values, and remove members."""
    body = read(data).payload
    surrogates.readable(body)
    request = plain_read(body)
    if request is None:
        return
    include_edit(request)
    try:
        json_spans.without(body, ("id", "status", "include", "input"))
    except Unspliceable:
        return


def _played(documents: list[bytes]) -> tuple[Played, object]:
    played = Played(GENERIC)
    request = None
    for n, said in enumerate(documents):
        if n % 2:
            played.learn(request, said)
        else:
            request = plain_read(said)
            if request is not None:
                decided = played.plan(request)
                decided.apply(request.body)
                repair(request, played.world.recall(request).turns, _REPAIRS)
    return played, request


def conversation(data: bytes) -> None:
    """Play a conversation."""
    _played(read(data).documents)


def cures(data: bytes) -> None:
    """Heal the last request of a conversation."""
    *documents, said = read(data).documents
    played = Played(GENERIC)
    request = None
    for n, each in enumerate(documents):
        if n % 2:
            played.learn(request, each)
        else:
            request = plain_read(each)
    if request is None:
        return
    diagnosis = diagnose(400, said)
    choice = choose(lookups_for(request, diagnosis), lambda key: played.world.index.get(key, ()))
    kept = [t for t in played.world.turns.values() if t.conversation in choice.conversations]
    cure(request, request, diagnosis, LookupResult(kept, choice.crowded), GENERIC)


def refusal(data: bytes) -> None:
    """Diagnose a refusal."""
    diagnose(400, read(data).payload[: 256 * 1024])


def rows(data: bytes) -> None:
    """Decode the records of a store, and plan with them."""
    asked, _, kept = read(data).payload.partition(SEPARATOR)
    turns, request = turns_of(bytes(16), read_records(kept)), plain_read(asked)
    if request is None:
        return
    try:
        plan_injection(request, match_items(request, LookupResult(turns)), GENERIC)
    except Unspliceable:
        return


def scope(data: bytes) -> None:
    """Compute the scope of a request."""
    text = read(data).payload.decode("latin-1")
    written, _, head = text.partition("\x1e")
    headers = dict(line.partition(":")[::2] for line in head.split("\n"))
    try:
        parts = read_parts(written)
    except ValueError:
        parts = read_parts("credential")
    Scoping("http://upstream", "secret", parts).of(headers)
    claims_of(text[:16384], ("tid",))


def pumped(data: bytes, dice: random.Random) -> Pump:
    """Choose the part of an input to repeat: an item, a member, an event, or any bytes."""
    tokens = [n for n, byte in enumerate(data) if n >= HEAD_BYTES and byte in b'{}[],:"\n\r\\\x1e']
    if len(tokens) > 1 and dice.random() < 0.8:
        a, b = sorted((dice.choice(tokens), dice.choice(tokens)))
        a = a + dice.choice((0, 1))
        b = max(a, b + dice.choice((0, 1)))
    else:
        a = dice.randint(min(HEAD_BYTES, len(data)), len(data))
        b = a + dice.choice((1, 2, 8, 64))
    middle = data[a:b] or dice.choice((b"[", b'{"a":', b"\\", b'"', b"\n", b"\r", b","))
    closing = {b"[": b"]", b'{"a":': b"}"}.get(middle, b"")
    return Pump(data[:a], middle, b"1" if closing else b"", closing, data[b:])


def growth(
    work: Callable[[bytes], None], pump: Pump, clock: Callable[[], float] = time.process_time
) -> float:
    """
    Return how much the cost grows with four times the input: about 4 if it is linear.

    Returns 0.0 if the cost is too small to measure. A suspicious cost is measured again, with a
    larger input too.
    """
    small, large = (_cost(work, pump.of(size), 1, clock) for size in SIZES[:2])
    if large < _NOTICEABLE_S or large < SUPERLINEAR * small:
        return 0.0 if large < _NOTICEABLE_S else large / small
    costs = [_cost(work, pump.of(size), 3, clock) for size in SIZES]
    return min(costs[1] / costs[0], costs[2] / costs[1])


def _cost(
    work: Callable[[bytes], None], data: bytes, times: int, clock: Callable[[], float]
) -> float:
    """Return the CPU seconds of the quickest run."""
    costs: list[float] = []
    for _ in range(times):
        began = clock()
        work(data)
        costs.append(max(clock() - began, 1e-6))
    return min(costs)
