"""Serving process: its event loop, its signals, and its exit code."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from reasoning_replay.adapters.resilience.safe_store import SafeStore
from reasoning_replay.adapters.runtime.allocator import tune_allocator
from reasoning_replay.adapters.runtime.background import keep_doing
from reasoning_replay.adapters.runtime.offload import shorten_switch_interval
from reasoning_replay.adapters.stores.registry import read_store_url, sentence
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.tenancy.scope import read_secrets
from reasoning_replay.settings.entries import SettingsError
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.own_store import is_own
from reasoning_replay.settings.urls import redacted
from reasoning_replay.web.app import App
from reasoning_replay.web.wiring import base_urls

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# A shell reports a program that was ended by a signal as this number plus the signal's.
_SIGNALLED: Final = 128


def run(settings: Settings, load: Callable[[], Settings]) -> int:
    """
    Serve until a stop signal. SIGTERM or SIGINT drains; a second one ends the process at once.

    SIGHUP reloads secrets and the certificate.

    Args:
        settings: All settings of this process.
        load: Loads the settings again, or raises SettingsError.

    Returns:
        The exit code: 0 after a drain, 1 if it could not start.

    Raises:
        KeyboardInterrupt: Ctrl-C came before it opened its ports.
    """
    shorten_switch_interval()
    tune_allocator()
    return _run_loop(_serve(settings, load))


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def _serve(settings: Settings, load: Callable[[], Settings]) -> int:
    signals = StopSignals()
    log = Log(settings.log_level, settings.log_format, fields=settings.log_fields)
    try:
        app = App(settings)
    except OSError as error:  # an invalid file or variable
        log.error("cannot_start", reason=str(error))  # noqa: TRY400 (our own Log)
        return 1
    if reason := _store_fault(settings, await app.store.trial(), app.store):
        app.log.error("cannot_start", reason=reason)
        await app.stop()
        return 1
    try:
        await app.start()
    except OSError as error:
        app.log.error("cannot_listen", reason=str(error))  # noqa: TRY400 (our own Log)
        await app.stop()
        return 1
    if sys.stdout.isatty():
        print(_welcome(app, settings), flush=True)  # noqa: T201 (for a person, not a log)
    reload = partial(_reload, app, load, signals.hangup)
    reloads = keep_doing("reload", reload, app.log)
    grace_s = await signals.grace_s(settings.drain_grace_s)
    signals.end_at_next()
    reloads.cancel()
    await app.stop(settings.drain_s, grace_s)
    return 0


def _store_fault(settings: Settings, fault: str, store: SafeStore) -> str:
    """Return why a fault of the store ends the start; "" if it may pass, or if there is none."""
    if not fault:
        return ""
    is_lasting = read_store_url(settings.store_url).advice(fault).is_lasting
    if not (is_lasting or (settings.require_store and store.is_unreachable)):
        return ""
    why = "" if is_lasting else "; require_store is set"
    return (
        f"{redacted(settings.store_url)} cannot be used: {sentence(settings.store_url, fault)}{why}"
    )


def _welcome(app: App, settings: Settings) -> str:
    """Return the URLs that a person needs: of the inspector, and for each sort of client."""
    rows = [f"  your app   {client}" for client in base_urls(app.url, settings)]
    store = redacted(settings.store_url)
    if is_own(settings.store_url):
        store += "  (for no file: --store-url memory://)"
    if fault := app.store.fault:
        store += f"\n             not used yet: {sentence(settings.store_url, fault)}"
    rows += [f"  inspector  {app.admin_url}/", f"  store      {store}"]
    return "\n".join(["", *rows, "", "  Ctrl-C ends it.", ""])


async def _reload(app: App, load: Callable[[], Settings], hangup: asyncio.Event) -> None:
    """Reload at the next SIGHUP, and log the result."""
    await hangup.wait()
    hangup.clear()
    try:
        settings = await asyncio.to_thread(load)
        before = _scope_secrets(app.settings)
        changed, waiting = app.reload(settings)
    except SettingsError as error:
        app.log.warning("not_reloaded", reason="; ".join(error.faults))
    except OSError as error:
        app.log.warning("not_reloaded", reason=str(error))
    except Exception as error:  # noqa: BLE001 (the next file may be a better one)
        reason = f"{type(error).__name__}, which is a fault of the proxy; please report it"
        app.log.warning("not_reloaded", reason=reason)
    else:
        fields = {"needs_restart": ",".join(waiting)} if waiting else {}
        if "mode" in changed:
            fields["mode"] = settings.mode
        if "scope_secret" in waiting and before[0] not in _scope_secrets(settings):
            fields["hint"] = "a new scope_secret hides every stored conversation"
        app.log.info("reloaded", changed=",".join(changed) or "nothing", **fields)


def _scope_secrets(settings: Settings) -> tuple[str, ...]:
    return read_secrets(settings.scope_secret.get_secret_value())


class StopSignals:
    """
    SIGTERM and SIGINT: the first one starts the drain, the second one ends the process.

    A SIGHUP asks for a reload. If it comes because the terminal of the process was closed, it
    counts as SIGINT: the process would go on unseen.

    Attributes:
        hangup: Set by each SIGHUP that asks for a reload.
    """

    def __init__(self) -> None:
        """Install the signal handlers; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[int] = self._loop.create_future()
        for number in _STOP_SIGNALS:
            self._loop.add_signal_handler(number, self._note, number)
        self.hangup = asyncio.Event()
        self._has_terminal = _has_terminal()
        if hasattr(signal, "SIGHUP"):  # not on Windows
            self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    async def grace_s(self, most_s: float) -> float:
        """Wait for the first signal; return the grace period in seconds, which is 0 for SIGINT."""
        return most_s if await self._first == signal.SIGTERM else 0.0

    def end_at_next(self) -> None:
        """End the process at the next signal, even while the event loop is blocked."""

        def end(number: int, *_: object) -> None:
            # An explicit exit: the default action of a signal does not apply to the first process
            # of a container.
            os._exit(_SIGNALLED + number)

        for number in _STOP_SIGNALS:
            self._loop.add_signal_handler(number, end, number)
            signal.signal(number, end)

    def _note(self, number: int) -> None:
        if not self._first.done():
            self._first.set_result(number)

    def _hang_up(self) -> None:
        if self._has_terminal and not _has_terminal():
            self._note(signal.SIGINT)
        else:
            self.hangup.set()


def _has_terminal() -> bool:
    return os.isatty(0)
