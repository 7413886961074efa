"""The demos of the other dialects show the error without the proxy and the success with it."""

import pytest
from reasoning_replay import demo
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import app

# (dialect, the error, type of the injected items, the variable to set)
SHOWN = [
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
]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an environment that must not change the demo."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("REPLAY_MODE", "off")


@pytest.mark.parametrize(("dialect", "error", "kind", "variable"), SHOWN)
def test_shows_the_fault_and_the_cure(
    capsys: pytest.CaptureFixture[str], dialect: demo.Dialect, error: str, kind: str, variable: str
) -> None:
    """Exit 0: the direct loop gets the real error, the other one all dropped reasoning."""
    assert demo.run(dialect) == 0

    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert f"failed in turn 2 with 400: {error}" in said
    assert "finished in turn 3, with 2 of 2 dropped reasoning items injected" in said
    assert "x-reasoning-replay: injected=2" in out
    assert variable in out
    marked = [line.split("| ")[1].split() for line in out.splitlines() if "|   + " in line]
    assert [(sign, name) for sign, name, _ in marked] == [("+", kind)] * 3


@pytest.mark.parametrize(("dialect", "error", "kind", "variable"), SHOWN)
def test_says_when_the_proxy_does_not_help(  # noqa: PLR0917 - two fixtures, and a row
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    dialect: demo.Dialect,
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
    assert f"Not as expected: the loop through the proxy did not finish. {error}" in out
    page = out.partition("Not as expected")[0]
    assert max(map(len, page.splitlines())) <= 100
    assert page.isascii()
    assert variable not in out
    assert f"+ {kind}" not in out
