"""
Command `verify`: it runs a client as a child process against the strict API, and reports.

All of it is on loopback. The child has a process group of its own, which is ended with the run.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reasoning_replay.build import build_version
from reasoning_replay.strict_api import DIALECTS, QUESTIONS, SCENARIOS, Script, StrictApi
from reasoning_replay.verify.report import UNVERIFIED, Run

__all__ = ["TIMEOUT_S", "Options", "verify"]

TIMEOUT_S: Final = 600.0
REQUESTS_MAX: Final = 1_000  # more are a loop without end
LOOK_S: Final = 0.2
SILENT_S: Final = 30.0
END_S: Final = 5.0
INTERRUPTED: Final = 128 + signal.SIGINT
LOOPBACK: Final = "127.0.0.1,localhost"
# Set to other values, they would win over those that a run sets.
UNSET: Final = (
    "ANTHROPIC_AUTH_TOKEN",
    "GOOGLE_API_KEY",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_USE_VERTEXAI",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    What to verify.

    Attributes:
        words: The command and its arguments.
        dialect: The only API to serve; "" means all.
        scenario: A name of SCENARIOS.
        is_strict: Whether a loss that the vendor accepts in silence is refused as well.
        through_proxy: Whether to run the command a second time, through the proxy.
        json: File for the report; None means none.
        timeout_s: Most time of one run, in seconds.
    """

    words: Sequence[str]
    dialect: str = ""
    scenario: str = next(iter(SCENARIOS))
    is_strict: bool = False
    through_proxy: bool = False
    json: Path | None = None
    timeout_s: float = TIMEOUT_S


def verify(options: Options) -> int:
    """
    Run the command, print the report, and return the exit code of the last run.

    Returns:
        0 nothing was lost, 1 something was, 2 not verified, 130 after Ctrl-C.
    """
    # A shell starts background jobs with SIGINT ignored, and `kill -INT` shall end them as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runs: list[Run] = []
    code = UNVERIFIED
    try:
        code = asyncio.run(_all(options, runs))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = INTERRUPTED
    except OSError as error:
        print(f"verify: {error.strerror or error}: {error.filename or 'loopback'}", file=sys.stderr)
        return UNVERIFIED
    for run in runs:
        print(*run.lines(), sep="\n", end="\n\n")
    if options.json is not None:
        report = {
            "version": build_version(),
            "scenario": options.scenario,
            "exit_code": code,
            "runs": [run.as_json() for run in runs],
        }
        try:
            options.json.write_text(json.dumps(report, indent=2) + "\n")
        except OSError as error:
            print(f"verify: --json {options.json}: {error.strerror}", file=sys.stderr)
            return UNVERIFIED
    return code


async def _all(options: Options, runs: list[Run]) -> int:
    """Run the command as often as asked for, and append each run, also one that is cut off."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 (for mypy: a coroutine runs in a task)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    if (questions := QUESTIONS.get(options.scenario, 1)) > 1:
        told = f"verify: the scenario {options.scenario} needs {questions} questions"
        print(told, file=sys.stderr)
    for through_proxy in (False, True) if options.through_proxy else (False,):
        async with _served(options) as api, _way(api, through_proxy=through_proxy) as base_url:
            code: int | None = None
            try:
                code = await _ended(options, api, base_url)
            finally:
                seen = tuple(api.exchanges), code, options.is_strict, through_proxy
                run = Run(*seen, dict(api.unserved))
                runs.append(run)
    return run.code


@contextlib.asynccontextmanager
async def _served(options: Options) -> AsyncIterator[StrictApi]:
    names = [options.dialect] if options.dialect else [*DIALECTS]
    # Marked texts are recognised without ids.
    script = Script(SCENARIOS[options.scenario], is_marked=True)
    dialects = [DIALECTS[name](script, is_strict=options.is_strict) for name in names]
    async with StrictApi(*dialects) as api:
        yield api


@contextlib.asynccontextmanager
async def _way(api: StrictApi, *, through_proxy: bool) -> AsyncIterator[str]:
    """Yield the base URL of the API, or of a proxy in front of it; both end in `/v1`."""
    if not through_proxy:
        yield api.base_url
        return
    from reasoning_replay.settings.model import Settings  # noqa: PLC0415 (only this run needs it)
    from reasoning_replay.web.app import running  # noqa: PLC0415 (as above)

    anywhere = "127.0.0.1:0"
    settings = Settings(
        upstream_url=api.base_url, listen=anywhere, admin_listen=anywhere, log_level="error"
    )
    async with running(settings) as app:
        yield f"{app.url}/v1"


async def _ended(options: Options, api: StrictApi, base_url: str) -> int | None:
    """
    Run the command to its end; return its exit code, or None if it was ended.

    Raises:
        OSError: The command cannot be run.
    """
    # In a group of its own, a child that reads a terminal would be stopped.
    stdin = asyncio.subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None
    child = await asyncio.create_subprocess_exec(
        *options.words, env=environment(os.environ, base_url), stdin=stdin, process_group=0
    )
    ended = asyncio.create_task(child.wait())
    silent = asyncio.get_running_loop().call_later(SILENT_S, _tell_silence, api, options.timeout_s)
    try:
        async with asyncio.timeout(options.timeout_s):
            while not ended.done():
                if len(api.exchanges) + api.unserved.total() >= REQUESTS_MAX:
                    _tell(f"more than {REQUESTS_MAX} requests, so the command is ended")
                    return None
                await asyncio.wait([ended], timeout=LOOK_S)
    except TimeoutError:
        _tell(f"no end after {options.timeout_s:g} s (--timeout), so the command is ended")
        return None
    else:
        return child.returncode
    finally:
        silent.cancel()
        await _end(child, ended)


def _tell_silence(api: StrictApi, timeout_s: float) -> None:
    """Say that nothing was asked yet: most clients that hang wait for another address."""
    if not api.exchanges and not api.unserved.total():
        _tell(
            f"no request yet after {SILENT_S:g} s: does the command read its base URL from "
            f"OPENAI_BASE_URL or the like? It is ended after {timeout_s:g} s (--timeout)"
        )


async def _end(child: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
    """End what is left of the child's process group; a second Ctrl-C only ends the wait."""
    try:
        _signal(child, signal.SIGTERM)
        await asyncio.wait([ended], timeout=END_S)
    finally:
        _signal(child, signal.SIGKILL)
    await asyncio.wait([ended], timeout=END_S)


def _signal(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is empty
        os.killpg(child.pid, number)


def environment(given: Mapping[str, str], base_url: str) -> dict[str, str]:
    """
    Return the environment of a client.

    Args:
        given: The environment of this process.
        base_url: The base URL of the API, `/v1` included.
    """
    root = base_url.removesuffix("/v1")
    environ = {name: value for name, value in given.items() if name not in UNSET}
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        environ[name] = base_url
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        environ[name] = root
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        environ[name] = "sk-verify"
    for name in ("NO_PROXY", "no_proxy"):
        environ[name] = ",".join(filter(None, (environ.get(name), LOOPBACK)))
    return environ


def _tell(words: str) -> None:
    print(f"verify: {words}", file=sys.stderr)
