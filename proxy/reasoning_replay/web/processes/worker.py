"""One process of several: it serves until its parent says otherwise, or is gone."""

import asyncio
import gc
import shutil
import signal
import socket
import sys
from collections.abc import Callable

from reasoning_replay.adapters.telemetry.metrics import share_metrics
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.admin.inspector.worker_relay import Reporting
from reasoning_replay.web.app import App
from reasoning_replay.web.processes.ipc import messages, written
from reasoning_replay.web.signals import STOPPING, on_loop

__all__ = ["work"]


def work(settings: Settings, number: int, line: socket.socket, folder: str) -> None:
    """Serve as one of several; the main function of its process."""
    gc.freeze()  # as `cli` does: what has been brought in stays
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the parent decides
    share_metrics(folder, number)
    sys.exit(on_loop(_serve_as_worker(settings, number, line, folder)))


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
    reporting = Reporting(app.recorder, writer)
    async for message in messages(reader):
        match message:
            case {"drain": float(grace_s)}:
                leave(grace_s)
            case {"probe": int(asked)}:
                writer.write(written({"alive": asked}))
            case {"watch": bool(is_watched)}:
                reporting.watch(is_watched=is_watched)
