"""A proxy whose store is made to suffer, agents that must not notice, and what was written down."""

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
from reasoning_replay.web.app import App, running

from tests.e2e.agent import Agent
from tests.e2e.witness import assert_nothing_invented
from tests.standin import StandIn

__all__ = ["PATIENT_MS", "RESUMES_S", "WHOLE", "Suffering", "given_back", "suffering"]

BUDGET_MS = 50
PATIENT_MS = 5_000  # where it is about what works, and a busy machine is no fault of the proxy's
# Long, so that whoever waits for an operation, and not for the budget, is found out.
STORE_TIMEOUT_MS = 4_000
# What an exchange with the stand-in may take on a busy machine, the budget included.
EXCHANGE_MS_MAX = 3_000
RESUMES_S = 60.0
PAUSE_S = 0.5
LINE_EVERY = 8
FRESH = 1
AMID = 3  # requests have reached upstream
# What the requests of one question to the stand-in's "chain" are given back.
WHOLE = [0, 1, 1, 2]

Line = dict[str, Any]


@dataclass
class Journal:
    """The proxy's log, line by line; stands in for standard output."""

    lines: list[Line] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Take one line in."""
        self.lines.append(json.loads(text))

    def flush(self) -> None:
        """Nothing is held back."""

    def exchanges(self, since: int = 0) -> list[Line]:
        """Those that tell of an exchange."""
        return [line for line in self.lines[since:] if line["event"] == "exchange"]

    def others(self) -> list[str]:
        """All other events, by name."""
        return [line["event"] for line in self.lines if line["event"] != "exchange"]


@dataclass
class Suffering:
    """
    A running proxy, and agents that talk through it.

    Attributes:
        app: The proxy.
        standin: Its upstream; it refuses ids whose reasoning is missing.
        old: An agent that began before anything happened. It keeps ids, so upstream would
            refuse it, and the proxy has to heal, where its reasoning is not given back.
        fresh: Agents that begin a new conversation each time. They keep no ids.
        journal: What the proxy logged.
    """

    app: App
    standin: StandIn
    old: Agent
    fresh: Sequence[Agent]
    journal: Journal = field(default_factory=Journal)

    def __post_init__(self) -> None:
        """Let one fresh agent have its turn after the other."""
        self._turns = itertools.cycle(self.fresh)

    async def converse(
        self, *, fresh: int = FRESH, amid: Callable[[], None] | None = None
    ) -> list[Line]:
        """
        Let the old agent go on with its conversation while others begin theirs.

        Every request succeeds, or the SDK raises; a fresh one is given nothing that is not its.

        Args:
            fresh: How many begin one.
            amid: Happens while they talk.

        Returns:
            The log of the exchanges.
        """
        since = len(self.journal.lines)
        others = [next(self._turns) for _ in range(fresh)]
        await asyncio.gather(
            *(anew(agent).converse([question()]) for agent in others),
            self.old.converse([question()]),
            self._after_a_while(amid or (lambda: None)),
        )
        for agent in others:
            assert_nothing_invented(self.standin, agent)
        lines = self.journal.exchanges(since)
        assert len(lines) == 4 * (fresh + 1)
        assert {line["status"] for line in lines} == {200}
        return lines

    async def resumes(self, *, at_once: bool = False) -> None:
        """Wait until a conversation that begins now is given back whole what it drops."""
        deadline = time.monotonic() + RESUMES_S
        while True:
            agent = await anew(self.fresh[-1]).converse([question()])
            marks = [step.mark.partition(",")[0] for step in agent.steps]
            if marks == [f"injected={count}" for count in WHOLE]:
                return
            assert not at_once, marks
            assert time.monotonic() < deadline, f"it never resumed: {marks}"
            await asyncio.sleep(0.1)

    async def remembers(self) -> None:
        """Wait until the old agent is given back what was said before anything happened."""
        async with asyncio.timeout(RESUMES_S):
            while given_back(await self.converse(fresh=0)) < WHOLE[-1]:
                pass

    async def recovers(self) -> None:
        """Wait until the proxy says that the store is well: a while after its last failure."""
        deadline = time.monotonic() + RESUMES_S
        while self.counted("store_up") != 1:
            assert time.monotonic() < deadline, "it never recovered"
            await self.resumes()
            await asyncio.sleep(0.1)

    def counted(self, name: str, **labels: str) -> float:
        """Return a metric."""
        value = self.app.metrics.registry.get_sample_value("reasoning_replay_" + name, labels)
        return value or 0.0

    def operations(self, operation: str) -> Counter[str]:
        """How operations of the store ended so far."""
        outcomes = ("ok", "error", "timeout", "late", "skipped")
        return Counter(
            {
                outcome: int(
                    self.counted("store_operations_total", operation=operation, outcome=outcome)
                )
                for outcome in outcomes
            }
        )

    def assert_quick(self, lines: Sequence[Line]) -> None:
        """None of them waited for the store much longer than it may."""
        assert max(line["before_ms"] for line in lines) < EXCHANGE_MS_MAX
        assert max(line["total_ms"] for line in lines) < EXCHANGE_MS_MAX

    def assert_told(self, *, has_failed: bool | None) -> None:
        """
        The log has one line for each change of the store's state, in turns, and few of them.

        Args:
            has_failed: Whether it changed at all; None: perhaps.
        """
        told = self.journal.others()
        assert told == (["store_failed", "store_recovered"] * len(told))[: len(told)]
        assert has_failed is None or bool(told) == has_failed
        assert len(told) <= len(self.journal.exchanges()) / LINE_EVERY

    async def _after_a_while(self, act: Callable[[], None]) -> None:
        began = len(self.standin.received)
        async with asyncio.timeout(RESUMES_S):
            while len(self.standin.received) < began + AMID:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        act()


def anew(agent: Agent) -> Agent:
    """Let an agent forget everything."""
    agent.history, agent.whole, agent.steps = [], [], []
    return agent


def question() -> str:
    """Ask something that nobody has asked."""
    return f"And what of {secrets.token_hex(8)}?"


def given_back(lines: Sequence[Line]) -> int:
    """Count the reasoning items that upstream was given back."""
    return sum(line.get("injected", 0) for line in lines)


@contextlib.asynccontextmanager
async def hasty_breakers() -> AsyncIterator[None]:
    """Let what fails be tried again soon, and as soon each time: a test would only wait."""
    with (
        mock.patch.object(circuit_breaker, "PAUSE_S", PAUSE_S),
        mock.patch.object(circuit_breaker, "PAUSE_MAX_S", PAUSE_S),
        mock.patch.object(store_guard, "PAUSE_S", PAUSE_S),
    ):
        yield


@contextlib.asynccontextmanager
async def suffering(store_url: str, **settings: Any) -> AsyncIterator[Suffering]:
    """Run a proxy on this store, without local copies, and let one conversation begin."""
    given: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_format": "json",
        "scope_secret": "the tests'",
        "store_url": store_url,
        "store_budget_ms": BUDGET_MS,
        "store_timeout_ms": STORE_TIMEOUT_MS,
        "recent_max_bytes": 0,
    }
    async with (
        hasty_breakers(),
        StandIn("chain", "normal") as standin,
        running(Settings(upstream_url=standin.base_url, **(given | settings))) as app,
        Agent(f"{app.url}/v1", "async-stream") as old,
        Agent(f"{app.url}/v1", "async", "no-ids") as plain,
        Agent(f"{app.url}/v1", "async-stream", "no-ids") as streaming,
    ):
        one = Suffering(app, standin, old, (plain, streaming))
        app.log._writer, app.log._stream = None, one.journal
        await one.resumes()  # its first connections are made
        await old.converse([question()])
        yield one
