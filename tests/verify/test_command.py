"""`verify` runs any command against the strict API, and ends what it has begun."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.verify import command as module
from reasoning_replay.verify.command import environment

from tests.fast_lane import first
from tests.verify.conftest import Verified
from tests.web.world import eventually

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
EXAMPLES = ROOT / "examples"
# A client that keeps everything, on nothing but the standard library.
KEEPS = """
import json, os, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/responses"
history = [{"role": "user", "content": "Where does it rain?"}]
tool = {"type": "function", "name": "get_weather", "parameters": {}}
calls = True
while calls:
    body = json.dumps({"model": "gpt-5.4", "input": history, "tools": [tool]}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
        output = json.load(answer)["output"]
    calls = [one["call_id"] for one in output if one["type"] == "function_call"]
    history += output
    history += [{"type": "function_call_output", "call_id": c, "output": "rain"} for c in calls]
"""
# A command that starts another process and names it, and then waits.
WAITS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


async def started(*words: object, **options: Any) -> asyncio.subprocess.Process:
    """Start `verify` with these arguments."""
    return await asyncio.create_subprocess_exec(
        PYTHON,
        "-m",
        "reasoning_replay",
        "verify",
        *map(str, words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        # Not the packages of the tests: a client in another environment has its own versions.
        env={**os.environ, "PYTHONPATH": str(ROOT / "proxy")},
        **options,
    )


async def test_a_client_that_keeps_everything_passes() -> None:
    """Exit 0, with a row for each request."""
    process = await started("--", PYTHON, "-c", KEEPS)
    printed, said = await process.communicate()
    assert (process.returncode, said) == (0, b"")
    assert b"Whole: reasoning came back each of 3 times" in printed
    assert printed.startswith(b"straight to the API: Python-urllib/")


@pytest.mark.parametrize(
    ("example", "words"),
    first(
        1,
        [
            ("openai_chat.py", "must be passed back to the API"),
            ("openai_python.py", "without its required 'reasoning' item"),
            ("anthropic_python.py", "Expected `thinking` or `redacted_thinking`"),
            ("gemini_python.py", "is missing a thought_signature"),
        ],
    ),
)
def test_a_client_that_drops_reasoning_fails_and_passes_through_the_proxy(
    verified: Verified, tmp_path: Path, example: str, words: str
) -> None:
    """The report has both runs; the second one decides."""
    file = tmp_path / "report.json"
    code, printed, _ = verified("--through-proxy", "--json", file, "--", PYTHON, EXAMPLES / example)
    assert code == 0
    assert words in printed
    report = json.loads(file.read_text())
    assert (report["exit_code"], report["scenario"]) == (0, "tour")
    assert [run["verdict"] for run in report["runs"]] == ["lost", "whole"]
    assert [run["through_proxy"] for run in report["runs"]] == [False, True]
    assert [run["command_exit_code"] for run in report["runs"]] == [1, 0]


def test_strict_refuses_what_the_vendor_accepts(verified: Verified) -> None:
    """A loss without ids is named in any case; a strict API refuses it, and says that it does."""
    drops = KEEPS.replace("history += output\n", DROPS)
    code, printed, _ = verified("--scenario", "chain", "--", PYTHON, "-c", drops)
    assert code == 1
    assert "is missing at input[1]" in printed
    assert "HTTP 400" not in printed
    code, printed, _ = verified("--strict", "--", PYTHON, "-c", drops)
    assert code == 1
    assert "Reasoning of turn 1 is missing at input[1]." in printed
    assert "(the strict API's own rule, --strict)" in printed


DROPS = """history += [
        {k: v for k, v in one.items() if k != "id"} for one in output if one["type"] != "reasoning"
    ]
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "verify: no command; write it after --"),
        (("--scenario", "none", "--", "true"), "--scenario: 'none' is none of tour, one-call,"),
        (("stray", "--", "true"), "verify: 1 unexpected argument(s); see --help"),
        (("--", "/no/such/program"), "verify: No such file or directory: /no/such/program"),
        (("--json", "/no/such/folder/file", "--", PYTHON, "-c", KEEPS), "verify: --json /no/such"),
        (("--dialect", "chat", "--", PYTHON, "-c", "pass"), ""),
        (("--timeout", "nan", "--", "true"), "--timeout: nan is no number of seconds above 0"),
        (("--timeout", "-1", "--", "true"), "--timeout: -1 is no number of seconds above 0"),
        (("--scenario", "two-turns", "--", PYTHON, "-c", "pass"), "two-turns needs 2 questions"),
        (("--timeout", "0.5", "--", PYTHON, "-c", WAITS), "no end after 0.5 s (--timeout)"),
    ],
)
def test_what_is_not_verified_is_exit_2(
    verified: Verified, words: tuple[str, ...], told: str
) -> None:
    """One line gives the reason and the way out."""
    code, _, said = verified(*words)
    assert code == 2
    assert told in said
    assert len(said.splitlines()) == bool(told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_command_and_all_that_it_started(number: signal.Signals) -> None:
    """What was seen is printed; nothing of the command's process group is left."""
    process = await started("--", PYTHON, "-c", WAITS)
    assert process.stdout is not None
    grandchild = int(await process.stdout.readline())
    process.send_signal(number)
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130
    assert b"the command was ended" in printed
    await eventually(lambda: is_over(grandchild))


def is_over(pid: int) -> bool:
    """Return whether a process has ended, or only waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# A client that asks for a path, and does not mind the answer.
ASKS_TWICE = """
import os, urllib.request
for _ in range(2):
    try:
        urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + {path!r}, {body!r})
    except OSError:
        pass
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print(os.getpid(), flush=True)
while True:
    time.sleep(600)
