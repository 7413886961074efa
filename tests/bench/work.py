"""
Work of one exchange, counted and not timed: `python -m tests.bench.work [small|stream ...]`.

The proxy runs in this process on one thread, client and upstream on another. The upstream sends its
response in one piece, so that every run counts the same. The counts are of the product's code:

- calls of Python functions, and resumptions of coroutines;
- opcodes that they execute;
- files that they are in, and changes of file from one call to the next;
- hand-overs: what the event loop is asked to call soon, timers, tasks, and calls on other threads.

The thread of the log writes the lines of 20 ms at once; here it wakes up for each of them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import reasoning_replay
import uvloop
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.bench.contenders import Bench
from tests.bench.shapes.dialect import Dialect, digits
from tests.bench.shapes.dialects import DIALECTS
from tests.bench.shapes.responses import RESPONSES
from tests.bench.table import Figure
from tests.ports import free_port

PRODUCT = str(Path(reasoning_replay.__file__).parent) + "/"
WARM, COUNTED = 5, 20
DELTAS = 20
# The proxy has finished an exchange this long after the client has its response.
QUIET_S = 0.05
PEER_S = 30.0
# Bounds, for `small` (measured with Python 3.11: 928 and 21,975).
LIMITS = {"calls": 1_000, "opcodes": 25_000}

# A request, the whole response of the upstream to it, and whether the pair is counted.
_Pair = tuple[bytes, bytes, bool]
# Its file, and its qualified name.
_Function = tuple[str, str]


class Work(NamedTuple):
    """The counts of one exchange; the attributes are those of `Counts`."""

    calls: Counter[_Function]
    opcodes: Counter[_Function]
    hops: Counter[str]
    changes: int

    def summed(self) -> dict[str, int]:
        """Return the totals by name, with all kinds of hand-overs together."""
        return {
            "calls": self.calls.total(),
            "opcodes": self.opcodes.total(),
            "files": len({name for name, _ in self.calls}),
            "changes of file": self.changes,
            "hand-overs": self.hops.total(),
        }

    def parts(self, *, by_function: bool) -> list[tuple[str, int, int]]:
        """Return the calls and opcodes of each file or function, the most opcodes first."""
        calls: Counter[str] = Counter()
        opcodes: Counter[str] = Counter()
        for name, function in self.calls:
            part = name.removeprefix(PRODUCT) + (f" {function}" if by_function else "")
            calls[part] += self.calls[name, function]
            opcodes[part] += self.opcodes[name, function]
        return [(part, calls[part], count) for part, count in opcodes.most_common()]


class Counts:
    """
    Counters of the product's code; `tracer` counts.

    Attributes:
        calls, opcodes: By function: its file and its qualified name.
        hops: What the event loop was asked to do, by kind, and calls on other threads.
        changes: Number of changes of file.
    """

    def __init__(self) -> None:
        """Start at 0, on the thread of the event loop."""
        self.calls: Counter[_Function] = Counter()
        self.opcodes: Counter[_Function] = Counter()
        self.hops: Counter[str] = Counter()
        self.changes = 0
        self._file = ""
        self._loop_thread = threading.get_ident()

    def tracer(self, frame: FrameType, _event: str, _of: object) -> Callable[..., Any] | None:
        """Count a call, and then its opcodes; for `sys.settrace`."""
        name = frame.f_code.co_filename
        if not name.startswith(PRODUCT):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        function = name, frame.f_code.co_qualname
        self.calls[function] += 1
        if threading.get_ident() != self._loop_thread:
            self.hops["calls on other threads"] += 1
        self.changes += name != self._file
        self._file = name
        opcodes = self.opcodes

        def count(_frame: FrameType, event: str, _of: object) -> Callable[..., Any]:
            if event == "opcode":
                opcodes[function] += 1
            return count

        return count

    def take(self) -> "Work":
        """Return the counts since the last call, and start at 0 again."""
        taken = Work(Counter(self.calls), Counter(self.opcodes), Counter(self.hops), self.changes)
        for counter in (self.calls, self.opcodes, self.hops):
            counter.clear()
        self.changes = 0
        return taken


def _counting(counts: Counts) -> Callable[[], asyncio.AbstractEventLoop]:
    class Loop(uvloop.Loop):
        """The product's event loop, which counts what it is asked to do."""

    def counted(name: str, kind: str) -> None:
        method = getattr(uvloop.Loop, name)

        def call(self: Loop, *args: Any, **options: Any) -> Any:
            counts.hops[kind] += 1
            return method(self, *args, **options)

        setattr(Loop, name, call)

    counted("call_soon", "callbacks")
    counted("call_later", "timers")
    counted("call_soon_threadsafe", "thread hops")
    counted("create_task", "tasks")
    return Loop


class Peer:
    """The client and the upstream of a proxy, with blocking sockets on one thread."""

    def __init__(self) -> None:
        """Listen as the upstream."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PEER_S)
        self.port: int = self._listener.getsockname()[1]
        self._upstream: socket.socket | None = None

    def play(self, port: int, pairs: Iterator[_Pair], counts: Counts) -> list[Work]:
        """Make exchanges one after the other; return the counts of those that count."""
        taken: list[Work] = []
        with socket.create_connection(("127.0.0.1", port), PEER_S) as client, self._listener:
            for request, response, is_counted in pairs:
                time.sleep(QUIET_S)
                counts.take()
                client.sendall(request)
                if self._upstream is None:
                    self._upstream, _ = self._listener.accept()
                    self._upstream.settimeout(PEER_S)
                _whole(self._upstream)
                self._upstream.sendall(response)
                head = _whole(client)
                if not head.startswith(b"HTTP/1.1 200 "):
                    raise RuntimeError(head.decode())
                time.sleep(QUIET_S)
                if is_counted:
                    taken.append(counts.take())
            if self._upstream is not None:
                self._upstream.close()
        return taken


def _whole(peer: socket.socket) -> bytes:
    """Read a message with a length or in chunks; return its head."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += _more(peer)
    head, _, rest = got.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if b"content-length" in fields:
        while len(rest) < int(fields[b"content-length"]):
            rest += _more(peer)
    else:
        while not rest.endswith(b"0\r\n\r\n"):
            rest += _more(peer)
    return head


