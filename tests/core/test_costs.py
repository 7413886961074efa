"""Laws of cost: each step of the core costs CPU in proportion to its input."""

import contextlib
import gzip
import json
import zlib
from collections.abc import Callable
from functools import partial
from random import Random

import brotli
import pytest
import zstandard
from reasoning_replay.core.dialects.base import Caller
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC as CHAT
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.dialects.gemini.dialect import GeminiDialect
from reasoning_replay.core.dialects.gemini.profiles import GENERIC as GEMINI
from reasoning_replay.core.dialects.known_state import KnownState
from reasoning_replay.core.dialects.request_body import read_values
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.prefix_cache import LEAST_BYTES, Owner, ParsedPrefix, PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.seen import MatchedRun, Seen, recorded, seen_of
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT
from reasoning_replay.core.wire.content_coding import decode
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.core.wire.sse import Events
from reasoning_replay.core.wire.surrogates import marked, unmarked
from reasoning_replay.core.wire.text_folding import folded

from tests.core.costs import assert_constant, assert_linear, relative
from tests.core.dialects.anthropic import tenant
from tests.core.dialects.chat import chats
from tests.core.dialects.gemini import contents
from tests.core.engines import answered, asked, engine_of
from tests.core.world import (
    Item,
    World,
    answer,
    body,
    call,
    drawn,
    message,
    output,
    reasoning,
    user,
    without_ids,
)

LIMIT = 1 << 30
MB = 1_000_000
# Most CPU of a body that is not JSON, relative to JSON of its size; one escape at a time takes 90.
TIMES_MAX = 12
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=1),
    "zstd": zstandard.compress,
}
Stored = tuple[Request, LookupResult]
CALLER = Caller(b"s" * 16, NO_ACCOUNT)


def test_a_stream_is_split_in_linear_time() -> None:
    """A long event in small pieces is searched once, not again with each piece."""

    def make(size: int) -> list[bytes]:
        return [b"data: " + b"x" * 100] * size + [b"\n\n"]

    assert_linear(make, _split, 2_000)


def _split(pieces: list[bytes]) -> None:
    events = Events(LIMIT, lambda _: True)
    for piece in pieces:
        events.feed(piece)
    events.close()


@pytest.mark.parametrize("piece", [b"data: x\n\n", b"\r", b"\n", b"\r\n", b"data: x\r\n\r\n", b"x"])
def test_any_stream_is_split_in_linear_time(piece: bytes) -> None:
    """It may come in pieces, or in one, and end its lines in any way."""
    assert_linear(lambda size: [piece] * size, _split, 3_000)
    assert_linear(lambda size: [piece * size], _split, 3_000)
    assert_linear(lambda size: [b": comment\n\n" * size + piece * size], _split, 3_000)