"""


async def test_a_second_signal_ends_a_stubborn_command_at_once() -> None:
    """It gets no more time, and is killed."""
    process = await started("--", PYTHON, "-c", STUBBORN)
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert await process.stdout.readline() == b"no\n"  # it was asked to end
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode == 130
    await eventually(lambda: is_over(child))


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/wrong", "{}", "not served: POST /v1/wrong (2 times)"),
        ("/responses", "{}", "not served: POST /v1/responses: Missing or invalid parameter: 'in"),
    ],
)
def test_a_wrong_path_or_body_is_named(verified: Verified, path: str, body: str, told: str) -> None:
    """Not only that the command never called."""
    program = ASKS_TWICE.format(path=path, body=body.encode())
    code, printed, _ = verified("--", PYTHON, "-c", program)
    assert code == 2
    assert told in printed


def test_requests_are_bounded(
    verified: Verified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client in a loop without end is ended."""
    monkeypatch.setattr(module, "REQUESTS_MAX", 50)
    loops = KEEPS.replace("while calls:", "while True:").replace("    history +=", "    _ =")
    file = tmp_path / "report.json"
    code, _, said = verified("--json", file, "--", PYTHON, "-c", loops)
    assert code == 2
    assert "more than 50 requests" in said
    assert len(json.loads(file.read_text())["runs"][0]["requests"]) >= 50


async def test_the_command_reads_what_is_piped() -> None:
    """So that a question can be given."""
    program = "import sys; sys.exit(sys.stdin.read() != 'Hello')"
    process = await started("--", PYTHON, "-c", program, stdin=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate(b"Hello")
    assert b"the command exited with 0 and never called" in printed


def test_the_environment_has_no_other_credentials() -> None:
    """Variables that would win over those of the run are left out; loopback needs no proxy."""
    given = {
        "ANTHROPIC_AUTH_TOKEN": "x",
        "OPENAI_API_KEY": "mine",
        "NO_PROXY": "a.example",
        "A": "b",
    }
    made = environment(given, "http://127.0.0.1:1/v1")
    assert made["OPENAI_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert made["ANTHROPIC_BASE_URL"] == made["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1"
    assert made["OPENAI_API_KEY"] == "sk-verify"
    assert made["NO_PROXY"] == "a.example,127.0.0.1,localhost"
    assert made["A"] == "b"
    assert "ANTHROPIC_AUTH_TOKEN" not in made


def test_silence_is_told_before_the_time_is_over(
    verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that waits for another address is not waited for without a word."""
    monkeypatch.setattr(module, "SILENT_S", 0.01)
    _, _, said = verified("--", PYTHON, "-c", "import time; time.sleep(0.5)")
    assert "no request yet after 0.01 s: does the command read its base URL from" in said
