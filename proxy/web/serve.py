"""The process, or processes: they serve until they are told to stop."""

import asyncio
import gc
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from multiprocessing.process import BaseProcess
from typing import Any, Final

from proxy.adapters.allocator import keep_freed
from proxy.adapters.logs import Log
from proxy.adapters.metrics import Metrics, WorkerMetrics, share_metrics
from proxy.settings import Settings
from proxy.web.admin import Readiness, Shown, admin_app
from proxy.web.app import App, access, admin_runner, announce, facts
from proxy.web.conversations import Conversations
from proxy.web.parts import guarded_store
from proxy.web.port import Port, reserved
from proxy.web.workers import STOPPING, Workers, messages, written

__all__ = ["run"]

# What a shell says of a program that a signal ended: so much, and the signal's number.
SIGNALLED: Final = 128
INTERRUPTED: Final = SIGNALLED + signal.SIGINT
# Beyond drain_s, for what is left to close; a worker that needs longer is killed.
CLOSES_S: Final = 15.0


def run(settings: Settings) -> int:
    """
    Serve until told to stop; SIGTERM and SIGINT drain, a second one ends the process at once.

    Returns:
        The exit code: 0 after a drain, 1 when a port could not be had, 130 when interrupted.
    """
    try:
        return _on_loop(_serve(settings)) if settings.workers == 1 else _supervise(settings)
    except KeyboardInterrupt:
        return INTERRUPTED


def _on_loop(main: Coroutine[Any, Any, int]) -> int:
    keep_freed()
    try:
        import uvloop  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


