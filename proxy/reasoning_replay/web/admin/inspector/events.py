"""
Event stream of the inspector: lines of JSON for each watcher, until it leaves.

    {"hello": …}       first: version and settings of this process
    {"exchange": …}    the recorded ones, then each one when it is decided, and again at its end
    {"state": …}       each second: totals, sums of the last minutes (at first: of the last hour),
                       the store, whether the process drains
    {"lost": n}        n lines were dropped because this watcher reads too slowly
"""

import asyncio
import contextlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from aiohttp import web
from prometheus_client import Metric

from reasoning_replay.web.admin.conversations import Access, refused
from reasoning_replay.web.admin.inspector.minutes import MINUTES
from reasoning_replay.web.admin.inspector.recorder import Recorder
from reasoning_replay.web.errors import ErrorResponse, ProxyError

WATCHERS_MAX: Final = 8
STATE_S: Final = 1.0
# Minutes in a state: the current one, and the one before for its final sums.
NEWEST: Final = 2
# Lines that arrive within this time are written together.
GATHER_S: Final = 0.05
# Limits for a watcher that does not read: bytes of pending lines, and seconds.
WAITING_BYTES: Final = 4 << 20
STALLED_S: Final = 60.0

# Metrics of the totals: those split by a label, and those of which all series are added up.
_SPLIT: Final = {"requests_total": "result", "items_total": "outcome", "heals_total": "result"}
_SUMMED: Final = ("captured_items_total", "captured_bytes_total", "in_flight")

_HEADERS: Final = {
    "Content-Type": "application/x-ndjson",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Such a page cannot read the stream, but would occupy a place of a permitted watcher.
_ANOTHERS = ErrorResponse(
    403, "cross_origin", "A page of another origin may not read events: open this port's page."
)
_FULL = ErrorResponse(
    503,
    "too_many_watchers",
    f"{WATCHERS_MAX} inspector pages are open, which is the limit. Close one of them.",
    2,
)


class Watchers:
    """The watchers of one proxy."""

    def __init__(
        self,
        source: Recorder,
        access: Access,
        facts: Callable[[], Mapping[str, object]],
        state: Callable[[], Mapping[str, object]],
        metrics: Callable[[], Iterable[Metric]],
    ) -> None:
        """Start without watchers; `facts` do not change while it runs, `state` is in words."""
        self._source = source
        self._access = access
        self._facts = facts
        self._state = state
        self._metrics = metrics
        self._watchers: dict[_Watcher, asyncio.Task[None] | None] = {}
        self._ticking: asyncio.Task[None] | None = None

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes for the admin port."""
        return [
            web.get("/inspector/events", self._serve, allow_head=False),
            web.get("/inspector/exchanges", self._older, allow_head=False),
        ]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Stream events to one watcher until it leaves."""
        if (fault := self._fault(request)) is not None:
            return refused(fault)
        if sum(watcher.is_there for watcher in self._watchers) >= WATCHERS_MAX:
            return refused(_FULL)
        response = web.StreamResponse(headers=_HEADERS)
        watcher = _Watcher(request)
        self._watchers[watcher] = asyncio.current_task()
        try:
            await response.prepare(request)
            self._welcome(watcher)
            while True:
                await watcher.has_lines.wait()
                async with asyncio.timeout(STALLED_S):
                    await response.write(watcher.taken())
                await asyncio.sleep(GATHER_S)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._leave(watcher)
        return response

    async def _older(self, request: web.Request) -> web.Response:
        """Return a page of exchanges that are older than the one with the id `before`."""
        if (fault := self._fault(request)) is not None:
            return refused(fault)
        lines = self._source.older(request.query.get("before", ""))
        return web.Response(body=b"\n".join(lines), headers=_HEADERS)

    def _fault(self, request: web.Request) -> ErrorResponse | None:
        """Return why a request may not read; None if it may."""
        if request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}:
            return _ANOTHERS
        try:
            self._access.check(request)
        except ProxyError as error:
            return error.fault
        return None

    def close(self) -> None:
        """Cancel all streams, so that none delays the shutdown."""
        for task in self._watchers.values():
            if task is not None:
                task.cancel()

    def _welcome(self, watcher: "_Watcher") -> None:
        if self._ticking is None:
            self._source.listen(self._heard)
            self._ticking = asyncio.create_task(self._tick())
        watcher.put(json.dumps({"hello": self._facts()}).encode())
        self._put_state([watcher], MINUTES)
        for told in self._source.recent():
            watcher.put(told)

    def _leave(self, watcher: "_Watcher") -> None:
        del self._watchers[watcher]
        if not self._watchers and self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
            self._source.listen(None)

    def _heard(self, told: bytes) -> None:
        for watcher in self._watchers:
            watcher.put(told)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(STATE_S)
            self._put_state(self._watchers)

    def _put_state(self, watchers: "Iterable[_Watcher]", minutes: int = NEWEST) -> None:
        with contextlib.suppress(Exception):  # watchers then keep the previous state
            totals = {"totals": read_totals(self._metrics())}
            state = {**self._state(), **self._source.sums(minutes), **totals}
            line = json.dumps({"state": state}).encode()
            for watcher in watchers:
                watcher.put(line)


class _Watcher:
    """
    The pending lines of one watcher.

    Attributes:
        has_lines: Event, set while lines are pending.
    """

    def __init__(self, request: web.Request) -> None:
        self.has_lines = asyncio.Event()
        self._request = request
        self._lines: deque[bytes] = deque()
        self._bytes = self._lost = 0

    @property
    def is_there(self) -> bool:
        """Whether it is connected; its place is free once it leaves, not only at the next write."""
        return self._request.transport is not None

    def put(self, line: bytes) -> None:
        """Add a line; above WAITING_BYTES, drop the oldest ones."""
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > WAITING_BYTES and len(self._lines) > 1:
            self._bytes -= len(self._lines.popleft())
            self._lost += 1
        self.has_lines.set()

    def taken(self) -> bytes:
        """Return all pending lines, and clear them."""
        lost = [b'{"lost": %d}' % self._lost] if self._lost else []
        lines = b"\n".join([*lost, *self._lines, b""])
        self._lines.clear()
        self._bytes = self._lost = 0
        self.has_lines.clear()
        return lines


def read_totals(metrics: Iterable[Metric]) -> dict[str, object]:
    """
    Return the metrics that the page shows, by name.

    One that is split is a mapping of label values to numbers, without zeros. `breakers` maps each
    store operation to the states of its circuit breaker, with 1 for the current state.
    """
    split: dict[str, dict[str, float]] = {name: {} for name in _SPLIT}
    sums = dict.fromkeys(_SUMMED, 0.0)
    breakers: dict[str, dict[str, float]] = defaultdict(dict)
    for sample in chain.from_iterable(metric.samples for metric in metrics):
        name, labels = sample.name.removeprefix("reasoning_replay_"), sample.labels
        if name in split and sample.value:
            word, parts = labels[_SPLIT[name]], split[name]
            parts[word] = parts.get(word, 0) + sample.value
        elif name in sums:
            sums[name] += sample.value
        elif name == "store_breakers":
            breakers[labels["operation"]][labels["state"]] = sample.value
    return {**split, **sums, "breakers": breakers}
