"""Harness for store faults: a proxy on a failing store, its log, agents that must not notice."""

import asyncio
import contextlib
import itertools
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from reasoning_replay.adapters.resilience import circuit_breaker, store_guard
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import wiring
from reasoning_replay.web.app import App, running

from tests.e2e.agent import Agent, Way
from tests.e2e.witness import assert_nothing_invented
from tests.patience import SOON_S
from tests.strict import StrictResponses

__all__ = [
    "PATIENT_MS",
    "WHOLE",
    "Fault",
    "Suffering",
    "anew",
    "injected",
    "is_whole_at",
    "question",
    "suffering",
]

BUDGET_MS = 50
PATIENT_MS = 5_000  # for tests of what works: a busy machine is not the proxy's fault
# Long, so that an exchange that waits for the operation instead of its budget is detected.
STORE_TIMEOUT_S = 4.0
# Longest exchange with the stand-in on a busy machine, budget included.
EXCHANGE_MS_MAX = 3_000
PAUSE_S = 0.5
LINE_EVERY = 8
FRESH = 1
REACHED = 3  # requests that reached upstream
# Items injected into the requests of one question to the stand-in's "chain".
WHOLE = [0, 1, 1, 2]

Line = dict[str, Any]


@dataclass
class Journal:
    """The proxy's log, line by line, in place of standard output."""

    lines: list[Line] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Append one line."""
        self.lines.append(json.loads(text))

    def flush(self) -> None:
        """Do nothing: lines are not buffered."""

    def exchanges(self, since: int = 0) -> list[Line]:
        """Return the lines of exchanges."""
        return [line for line in self.lines[since:] if line["event"] == "exchange"]

    def others(self) -> list[str]:
        """Return the names of all other events."""
        return [line["event"] for line in self.lines if line["event"] != "exchange"]


@dataclass
class Suffering:
    """
    Running proxy, and the agents that use it.

    Attributes:
        app: The proxy.
        standin: Its upstream, which refuses ids whose reasoning is missing.
        old: Agent that began before the fault. It keeps ids, so upstream refuses its request, and
            the proxy heals it, if its reasoning is not injected.
        fresh: Agents that begin a new conversation each time. They keep no ids.
        journal: Log of the proxy.
    """

    app: App
    standin: StrictResponses
    old: Agent
    fresh: Sequence[Agent]
    journal: Journal = field(default_factory=Journal)

    def __post_init__(self) -> None:
        """Take the fresh agents in turn."""
        self._turns = itertools.cycle(self.fresh)
        self._began_s = time.monotonic()

    async def converse(
        self, *, fresh: int = FRESH, during: Callable[[], None] | None = None
    ) -> list[Line]:
        """
        Let the old agent continue its conversation while fresh agents begin theirs.

        Every request succeeds, or the SDK raises. A fresh agent gets no reasoning of others.

        Args:
            fresh: Number of agents that begin a conversation.
            during: Operation that runs while they talk.

        Returns:
            The log lines of the exchanges.
        """
        since = len(self.journal.lines)
        others = [next(self._turns) for _ in range(fresh)]
        await asyncio.gather(
            *(anew(agent).converse([question()]) for agent in others),
            self.old.converse([question()]),
            self._after_a_while(during or (lambda: None)),
        )
        for agent in others:
            assert_nothing_invented(self.standin, agent)
        lines = self.journal.exchanges(since)
        assert len(lines) == 4 * (fresh + 1)
        assert {line["status"] for line in lines} == {200}
        return lines

    async def resumes(self, *, at_once: bool = False) -> None:
        """Wait until a new conversation gets all of its dropped reasoning injected."""
        deadline = time.monotonic() + SOON_S
        while True:
            agent = await anew(self.fresh[-1]).converse([question()])
            marks = [step.mark.partition(",")[0] for step in agent.steps]
            if marks == [f"injected={count}" for count in WHOLE]:
                return
            assert not at_once, marks
            assert time.monotonic() < deadline, f"it never resumed: {marks}"
            await asyncio.sleep(0.1)

    async def remembers(self) -> None:
        """Wait until the old agent's reasoning from before the fault is injected."""
        async with asyncio.timeout(SOON_S):
            while injected(await self.converse(fresh=0)) < WHOLE[-1]:
                pass

    async def recovers(self) -> None:
        """Wait until the proxy reports a working store, a while after its last failure."""
        deadline = time.monotonic() + SOON_S
        while self.counted("store_up") != 1:
            assert time.monotonic() < deadline, "it never recovered"
            await self.resumes()
            await asyncio.sleep(0.1)

    def counted(self, name: str, **labels: str) -> float:
        """Return the value of a metric."""
        value = self.app.metrics.registry.get_sample_value("reasoning_replay_" + name, labels)
        return value or 0.0

    def operations(self, operation: str) -> Counter[str]:
        """Count how operations of the store ended so far."""
        outcomes = ("ok", "error", "timeout", "late", "skipped")
        return Counter(
            {
                outcome: int(
                    self.counted("store_operations_total", operation=operation, outcome=outcome)
                )
                for outcome in outcomes
            }
        )

    def is_closed(self, operation: str) -> bool:
        """Return whether the breaker of an operation lets every call pass."""
        return self.counted("store_breakers", operation=operation, state="closed") == 1

    def assert_quick(self, lines: Sequence[Line]) -> None:
        """Check that no exchange waited for the store much longer than its budget."""
        assert max(line["before_ms"] for line in lines) < EXCHANGE_MS_MAX
        assert max(line["total_ms"] for line in lines) < EXCHANGE_MS_MAX

    def assert_told(self, *, has_failed: bool | None) -> None:
        """
        Check that the log has one line for each change of the store's state, and few of them.

        Args:
            has_failed: Whether the state changed at all; None: either is allowed.
        """
        told = [event for event in self.journal.others() if event != "store_set_aside"]
        assert told == (["store_failed", "store_recovered"] * len(told))[: len(told)]
        assert has_failed is None or bool(told) == has_failed
        # Each recovery waits for a pause, which is short for slow exchanges.
        took_s = time.monotonic() - self._began_s
        assert len(told) <= max(len(self.journal.exchanges()) / LINE_EVERY, 2 * took_s / PAUSE_S)

    async def _after_a_while(self, act: Callable[[], None]) -> None:
        began = len(self.standin.received)
        async with asyncio.timeout(SOON_S):
            while len(self.standin.received) < began + REACHED:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        act()