@pytest.mark.parametrize("line", [b"\n", b"\r", b"\r\n", b":\n", b": life\n\n"])
def test_lines_that_say_nothing_cost_less_than_events(line: bytes) -> None:
    """Servers send blank lines and comments so that clients see life, and hostile ones millions."""
    size = 64 * 1024
    lines, events = line * (size // len(line)), b"data: 1234567\n\n" * (size // 15)

    assert relative(_split, [events], [lines]) < 1


# What a string of a request may hold.
TEXTS = {
    "plain": b"x",
    "spaces": b" ",
    "escapes": rb"\n",
    "backslashes": rb"\\",
    "letters": rb"\u0041",
    "pairs": rb"\ud83d\ude00",
    "alone": rb"\ud83d",
    "low": rb"\ude00",
    "broken": rb"\ud8zz",
    "commas": b",",
    "quotes": b'","',
    "beyond-ascii": "é".encode(),
}
SIZE_BYTES = 1_000_000  # above the size at which values are counted


def _call_of(run: Callable[[], None]) -> None:
    run()


def _read(document: bytes) -> None:
    with contextlib.suppress(Unspliceable):
        read_values(document)


def _string(part: bytes, size: int, end: bytes = b'"]') -> bytes:
    return b'{"a":["' + part * (size // len(part)) + end + b"}"


@pytest.mark.parametrize("part", TEXTS.values(), ids=list(TEXTS))
def test_a_request_is_read_in_linear_time(part: bytes) -> None:
    """It may be JSON, or hold a lone surrogate, and then not be JSON after all."""
    assert_linear(lambda size: _string(part, size), _read, SIZE_BYTES)
    assert_linear(lambda size: _string(part, size, rb'\ud800"],'), _read, SIZE_BYTES)


@pytest.mark.parametrize("read", [_read, lambda document: unmarked(marked(document))])
@pytest.mark.parametrize("part", TEXTS.values(), ids=list(TEXTS))
def test_what_is_not_json_costs_little_more_than_json(
    part: bytes, read: Callable[[bytes], None]
) -> None:
    """A few kilobytes of a compressed body may decode to megabytes of anything."""
    plain = _string(rb"\n", SIZE_BYTES)
    hostile = _string(part, SIZE_BYTES, rb'\ud800"],')
    of_plain = partial(_read, plain)
    of_hostile = partial(read, hostile)
    assert any(relative(_call_of, of_plain, of_hostile) < TIMES_MAX for _ in range(3))


@pytest.mark.parametrize("form", ['"k%d":1', ' "k%d" : 1', '"\\u0041%d":1', '"a":%d', '"a":"%d'])
def test_many_members_are_read_in_linear_time(form: str) -> None:
    """They may be compact, spaced, escaped, repeated, or broken."""
    assert_linear(lambda size: b"{%b}" % _numbered(form, size), _read, 2_000)


def _numbered(form: str, size: int) -> bytes:
    return ",".join(form % number for number in range(size)).encode()


# Each has its own cache of parsed requests, so that a new one parses all of a request.
DIALECTS: dict[str, Callable[[], Engine]] = {
    "responses": lambda: engine_of(ResponsesDialect(GENERIC, repairs=[*Repair])),
    "chat": lambda: engine_of(ChatDialect(CHAT)),
    "messages": lambda: engine_of(tenant.dialect_of()),
    "gemini": lambda: engine_of(GeminiDialect(GEMINI)),
}


def _call(number: int) -> Item:
    return {"id": f"call_{number}", "type": "function", "function": {"name": "f", "arguments": ""}}


def _use(number: int) -> Item:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {}}


# Histories of each API without reasoning: alternating texts and calls, and one long message.
HISTORIES: dict[str, Callable[[int], bytes]] = {
    "responses": lambda size: body(
        [
            item
            for n in range(size)
            for item in (user("go on"), message(f"m{n}", f"text {n % 7}"), call(f"c{n}"))
        ]
    ),
    "chat": lambda size: chats.body_of(
        [
            item
            for n in range(size)
            for item in (
                chats.user("go on"),
                chats.assistant(f"text {n % 7}", tool_calls=[_call(n)]),
                chats.tool("sunny", f"call_{n}"),
            )
        ]
    ),
    "messages": lambda size: tenant.body_of(
        [
            item
            for n in range(size)
            for item in (
                tenant.user("go on"),
                tenant.assistant({"type": "text", "text": f"text {n % 7}"}, _use(n)),
                tenant.result(f"toolu_{n}"),
            )
        ]
    ),
    "gemini": lambda size: contents.body_of(
        [
            item
            for n in range(size)
            for item in (
                contents.user("go on"),
                contents.model(contents.said(f"text {n % 7}"), contents.call(call_id=f"c{n}")),
                contents.output(call_id=f"c{n}"),
            )
        ]
    ),
    "gemini-parts": lambda size: contents.body_of(
        [contents.model(*(contents.call(f"{n}") for n in range(3 * size)))]
    ),
    "gemini-pieces": lambda size: contents.body_of(
        [contents.model(*(contents.said("a") for n in range(3 * size)))]
    ),
    "chat-calls": lambda size: chats.body_of(
        [chats.assistant(None, tool_calls=[_call(n) for n in range(3 * size)])]
    ),
    "messages-blocks": lambda size: tenant.body_of(
        [tenant.assistant(*(_use(n) for n in range(3 * size)))]
    ),
    "responses-calls": lambda size: body([call(f"c{n}") for n in range(3 * size)]),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_a_request_is_decided_in_linear_time(history: str) -> None:
    """From its bytes to the bytes that upstream gets, if nothing of it is stored."""

    def decide(given: bytes) -> None:
        dialect = DIALECTS[history.partition("-")[0]]()
        question = asked(dialect, given, b"t")
        for lookup in keys_of_request(question.request):
            list(lookup.keys)
        answered(dialect, CALLER, given, question, LookupResult(), is_created=True)

    assert_linear(HISTORIES[history], decide, 100)


@pytest.mark.parametrize("coding", ENCODERS)
def test_a_body_is_decoded_in_linear_time(coding: str) -> None:
    """Also a body of many parts without content, where the coding has parts."""
    encode = ENCODERS[coding]
    read = partial(decode, content_encoding=coding, max_bytes=LIMIT)
    # A body of few different bytes would measure how memory is allocated.
    text = Random(1).randbytes(MB // 4).hex().encode()  # noqa: S311 (no secret)
    assert_linear(lambda size: encode(text[:size]), read, MB // 4)
    if coding in ("gzip", "zstd"):
        empty = encode(b"")
        assert_linear(lambda size: empty * size, read, 2_000)


FOLDED = {
    "words": "ab ",
    "quotes": "\u201ca\u201d ",
    "marks": "a\u0301",
    "only-marks": "\u0301",
    "escapes": "&amp;",
    "escaped": "&amp;lt;",
    "powers": "a\u00b2",
    "sentences": "\ufdfa",
    "wide": "\uff21",
    "links": "([a.b](https://a.b/x))",
    "begun": "([a.b](http",
    "sources": "\u30104:0\u2020a",
    "cited": "\ue200cite\ue202a",
}


@pytest.mark.parametrize("part", FOLDED.values(), ids=list(FOLDED))
def test_a_text_is_folded_in_linear_time(part: str) -> None:
    """No spelling is worth more than its length."""
    assert_linear(lambda size: part * (size // len(part)), folded, 30_000)


ERRORS: dict[str, Callable[[int], bytes]] = {
    "text": lambda size: b"a" * size,
    "message": lambda size: json.dumps({"error": {"message": "a" * size}}).encode(),
    "many": lambda size: json.dumps([{"error": {"message": "a", "param": "b"}}] * size).encode(),
    "paths": lambda size: json.dumps({"detail": [{"loc": ["a"] * 9, "msg": "b"}] * size}).encode(),
    "long-path": lambda size: json.dumps({"detail": [{"loc": ["a"] * size}]}).encode(),
    "nested": lambda size: b'{"error":' * size,
    "inner": lambda size: json.dumps({"error": json.dumps({"error": "a" * size})}).encode(),
}


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_read_and_diagnosed_in_linear_time(error: str) -> None:
    """It may have any of the known structures, and quote any text."""
    assert_linear(ERRORS[error], _diagnose, 1_000)


@pytest.mark.parametrize("word", ["a", "a.", "[a]", "messages ", "call_", "'", "input[1]", "{"])
def test_an_error_that_quotes_a_request_is_diagnosed_in_linear_time(word: str) -> None:
    """A client may ask for a model with any name, which the error repeats."""
    assert_linear(
        lambda size: json.dumps({"error": {"message": (word * size)[:size]}}).encode(),
        _diagnose,
        2_000,
    )


def _diagnose(error: bytes) -> None:
    error_names(error)
    for engine in DIALECTS.values():
        engine().readers.diagnose(400, error)


def _turns(size: int, named: Callable[[int], str], said: Callable[[int], str]) -> Stored:
    world, items = World(), [user("go")]
    prefix: ParsedPrefix[HistoryPrefix[ResponsesItem], KnownState] | None = None
    parent = None
    for n in range(size):
        made = [reasoning(f"r{n}"), message(f"m{n}", said(n)), call(f"c{n}", call_id=named(n))]
        request = read_request(body(items), {}, prefix)
        prefix = request.prefix()
        parent = world.capture(request, parent, answer(made, f"resp_{n}"), n)
        items += [*without_ids(made[1:]), output(made[2]), user("go on")]
    return read_request(body(items), {}), LookupResult(list(world.turns.values()))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        pytest.param(drawn, "text {}".format, id="random-ids"),
        pytest.param("call_{}".format, "text {}".format, id="counted-ids"),
        pytest.param(lambda _: "call_0", "text {}".format, id="equal-ids"),
        pytest.param(lambda _: "call_0", lambda _: "Done.", id="equal-texts"),
    ],
)
def test_a_history_is_matched_with_its_turns_in_linear_time(
    named: Callable[[int], str], said: Callable[[int], str]
) -> None:
    """Whatever of the items may be told apart."""
    assert_linear(lambda size: _turns(size, named, said), _match, 60)


def _alike(size: int) -> Stored:
    """Return a history of one question and one answer, again and again; one turn is captured."""
    world, question = World(), user("go on")
    reply = [reasoning("r"), message("m", "Done.")]
    world.capture(read_request(body([question]), {}), None, answer(reply, "resp"), 0)
    items = [item for _ in range(size) for item in (question, *without_ids(reply[1:]))]
    return read_request(body(items), {}), LookupResult(list(world.turns.values()))


def test_a_history_of_equal_items_is_matched_in_linear_time() -> None:
    """Each item may come from the same turn."""
    assert_linear(_alike, _match, 5_000)


def _match(stored: Stored) -> None:
    match_items(*stored)


def test_earlier_decisions_are_read_and_recorded_in_linear_time() -> None:
    """The decisions of a request are spread over its turns."""

    def make(size: int) -> dict[bytes, Seen]:
        return {
            b"%d" % n: Seen(b"%d" % (n - 1), 3 * n, (MatchedRun(3 * n, b"%d" % n, 0, 2),))
            for n in range(size)
        }

    def read(seen: dict[bytes, Seen]) -> None:
        _, matched, _ = recorded(seen[b"%d" % (len(seen) - 1)], seen.get)
        seen_of(b"", 0, [(at, *source) for at, source in sorted(matched.items())])

    assert_linear(make, read, 2_000)


def test_a_parsed_prefix_costs_the_same_however_many_tenants_there_are() -> None:
    """Who has to make room is known without a look at all of them."""

    def filled(count: int) -> Callable[[], object]:
        kept: PrefixCache[str, KnownState] = PrefixCache(Room(count * 4 * LEAST_BYTES))
        numbers = iter(range(1 << 60))

        def keep() -> None:
            for _ in range(10):
                owner = Owner(b"%d" % next(numbers), "chat")
                body = b"%d" % next(numbers) + b"x" * LEAST_BYTES
                kept.keep(owner, ParsedPrefix(body, len(body), b"", "", 1))
                kept.find(owner, body)

        for _ in range(count):
            keep()
        return keep

    assert_constant(filled, 100)
