"""The demo shows the error without the proxy and the success with it, and reports if it cannot."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reasoning_replay import demo
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import app

ROOT = Path(__file__).parents[2]
RESTORED = 3  # one in turn 2, two in turn 3

# (dialect, the error, type of the injected items, the variable to set)
SHOWN = [
    pytest.param(
        "responses",
        "Item 'fc_",
        "reasoning",
        "OPENAI_BASE_URL=http://127.0.0.1:8080/v1",
        id="responses",
    ),
    pytest.param(
        "chat",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "reasoning_content",
        "OPENAI_BASE_URL=http://127.0.0.1:8080/v1",
        id="chat",
    ),
    pytest.param(
        "messages",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found",
        "thinking",
        "ANTHROPIC_BASE_URL=http://127.0.0.1:8080",
        id="messages",
    ),
    pytest.param(
        "gemini",
        "Function call is missing a thought_signature in functionCall parts.",
        "thoughtSignature",
        "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8080",
        id="gemini",
    ),
]


@pytest.fixture(autouse=True)
def _a_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an environment that must not change the demo: no key, a broken proxy, mode off."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("REPLAY_MODE", "off")


@pytest.mark.parametrize(("dialect", "error", "kind", "variable"), SHOWN)
def test_shows_the_fault_and_the_cure(
    capsys: pytest.CaptureFixture[str], dialect: str, error: str, kind: str, variable: str
) -> None:
    """Exit 0: the direct loop gets the real error, the other one all dropped reasoning."""
    assert demo.run(dialect) == 0

    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert f"failed in turn 2 with 400: {error}" in said
    assert "finished in turn 3, with 2 dropped reasoning items injected" in said
    assert "x-reasoning-replay: injected=2" in out
    assert variable in out
    marked = [line.split("| ")[1].split() for line in out.splitlines() if "|   + " in line]
    assert [(sign, name) for sign, name, _ in marked] == [("+", kind)] * RESTORED
    # A plain terminal shows it.
    assert max(map(len, out.splitlines())) <= 100
    assert out.isascii()
    assert "\x1b" not in out


@pytest.mark.parametrize(("dialect", "error", "kind", "variable"), SHOWN)
def test_says_when_the_proxy_does_not_help(  # noqa: PLR0917 - two fixtures, and a row
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    error: str,
    kind: str,
    variable: str,
) -> None:
    """If the proxy injects nothing, the demo prints the API's error and exits with 1."""

    def switched_off(settings: Settings) -> object:
        return app.running(settings.model_copy(update={"mode": "off"}))

    monkeypatch.setattr(demo, "running", switched_off)

    assert demo.run(dialect) == 1
    out = capsys.readouterr().out
    assert out.endswith("This was not expected.\n")
    assert " ".join(out.split()).count(f"failed in turn 2 with 400: {error}") == 2
    assert variable not in out
    assert f"+ {kind}" not in out


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"),
    [
        pytest.param(True, None, True, id="terminal"),
        pytest.param(True, "1", False, id="terminal-that-wants-none"),
        pytest.param(False, None, False, id="pipe"),
    ],
)
def test_colours_only_a_terminal_that_wants_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    terminal: bool,
    no_color: str | None,
    coloured: bool,
) -> None:
    """NO_COLOR and pipes turn colour off."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    demo.run()
    assert ("\x1b[32m" in capsys.readouterr().out) is coloured


def test_says_when_nothing_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the direct loop does not fail, the demo exits with 1."""
    show = demo.SHOWS["responses"]
    monkeypatch.setitem(demo.SHOWS, "responses", replace(show, model="gpt-4o"))  # no reasoning

    assert demo.run() == 1
    assert capsys.readouterr().out.endswith("This was not expected.\n")


def test_says_when_it_cannot_listen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without loopback the demo prints one line and exits with 1, without a traceback."""

    def refused(settings: Settings) -> object:
        raise OSError("address not available")

    monkeypatch.setattr(demo, "running", refused)

    assert demo.run() == 1
    said = capsys.readouterr().out
    assert said == "The demo failed on loopback: address not available\n"


def test_it_needs_no_sdk() -> None:
    """The demo imports neither the SDK nor the tests, so it starts quickly."""
    program = (
        "import sys; from reasoning_replay import demo; "
        "sys.exit(demo.run() or bool({'anthropic', 'openai', 'tests'} & {*sys.modules}))"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, b"")