@dataclass(frozen=True, slots=True)
class Fault:
    """
    One fault of a store.

    Attributes:
        hurts, repairs: Operations on the store that begin and end the fault.
        fails: Operations that fail during the fault.
        keeps: Whether the store keeps its contents.
    """

    hurts: Callable[[Any], None]
    repairs: Callable[[Any], None] = lambda _: None
    fails: tuple[str, ...] = ("recall", "save")
    keeps: bool = True

    @property
    def is_readable(self) -> bool:
        """Whether only saves fail, so that stored reasoning is still injected."""
        return self.fails == ("save",)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a proxy that must not be late for what works."""
        return {"store_budget_ms": PATIENT_MS} if self.is_readable else {}

    async def is_not_noticed(self, one: Suffering, store: object) -> None:
        """Check that requests succeed in time during the fault, and that all works after it."""
        one.assert_quick(await one.converse(during=lambda: self.hurts(store)))
        before = {name: one.operations(name) for name in self.fails}
        lines = await one.converse()
        one.assert_quick(lines)
        did = {name: one.operations(name) - then for name, then in before.items()}
        assert [name for name in did if did[name]["ok"]] == []
        if did:
            name, first = next(iter(did.items()))
            assert first["skipped"] >= first.total() / 2  # the store is left alone
            assert not one.is_closed(name)
            assert one.counted("store_up") == 0
        if self.is_readable:
            assert injected(lines) >= WHOLE[-1]

        one.assert_quick(await one.converse(during=lambda: self.repairs(store)))
        await one.resumes()
        await one.recovers()
        one.assert_told(has_failed=True if self.fails else None)
        assert one.is_closed("recall")
        assert one.is_closed("save")
        if self.keeps:
            await one.remembers()


def anew(agent: Agent) -> Agent:
    """Clear an agent's history."""
    agent.history, agent.whole, agent.steps = [], [], []
    return agent


def question() -> str:
    """Return a question that is unique."""
    return f"And what of {secrets.token_hex(8)}?"


async def is_whole_at(agent: Agent, url: str) -> bool:
    """Return whether another replica injects all of an agent's reasoning."""
    agent.say(question())
    await agent.step(f"{url}/v1")
    last = agent.steps[-1]
    dropped = sum(item.get("type") == "reasoning" for item in last.whole)
    return dropped >= WHOLE[-1] and last.mark == f"injected={dropped}"


def injected(lines: Sequence[Line]) -> int:
    """Count the injected reasoning items."""
    return sum(line.get("injected", 0) for line in lines)


@contextlib.asynccontextmanager
async def hasty_breakers(store_timeout_s: float) -> AsyncIterator[None]:
    """Make breakers probe a failed store soon, and its operations end after this time."""
    with (
        mock.patch.object(circuit_breaker, "PAUSE_S", PAUSE_S),
        mock.patch.object(circuit_breaker, "PAUSE_MAX_S", PAUSE_S),
        mock.patch.object(store_guard, "PAUSE_S", PAUSE_S),
        mock.patch.object(wiring, "STORE_TIMEOUT_S", store_timeout_s),
    ):
        yield


@contextlib.asynccontextmanager
async def _already(standin: StrictResponses) -> AsyncIterator[StrictResponses]:
    yield standin


@contextlib.asynccontextmanager
async def suffering(
    store_url: str,
    store_timeout_s: float = STORE_TIMEOUT_S,
    next_to: Suffering | None = None,
    crowd: int = 1,
    **settings: Any,
) -> AsyncIterator[Suffering]:
    """
    Run a proxy on this store, without local copies, and begin one conversation.

    Args:
        store_url: Address of the store.
        store_timeout_s: Timeout of an operation on it.
        next_to: Another replica, with which it shares the upstream.
        crowd: Pairs of agents that begin conversations.
        settings: Further settings of the proxy.
    """
    given: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_format": "json",
        "scope_secret": "the tests'",
        "store_url": store_url,
        "store_budget_ms": BUDGET_MS,
        "local_max_bytes": 0,
    }
    async with (
        hasty_breakers(store_timeout_s),
        StrictResponses("chain", "normal")
        if next_to is None
        else _already(next_to.standin) as standin,
        running(Settings(upstream_url=standin.base_url, **(given | settings))) as app,
        Agent(f"{app.url}/v1", "async-stream") as old,
        contextlib.AsyncExitStack() as stack,
    ):
        ways: list[Way] = ["async", "async-stream"] * crowd
        agents = [Agent(f"{app.url}/v1", way, "no-ids") for way in ways]
        fresh = [await stack.enter_async_context(agent) for agent in agents]
        one = Suffering(app, standin, old, fresh)
        app.log._writer, app.log._stream = None, one.journal
        await one.resumes()  # its first connections are made
        await old.converse([question()])
        yield one