def _more(peer: socket.socket) -> bytes:
    data = peer.recv(1 << 16)
    if not data:
        raise RuntimeError("connection lost")
    return data


def _json(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req_1\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def _events(events: list[bytes]) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: req_1\r\n"
    body = b"".join(events)
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    return b"%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (head, chunk)


def small(dialect: Dialect) -> Iterator[_Pair]:
    """Make exchanges of 3 KB with a JSON response, nothing to inject and a new body each."""
    for number in range(WARM + COUNTED):
        request = dialect.request("-", dialect.small_body(number))
        yield request, _json(dialect.small_answer(number)), number >= WARM


def stream(dialect: Dialect) -> Iterator[_Pair]:
    """Make streamed exchanges with one injection, each the second turn of its conversation."""
    for number in range(WARM + COUNTED):
        first, emitted = dialect.first(number), dialect.emitted(number, 0)
        request = dialect.request("-", dialect.body([first]))
        yield request, _json(dialect.envelope(digits(number, 0), emitted)), False
        kept = [item for item in map(dialect.dropped, emitted) if item is not None]
        history = [first, *kept, dialect.output(emitted, "It is a file.")]
        request = dialect.request("-", dialect.body(history, **dialect.stream_members))
        opening = dialect.opening(number)
        deltas = [dialect.delta(number) % (len(opening) + n, n) for n in range(DELTAS)]
        events = [*opening, *deltas, *dialect.closing(number, DELTAS)]
        yield request, _events(events), number >= WARM


SORTS: dict[str, Callable[[Dialect], Iterator[_Pair]]] = {"small": small, "stream": stream}


def counted(sort: str, dialect: Dialect) -> Work:
    """
    Return the counts of one exchange: of those of its sort, the median one by opcodes.

    On a busy machine, some are read in more pieces, or end later than they are looked at.
    """
    counts, peer = Counts(), Peer()
    port, admin_port = free_port(), free_port()

    async def serve() -> list[Work]:
        settings = Settings(
            upstream_url=f"http://127.0.0.1:{peer.port}/v1",
            store_url="memory://",
            listen=f"127.0.0.1:{port}",
            admin_listen=f"127.0.0.1:{admin_port}",
            scope_secret="one for all",
        )
        threading.settrace(counts.tracer)  # first, for the thread of the log
        async with running(settings):
            sys.settrace(counts.tracer)
            try:
                played = asyncio.get_running_loop().create_future()
                loop = asyncio.get_running_loop()

                def play() -> None:
                    sys.settrace(None)
                    try:
                        taken = peer.play(port, SORTS[sort](dialect), counts)
                    except Exception as error:  # noqa: BLE001 (raised on the other thread)
                        loop.call_soon_threadsafe(played.set_exception, error)
                    else:
                        loop.call_soon_threadsafe(played.set_result, taken)

                threading.Thread(target=play, daemon=True).start()
                taken: list[Work] = await played
            finally:
                sys.settrace(None)
                threading.settrace(None)
        return taken

    with (
        Path(os.devnull).open("w") as nothing,
        contextlib.redirect_stdout(nothing),
        asyncio.Runner(loop_factory=_counting(counts)) as runner,
    ):
        taken = runner.run(serve())
    return sorted(taken, key=lambda one: one.opcodes.total())[len(taken) // 2]


async def work(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Count the work of one exchange of each sort, in a process of its own."""
    words = ("-m", "tests.bench.work", "--json", "--dialect", dialect.name)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    figures: list[Figure] = []
    for sort, totals in json.loads(said).items():
        for what, count in totals.items():
            limit = LIMITS.get(what) if sort == "small" else None
            reach = "" if limit is None else f"<= {limit:,}"
            told = f"{what} of an exchange ({sort})"
            figures.append(Figure(row, told, {"proxy": count}, reach, count, limit))
    return figures


def main() -> None:
    """Print the counts of each sort."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.work", description=__doc__)
    parser.add_argument("sorts", nargs="*", metavar="SORT", help=f"one of {', '.join(SORTS)}")
    parser.add_argument("--dialect", choices=[*DIALECTS], default=RESPONSES.name)
    parser.add_argument("--by", choices=["file", "function"], help="also print each of them")
    parser.add_argument("--json", action="store_true", help="print the totals as JSON")
    options = parser.parse_args()
    dialect = DIALECTS[options.dialect]
    got = {sort: counted(sort, dialect) for sort in options.sorts or SORTS}
    if options.json:
        print(json.dumps({sort: one.summed() for sort, one in got.items()}))  # noqa: T201
        return
    for sort, one in got.items():
        hops = ", ".join(f"{count} {kind}" for kind, count in one.hops.items())
        told = ", ".join(f"{count:,} {what}" for what, count in one.summed().items())
        print(f"{sort}: {told} ({hops})")  # noqa: T201
        if options.by:
            for part, calls, opcodes in one.parts(by_function=options.by == "function"):
                print(f"  {opcodes:6,} {calls:4} {part}")  # noqa: T201


if __name__ == "__main__":
    main()
