"""The process: it serves until it is told to stop."""

import asyncio
import signal

from proxy.adapters.logs import Log
from proxy.settings import Settings
from proxy.web.app import App

__all__ = ["run"]

INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def run(settings: Settings) -> int:
    """
    Serve until told to stop; SIGTERM and SIGINT drain, a second one ends at once.

    Returns:
        The exit code: 0 after a drain, 1 when a port could not be had, 130 when interrupted.
    """
    try:
        import uvloop  # noqa: PLC0415 (not on Windows)
    except ImportError:
        serve = asyncio.run
    else:
        serve = uvloop.run
    try:
        return serve(_serve(settings))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _serve(settings: Settings) -> int:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    log = Log(settings.log_level, settings.log_format)
    try:
        app = App(settings)
    except OSError as error:  # a file of certificates that is none
        log.error("cannot_start", reason=str(error))  # noqa: TRY400 (as below)
        return 1
    try:
        await app.start()
    except OSError as error:
        app.log.error("cannot_listen", reason=str(error))  # noqa: TRY400 (our own Log)
        await app.stop()
        return 1
    await app.store.check()  # so that a store that is not there is said at once
    await told.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)  # the second one gets the system's own treatment
    await app.stop(settings.drain_s)
    return 0
