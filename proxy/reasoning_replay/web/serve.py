"""Serving process: its event loop, its signals, and its exit code."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, Final

from reasoning_replay.adapters.runtime.offload import shorten_switch_interval
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App

__all__ = ["StopSignals", "run"]

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# A shell reports a program that a signal ended as this number plus the signal's.
_SIGNALLED: Final = 128


def run(settings: Settings) -> int:
    """
    Serve until told to stop; SIGTERM and SIGINT drain, a second one ends the process at once.

    Returns:
        The exit code: 0 after a drain, 1 if it could not start, 130 if it was interrupted before
        it listened.
    """
    shorten_switch_interval()
    try:
        return _run_loop(_serve(settings))
    except KeyboardInterrupt:
        return _SIGNALLED + signal.SIGINT


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def _serve(settings: Settings) -> int:
    signals = StopSignals()
    log = Log(settings.log_level, settings.log_format)
    try:
        app = App(settings)
    except OSError as error:  # tracing cannot begin
        log.error("cannot_start", reason=str(error))  # noqa: TRY400 (our own Log)
        return 1
    try:
        await app.start()
    except OSError as error:
        app.log.error("cannot_listen", reason=str(error))  # noqa: TRY400 (our own Log)
        await app.stop()
        return 1
    await app.store.check()  # so that a store that is away is logged at once
    grace_s = await signals.grace_s(settings.drain_grace_s)
    signals.end_at_next()
    await app.stop(settings.drain_s, grace_s)
    return 0


class StopSignals:
    """SIGTERM and SIGINT: the first one is waited for, the second one ends the process."""

    def __init__(self) -> None:
        """Watch from here on; needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[int] = self._loop.create_future()
        for number in _STOP_SIGNALS:
            self._loop.add_signal_handler(number, self._note, number)

    async def grace_s(self, most_s: float) -> float:
        """Wait for the first signal; return how long new requests are still taken (Ctrl-C: 0 s)."""
        return most_s if await self._first == signal.SIGTERM else 0.0

    def end_at_next(self) -> None:
        """End the process at the next signal, also while the loop is blocked."""

        def end(number: int, *_: object) -> None:
            # By an exit of its own: the system's default action does not apply to the first
            # process of a container.
            os._exit(_SIGNALLED + number)

        for number in _STOP_SIGNALS:
            self._loop.add_signal_handler(number, end, number)
            signal.signal(number, end)

    def _note(self, number: int) -> None:
        if not self._first.done():
            self._first.set_result(number)
