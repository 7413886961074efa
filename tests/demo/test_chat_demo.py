"""The demo of Chat Completions shows the error without the proxy and the success with it."""

import pytest
from reasoning_replay import demo
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import app

K1 = "The `reasoning_content` in the thinking mode must be passed back to the API."


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an environment that must not change the demo."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("REPLAY_MODE", "off")


def test_shows_the_fault_and_the_cure(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0: the direct loop gets the real error, the other one all dropped reasoning."""
    assert demo.run("chat") == 0

    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert f"failed in turn 2 with 400: {K1}" in said
    assert "finished in turn 3, with 2 of 2 dropped reasoning items injected" in said
    assert "x-reasoning-replay: injected=2" in out
    assert "OPENAI_BASE_URL=http://127.0.0.1:8080/v1" in out
    marked = [line.split("| ")[1].split() for line in out.splitlines() if "|   + " in line]
    assert [(sign, kind) for sign, kind, _ in marked] == [("+", "reasoning_content")] * 3


def test_says_when_the_proxy_does_not_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the proxy injects nothing, the demo prints the API's error and exits with 1."""

    def switched_off(settings: Settings) -> object:
        return app.running(settings.model_copy(update={"mode": "off"}))

    monkeypatch.setattr(demo, "running", switched_off)

    assert demo.run("chat") == 1
    out = capsys.readouterr().out
    assert f"Not as expected: the loop through the proxy did not finish. {K1}" in out
    page = out.partition("Not as expected")[0]
    assert max(map(len, page.splitlines())) <= 100
    assert page.isascii()
    assert "OPENAI_BASE_URL" not in out
