"""
Dialect of the bench: the builders of one API's requests, responses and events, as data.

All builders are functions of their arguments, so that each contender receives the same bytes.
"""

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

Item = dict[str, Any]

STAMP = b'"obfuscation":"'
"""Text before the 16 digits of a delta's send time, in ns of the monotonic clock."""

HOLE = "#" * 12
"""Text in place of a number; see `numbered`."""

TURN_CHARS = 1_200
"""Characters of a turn's reasoning."""


def compact(value: Any) -> bytes:
    """Write JSON without white space."""
    return json.dumps(value, separators=(",", ":")).encode()


def digits(*of: object, count: int = 48) -> str:
    """Return `count` hexadecimal digits that look random."""
    return hashlib.shake_128(repr(of).encode()).hexdigest(count // 2)


def blob(*of: object, size: int = TURN_CHARS) -> str:
    """Return a text in the form of encrypted reasoning, of about `size` characters."""
    raw = hashlib.shake_128(repr(of).encode()).digest(size * 3 // 4)
    return "gAAAAA" + base64.urlsafe_b64encode(raw).decode()


def lines_of(chars: int, *of: object) -> str:
    """Return lines of 60 characters, `chars` in total."""
    words = digits(*of, count=chars)
    return "\n".join(words[at : at + 60] for at in range(0, chars, 60))


def numbered(form: bytes) -> Callable[[int], bytes]:
    """Return a builder that writes a number, of 12 digits, in place of each HOLE."""
    template = form.replace(b"%", b"%%").replace(HOLE.encode(), b"%(n)012d")
    return lambda number: template % {b"n": number}


def stamped(event: bytes) -> bytes:
    """Return an event whose data is an object, with a place for its send time at the end of it."""
    return event.removesuffix(b"}\n\n") + b"," + STAMP + b'%016d"}\n\n'


class Dialect(ABC):
    """
    One API.

    In a conversation each turn is a response with reasoning and a call, and the call's output.

    Attributes:
        name: Its name, the first word of a task for the upstream.
        path: Path of its requests.
        items: Name of an element of a history.
        items_a_turn: Number of elements that a turn adds to a history without reasoning.
        key: Key of the history in a body.
        small_chars: Characters of the reasoning in a small request, and in its response.
        members: Members of every body, with a place for the history.
        stream_members: Further members of a request for a stream.
        ending: Start of the last event of a stream.
    """

    name: str
    path: str
    items: str
    items_a_turn: int
    key: str
    small_chars: tuple[int, int]
    members: ClassVar[Item]
    stream_members: ClassVar[Item] = {}
    ending: bytes

    def body(self, items: list[Item], **more: Any) -> bytes:
        """Build a body with a history."""
        return compact({**self.members, self.key: items, **more})

    @abstractmethod
    def user(self, text: str) -> Item:
        """Build a message of the user."""

    @abstractmethod
    def said(self, this: str, text: str) -> Item:
        """Build a message of the model, given the text of its id and its words."""

    @abstractmethod
    def emits(
        self, this: str, text: str, path: str, chars: int, of: Sequence[object]
    ) -> list[Item]:
        """
        List the items of a turn: reasoning, words if there are any, and a call that reads a file.

        All ids have the text `this`, and the reasoning has this size and is made of this seed.
        """

    @abstractmethod
    def envelope(self, this: str, items: list[Item]) -> bytes:
        """Build the response with some items, given the text of its id."""

    @abstractmethod
    def output(self, emitted: list[Item], text: str) -> Item:
        """Build the output of a call, given the items that a turn emitted, and its text."""

    @abstractmethod
    def dropped(self, item: Item) -> Item | None:
        """Return an emitted item as a client sends it that drops reasoning; None: not at all."""

    @abstractmethod
    def seen(self, item: Item) -> list[str | None]:
        """Return what identifies an item at the upstream: its kind, and its reasoning."""

    def stream_body(self, number: int) -> bytes:
        """Build the body of a request for a stream."""
        return self.body([self.user(f"Tell story {number}.")], **self.stream_members)

    @abstractmethod
    def opening(self, number: int) -> Sequence[bytes]:
        """List the events of a stream before its first delta."""

    @abstractmethod
    def delta(self, number: int) -> bytes:
        """Build the template of a delta, of about 300 bytes: for `% (number, time in ns)`."""

    @abstractmethod
    def closing(self, number: int, deltas: int) -> Sequence[bytes]:
        """List the events of a stream after its last delta, given the number of deltas."""

    @cached_property
    def small_body(self) -> Callable[[int], bytes]:
        """
        Builder of a request's body of 1.3 KB.

        It has no reasoning to inject, and its ids occur in no other.
        """
        this = "0d" * 18 + HOLE
        step = self.emits(this, "", "settings.py", self.small_chars[0], ["small"])
        history = [
            self.user(f"Ticket {HOLE}: which file sets the timeout?"),
            self.said("0a" * 18 + HOLE, "I shall look at the settings."),
            self.user("Please do."),
            *step,
            self.output(step, f"TIMEOUT_S = {HOLE}"),
        ]
        return numbered(self.body(history))

    @cached_property
    def small_answer(self) -> Callable[[int], bytes]:
        """Builder of a response of 1.7 KB: reasoning, and the call that it led to."""
        this = "1d" * 18 + HOLE
        step = self.emits(this, "", "timeouts.py", self.small_chars[1], ["answer"])
        return numbered(self.envelope(this, step))

    def first(self, seed: int) -> Item:
        """Build the first item of a conversation."""
        return self.user(f"Conversation {seed}: read the files one by one, and sum them up.")

    def emitted(self, seed: int, number: int) -> list[Item]:
        """List the items that a turn of a conversation emitted; the first one has no words."""
        words = f"Step {number}: I read the next file." if number else ""
        path = f"src/part_{number}.py"
        return self.emits(digits(seed, number), words, path, TURN_CHARS, [seed, number])

    def answer(self, seed: int, number: int) -> bytes:
        """Build the response of a turn."""
        return self.envelope(digits(seed, number), self.emitted(seed, number))

    @cached_property
    def events_around(self) -> int:
        """Number of events of a stream that are no deltas."""
        return len(self.opening(0)) + len(self.closing(0, 0))

    def request(self, task: str, body: bytes) -> bytes:
        """Build a request as an SDK sends it; for the task see `upstream`."""
        head = (
            f"POST {self.path} HTTP/1.1\r\n"
            "Host: 127.0.0.1\r\n"
            "Accept: application/json\r\n"
            "Accept-Encoding: identity\r\n"
            "Authorization: Bearer sk-proj-0123456789abcdefghijklmnopqrstuvwxyz\r\n"
            "Content-Type: application/json\r\n"
            "User-Agent: OpenAI/Python 3.54.0\r\n"
            "X-Stainless-Lang: python\r\n"
            "X-Stainless-Retry-Count: 0\r\n"
            f"X-Bench: {self.name} {task}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class History:
    """
    A conversation of a client that drops all reasoning, and keeps all else or drops some members.

    Attributes:
        dialect: The API.
        seed: Seed of its ids and reasoning.
        turns: Number of turns.
        items: Number of elements of the history after all turns.
    """

    def __init__(
        self,
        dialect: Dialect,
        seed: int,
        turns: int,
        item_chars: int,
        drops: Collection[str] = (),
    ) -> None:
        """Build all items; a call's output has `item_chars` for each item of its turn."""
        self.dialect = dialect
        self.seed = seed
        self.turns = turns
        self.items = turns * dialect.items_a_turn
        self._whole = [dialect.first(seed)]
        self._written = [compact(self._whole[0])]
        for number in range(turns):
            emitted = dialect.emitted(seed, number)
            text = lines_of(item_chars * dialect.items_a_turn, seed, number)
            output = dialect.output(emitted, text)
            self._whole += [*emitted, output]
            kept = [
                {name: item[name] for name in item if name not in drops}
                for item in map(dialect.dropped, emitted)
                if item is not None
            ]
            self._written.append(b",".join(map(compact, [*kept, output])))
        self._around = dialect.body([]).split(b"[]", 1)

    def asks(self, number: int) -> bytes:
        """Build the request for a turn; for the number `turns` it follows all turns."""
        return self._asks(f"turn {self.seed} {number}", self._written[: 1 + number])

    def asks_seen(self) -> bytes:
        """Build the request after all turns that upstream answers with what it received."""
        return self._asks("seen", self._written)

    def _asks(self, task: str, written: Iterable[bytes]) -> bytes:
        before, after = self._around
        return self.dialect.request(task, b"%b[%b]%b" % (before, b",".join(written), after))

    def seen(self) -> list[list[str | None]]:
        """Return what upstream must receive, reasoning included; see `Dialect.seen`."""
        return [self.dialect.seen(item) for item in self._whole]
