"""The process, or processes: they serve until they are told to stop."""

import asyncio
import os
import shutil
import socket
import tempfile
from typing import TYPE_CHECKING, Final

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics, WorkerMetrics, share_metrics
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.admin.app import Readiness, Shown, admin_app
from reasoning_replay.web.admin.conversations import Conversations
from reasoning_replay.web.admin.store_probe import look_after
from reasoning_replay.web.app import App, access, admin_runner, announce, facts
from reasoning_replay.web.http.listener import Listener, reserved
from reasoning_replay.web.signals import INTERRUPTED, StopSignals, on_loop
from reasoning_replay.web.wiring import safe_store

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from reasoning_replay.web.processes.supervisor import Workers

__all__ = ["run"]

# Beyond drain_s, for what is left to close; a worker that needs longer is killed.
CLOSES_S: Final = 15.0


def run(settings: Settings) -> int:
    """
    Serve until told to stop; SIGTERM and SIGINT drain, a second one ends the process at once.

    Returns:
        The exit code: 0 after a drain, 1 when a port could not be had, 130 when interrupted.
    """
    try:
        return on_loop(_serve(settings)) if settings.workers == 1 else _supervise(settings)
    except KeyboardInterrupt:
        return INTERRUPTED


async def _serve(settings: Settings) -> int:
    told = StopSignals()
    log = Log(settings.log_level, settings.log_format)
    try:
        app = App(settings)
    except OSError as error:  # a file of certificates that is none
        log.error("cannot_start", reason=str(error))  # noqa: TRY400 (our own Log)
        return 1
    try:
        await app.start()
    except OSError as error:
        app.log.error("cannot_listen", reason=str(error))  # noqa: TRY400 (our own Log)
        await app.stop()
        return 1
    await app.store.check()  # so that a store that is not there is said at once
    grace_s = await told.grace_s(settings.drain_grace_s)
    told.then_end(lambda: None)
    await app.stop(settings.drain_s, grace_s)
    return 0


# Several processes: their parent.


def _supervise(settings: Settings) -> int:
    # In memory where there is such a place, as it is written to with each exchange.
    in_memory = "/dev/shm"  # noqa: S108 (a folder of our own is made in it)
    where = in_memory if os.access(in_memory, os.W_OK) else None
    try:
        folder = tempfile.mkdtemp(prefix="reasoning-replay-", dir=where)
    except OSError as error:
        log = Log(settings.log_level, settings.log_format)
        reason = f"no folder for the metrics of all workers: {error}"
        log.error("cannot_start", reason=reason)  # noqa: TRY400 (our own Log)
        return 1
    try:
        share_metrics(folder, 0)
        return on_loop(_supervise_on_loop(settings, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _supervise_on_loop(settings: Settings, folder: str) -> int:
    return await _Parent(settings, folder).serve()


class _Parent:
    """Watches over workers, and answers operators for them all."""

    def __init__(self, settings: Settings, folder: str) -> None:
        """Needs a running loop."""
        self._settings = settings
        self._folder = folder
        self._metrics = WorkerMetrics(folder)
        self._own = Metrics()
        self._log = Log(settings.log_level, settings.log_format)
        self._store = safe_store(settings, self._own, self._log)

    async def serve(self) -> int:
        """Return the exit code."""
        told = StopSignals()
        try:
            holding, address = reserved(self._settings.listen)
        except OSError as error:
            return self._failed("cannot_listen", str(error))
        from reasoning_replay.web.admin.inspector.worker_relay import Gathered  # noqa: PLC0415 (one process has no line)

        workers = self._workers(address)
        may_look = access(self._settings)
        conversations = Conversations(self._store, may_look, workers.drop)
        gathered = Gathered(workers.watch)
        workers.on_seen, workers.on_ended = gathered.hear, gathered.end
        shown = Shown(gathered, may_look, lambda: facts(self._settings, workers.url))
        operators = Listener(
            admin_runner(
                admin_app(
                    self._exposition,
                    self._store,
                    lambda: _readiness(workers),
                    conversations,
                    shown,
                )
            )
        )
        try:
            await operators.open(self._settings.admin_listen)
        except OSError as error:
            return self._failed("cannot_listen", str(error))
        else:
            return await self._watch(told, workers, operators.url)
        finally:
            await self._store.close()
            await operators.close()
            holding.close()

    async def _watch(self, told: StopSignals, workers: "Workers", admin_url: str) -> int:
        running = asyncio.create_task(workers.run())
        beside = [
            asyncio.create_task(self._stop(told, workers)),
            asyncio.create_task(look_after(self._store)),
        ]
        try:
            if await workers.started():
                announce(self._settings, self._log, self._store, workers.url, admin_url)
                await self._store.check()
            await running
        finally:
            for task in beside:
                task.cancel()
            workers.kill()
            await asyncio.wait([running, *beside])
        if workers.failure:
            return self._failed("cannot_start", workers.failure)
        self._log.info("stopped")
        return 0

    def _exposition(self) -> bytes:
        self._own.flush(self._log)
        return self._metrics.exposition()

    async def _stop(self, told: StopSignals, workers: "Workers") -> None:
        """Pass on what the first signal means, and the second."""
        settings = self._settings
        grace_s = await told.grace_s(settings.drain_grace_s)

        def clear_up() -> None:
            workers.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

        told.then_end(clear_up)
        workers.drain(grace_s)
        await asyncio.sleep(settings.drain_s + CLOSES_S)
        workers.kill()

    def _workers(self, address: str) -> "Workers":
        import multiprocessing  # noqa: PLC0415 (one process starts no others)

        from reasoning_replay.web.processes.supervisor import Workers  # noqa: PLC0415 (as above)
        from reasoning_replay.web.processes.worker import work  # noqa: PLC0415 (as above)

        context = multiprocessing.get_context("spawn")
        settings = self._settings.model_copy(update={"listen": address})

        def process(number: int, line: socket.socket) -> "BaseProcess":
            arguments = (settings, number, line, self._folder)
            return context.Process(target=work, args=arguments, name=f"worker-{number}")

        return Workers(settings.workers, process, self._metrics, self._log)

    def _failed(self, event: str, reason: str) -> int:
        self._log.error(event, reason=reason)
        return 1


def _readiness(workers: "Workers") -> Readiness:
    serving = f"{workers.serving} of {workers.count}"
    if workers.is_draining:
        return Readiness(is_ready=False, status="draining", workers=serving)
    is_ready = workers.serving == workers.count
    return Readiness(is_ready, "ready" if is_ready else "starting", serving)
