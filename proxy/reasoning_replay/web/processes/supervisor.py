"""Several processes watched over by one: started, told, counted, started again when they die."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Final

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import WorkerMetrics
from reasoning_replay.settings.urls import authority, host_and_port
from reasoning_replay.web.processes.ipc import Message
from reasoning_replay.web.processes.worker_handle import PROBE_S, Child, Seen
from reasoning_replay.web.signals import STOPPING

__all__ = ["Workers", "reserved"]

# Between the death of a worker and the next try; doubled each time that one dies young.
PAUSE_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0


class Workers:
    """
    The processes that serve.

    Attributes:
        count: How many there shall be.
        failure: Why they could not be started; "" as long as there is nothing to say.
        url: Where clients connect.
        on_seen: Told what has passed in them, while that is watched.
        on_ended: Told the process id of each that has ended.
    """

    def __init__(
        self,
        count: int,
        process: Callable[[int, socket.socket], BaseProcess],
        metrics: WorkerMetrics,
        log: Log,
        probe_s: float = PROBE_S,
    ) -> None:
        """
        Start nothing yet.

        Args:
            count: How many.
            process: Makes one, not yet started, of its number (from 1) and its socket to us.
            metrics: Counts those that serve, and those that had to be replaced.
            log: Told of each that ends without having been asked to.
            probe_s: Between two probes of a worker.
        """
        self.count = count
        self.failure = self.url = ""
        self.on_seen: Seen = lambda _: None
        self.on_ended: Callable[[int | None], None] = lambda _: None
        self._process = process
        self._metrics = metrics
        self._log = log
        self._probe_s = probe_s
        self._running: dict[int, Child] = {}
        self._drain: Message | None = None
        self._is_watched = False
        self._has_served = False
        self._changed = asyncio.Event()

    @property
    def serving(self) -> int:
        """How many take requests."""
        return sum(bool(worker.url) for worker in self._running.values())

    @property
    def is_draining(self) -> bool:
        """Whether they were told to end."""
        return self._drain is not None

    async def run(self) -> None:
        """Keep them running until they have drained, or could not be started."""
        resource_tracker.ensure_running()  # before signals are held back: it lets them in again
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(1, self.count + 1):
                    group.create_task(self._keep(number))
        finally:
            self.kill()

    async def started(self) -> bool:
        """Wait until all serve; False when they cannot."""
        while not (self._has_served or self.failure or self._drain):
            await self._changed.wait()
        return self._has_served

    def drain(self, grace_s: float) -> None:
        """Let all finish what runs, and end."""
        self._drain = {"drain": grace_s}
        self._tell(self._drain)
        self._change()

    def watch(self, is_watched: bool) -> None:  # noqa: FBT001 (it is what is said)
        """Let all say what passes, or no longer."""
        self._is_watched = is_watched
        self._tell({"watch": is_watched})

    async def drop(self, scope: bytes, conversation: bytes) -> None:
        """Let none keep a copy of a conversation, and wait until none does."""
        running = list(self._running.values())
        await asyncio.gather(*(worker.drop(scope, conversation) for worker in running))

    def kill(self) -> None:
        """End all at once."""
        for worker in self._running.values():
            worker.kill()

    def _tell(self, message: Message) -> None:
        for worker in self._running.values():
            worker.tell(message)

    async def _keep(self, number: int) -> None:
        """Have a worker of this number for as long as there shall be one."""
        pause_s = PAUSE_S
        while not (self._drain or self.failure):
            began = time.monotonic()
            try:
                await self._live(number)
            except OSError as error:  # no process or socket is to be had, now
                self._lost(f"worker {number} cannot be started: {error}", number)
            if time.monotonic() - began > PAUSE_MAX_S:
                pause_s = PAUSE_S
            await self._pause(pause_s)
            pause_s = min(PAUSE_MAX_S, 2 * pause_s)

    async def _live(self, number: int) -> None:
        """Start one and see it to its end."""
        worker = self._running[number] = self._begun(number)
        code = await worker.follow(self._heard, self._probe_s, lambda: self._is_watched)
        del self._running[number]
        self._metrics.forget_gauges(number)
        self.on_ended(worker.pid)
        if code or not self._drain:
            reason = worker.failure or f"worker {number} ended with exit code {code}"
            self._lost(reason, number, pid=worker.pid, exit_code=code)
        self._change()

    def _lost(self, reason: str, number: int, **more: int | None) -> None:
        """Say that one is gone that should be there; at the start, none of them stays."""
        if not (self._has_served or self._drain):
            self.failure = self.failure or reason
            self.kill()
            self._change()
            return
        self._log.warning("worker_ended", number=number, reason=reason, **more)
        if not self._drain:
            self._metrics.restarts.inc()

    def _begun(self, number: int) -> Child:
        """Start one; until it has seen to signals itself, they wait."""
        ours, theirs = socket.socketpair()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            process = self._process(number, theirs)
            process.start()
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        return Child(number, process, ours, self.on_seen)

    def _heard(self) -> None:
        if self.serving == self.count and not self._has_served:
            self._has_served = True
            self.url = next(iter(self._running.values())).url
        if self._drain:
            self._tell(self._drain)  # one that was just being started has not heard it yet
        self._change()

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                while not (self._drain or self.failure):
                    await self._changed.wait()

    def _change(self) -> None:
        self._metrics.serving.set(self.serving)
        self._changed.set()
        self._changed = asyncio.Event()


def reserved(address: str) -> tuple[socket.socket, str]:
    """
    Hold a port for processes that share it, without listening: they get it even if it was 0.

    Returns:
        What holds it, and its address with the port that it got.

    Raises:
        OSError: The port cannot be had; its text names the address.
    """
    host, port = host_and_port(address)
    if not hasattr(socket, "SO_REUSEPORT"):
        raise OSError("this system cannot share a port among processes; use --workers 1")
    holding = socket.socket(_family(host), socket.SOCK_STREAM)
    try:
        # Whoever shares a port shares it with all who ask, with another proxy of this user, too.
        if port:
            socket.create_server((host, port), family=_family(host), backlog=1).close()
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if holding.family == socket.AF_INET6:
            holding.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        holding.bind((host, port))
    except OSError as error:
        holding.close()
        raise OSError(error.errno, f"{error.strerror} (while binding {address})") from None
    return holding, _written(holding)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _written(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return authority(host, port)