class _Told:
    """Waits for the first signal to stop; the second one ends the process."""

    def __init__(self) -> None:
        """Watch from here on; needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[int] = self._loop.create_future()
        for number in STOPPING:
            self._loop.add_signal_handler(number, self._note, number)

    async def grace_s(self, settings: Settings) -> float:
        """Return how long new requests shall still be taken, once told to stop."""
        return settings.drain_grace_s if await self._first == signal.SIGTERM else 0.0

    def then_end(self, clear_up: Callable[[], None]) -> None:
        """End the process at the next signal, whatever it is about; not without clearing up."""

        def end(number: int, *_: object) -> None:
            # By ourselves: what the system does by default, it does not do to the first process
            # of a container.
            try:
                clear_up()
            finally:
                os._exit(SIGNALLED + number)

        for number in STOPPING:
            self._loop.add_signal_handler(number, end, number)
            signal.signal(number, end)  # also when the loop does not turn

    def _note(self, number: int) -> None:
        if not self._first.done():
            self._first.set_result(number)


async def _serve(settings: Settings) -> int:
    told = _Told()
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
    grace_s = await told.grace_s(settings)
    told.then_end(lambda: None)
    await app.stop(settings.drain_s, grace_s)
    return 0


# Several processes: the parent...


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
        return _on_loop(_supervise_on_loop(settings, folder))
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
        self._log = Log(settings.log_level, settings.log_format)
        self._store = guarded_store(settings, Metrics(), self._log)

    async def serve(self) -> int:
        """Return the exit code."""
        told = _Told()
        try:
            holding, address = reserved(self._settings.listen)
        except OSError as error:
            return self._failed("cannot_listen", str(error))
        from proxy.web.inspector.line import Gathered  # noqa: PLC0415 (one process has no line)

        workers = self._workers(address)
        may_look = access(self._settings)
        conversations = Conversations(self._store, may_look, workers.drop)
        gathered = Gathered(workers.watch)
        workers.on_seen, workers.on_ended = gathered.hear, gathered.end
        shown = Shown(gathered, may_look, lambda: facts(self._settings, workers.url))
        operators = Port(
            admin_runner(
                admin_app(
                    self._metrics.exposition,
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

    async def _watch(self, told: _Told, workers: Workers, admin_url: str) -> int:
        running = asyncio.create_task(workers.run())
        stopping = asyncio.create_task(self._stop(told, workers))
        try:
            if await workers.started():
                announce(self._settings, self._log, self._store, workers.url, admin_url)
                await self._store.check()
            await running
        finally:
            stopping.cancel()
            workers.kill()
            await asyncio.wait([running, stopping])
        if workers.failure:
            return self._failed("cannot_start", workers.failure)
        self._log.info("stopped")
        return 0

    async def _stop(self, told: _Told, workers: Workers) -> None:
        """Pass on what the first signal means, and the second."""
        settings = self._settings
        grace_s = await told.grace_s(settings)

        def clear_up() -> None:
            workers.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

        told.then_end(clear_up)
        workers.drain(grace_s)
        await asyncio.sleep(settings.drain_s + CLOSES_S)
        workers.kill()

    def _workers(self, address: str) -> Workers:
        context = multiprocessing.get_context("spawn")
        settings = self._settings.model_copy(update={"listen": address})

        def process(number: int, line: socket.socket) -> BaseProcess:
            arguments = (settings, number, line, self._folder)
            return context.Process(target=_work, args=arguments, name=f"worker-{number}")

        return Workers(settings.workers, process, self._metrics, self._log)

    def _failed(self, event: str, reason: str) -> int:
        self._log.error(event, reason=reason)
        return 1


def _readiness(workers: Workers) -> Readiness:
    serving = f"{workers.serving} of {workers.count}"
    if workers.is_draining:
        return Readiness(is_ready=False, status="draining", workers=serving)
    is_ready = workers.serving == workers.count
    return Readiness(is_ready, "ready" if is_ready else "starting", serving)


# ... and a worker.


def _work(settings: Settings, number: int, line: socket.socket, folder: str) -> None:
    """Serve as one of several; the main function of its process."""
    gc.freeze()  # as `cli` does: what has been brought in stays
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the parent decides
    share_metrics(folder, number)
    sys.exit(_on_loop(_serve_as_worker(settings, number, line, folder)))


async def _serve_as_worker(
    settings: Settings, number: int, line: socket.socket, folder: str
) -> int:
    loop = asyncio.get_running_loop()
    grace: asyncio.Future[float] = loop.create_future()

    def leave(grace_s: float) -> None:
        if not grace.done():
            grace.set_result(grace_s)

    loop.add_signal_handler(signal.SIGTERM, leave, settings.drain_grace_s)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    reader, writer = await asyncio.open_connection(sock=line)
    app: App | None = None
    try:
        app = App(settings, worker=number)
        await app.start()
    except OSError as error:
        writer.write(written({"failed": str(error)}))
        await writer.drain()
        if app is not None:
            await app.stop()
        return 1
    writer.write(written({"serving": app.url}))

    async def heed() -> None:
        await _heed(app, reader, writer, leave)
        app.log.warning("parent_gone")
        shutil.rmtree(folder, ignore_errors=True)  # what is open stays; nobody else will remove it
        leave(settings.drain_grace_s)

    heeding = asyncio.create_task(heed())
    await app.stop(settings.drain_s, await grace)
    heeding.cancel()
    await asyncio.wait([heeding])
    writer.close()
    return 0


async def _heed(
    app: App,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    leave: Callable[[float], None],
) -> None:
    """Do what the parent says, until it is gone."""
    from proxy.web.inspector.line import Reporting  # noqa: PLC0415 (one process has no line)

    reporting = Reporting(app.recorder, writer)
    async for message in messages(reader):
        match message:
            case {"drain": float(grace_s)}:
                leave(grace_s)
            case {"probe": int(asked)}:
                writer.write(written({"alive": asked}))
            case {"watch": bool(is_watched)}:
                reporting.watch(is_watched=is_watched)
            case {"drop": [str(scope), str(conversation)]}:
                app.store.drop(bytes.fromhex(scope), bytes.fromhex(conversation))
