"""The command line runs one command; each error is one line."""

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from reasoning_replay import cli, demo
from reasoning_replay.build import build_version
from reasoning_replay.demo import playground
from reasoning_replay.settings.loader import Loaded, flag_of
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.own_store import own_store_url
from reasoning_replay.settings.reference import COMMON
from reasoning_replay.web import serve

SECRET = "hunter2-hunter2"
ROOT = Path(__file__).parents[1]
SEVERAL = "{a: {url: http://h/v1}, b: {url: http://h/v1}}"
NAMED = SEVERAL.replace("http://h", "https://api.openai.com")
SCOPE = "4bdbcba045deafecbf5a68464eadad98"
COMMANDS = ["serve", "check", "config", "health", "scope"]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings from the environment of the test run."""
    for key in list(os.environ):
        if key.startswith("REPLAY_"):
            monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)  # no own store


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that `serve` would have run with."""
    got: list[Settings] = []

    def run(settings: Settings, load_again: Callable[[], Settings]) -> int:
        got.append(settings)
        assert load_again() == settings
        return 0

    monkeypatch.setattr(serve, "run", run)
    return got


def test_serve_runs_with_the_defaults(served: list[Settings]) -> None:
    """`serve` works without any setting."""
    assert cli.main(["serve"]) == 0
    assert served == [Settings()]


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (["serve", "--config", "{file}"], ""),
        (["--config", "{file}", "serve"], ""),
        (["serve"], "{file}"),
        (["serve", "--config", "{file}"], "nowhere.yaml"),
    ],
)
def test_a_file_of_settings_is_named_by_flag_or_variable(
    served: list[Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    variable: str,
) -> None:
    """The flag stands before or after the command, and overrides the variable."""
    file = tmp_path / "replay.yaml"
    file.write_text("mode: shadow\n")
    monkeypatch.setenv("REPLAY_CONFIG", variable.format(file=file))
    assert cli.main([word.format(file=file) for word in words]) == 0
    assert [settings.mode for settings in served] == ["shadow"]


def test_every_setting_has_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flags come from Settings: one for each, in kebab-case."""
    given = {name: f"text of {name}" for name in Settings.model_fields}
    read: list[Mapping[str, str]] = []

    def load_with_sources(flags: Mapping[str, str], *_: object) -> Loaded:
        read.append(flags)
        return Loaded(Settings(), {})

    monkeypatch.setattr(cli, "load_with_sources", load_with_sources)
    monkeypatch.setattr(serve, "run", lambda *_: 0)

    assert cli.main(["serve", *(f"{flag_of(name)}={text}" for name, text in given.items())]) == 0
    assert read == [given]


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(
            ["--mode", "maybe", "--ttl=5", "--listen=1"],
            [
                "--ttl: unknown setting; did you mean --ttl-s?",
                (
                    '--listen: "1": not host:port; use 127.0.0.1:8080, '
                    "0.0.0.0:8080 (every interface) or [::1]:8080"
                ),
                "--mode: \"maybe\": should be 'on', 'shadow' or 'off'; the default is on",
            ],
            id="one-line-for-each-fault",
        ),
        pytest.param(
            ["--scope-secrt", SECRET],
            ["--scope-secrt: unknown setting; did you mean --scope-secret?"],
            id="misspelt-flag-with-a-secret",
        ),
        pytest.param(
            [f"--scope-secrt={SECRET}"],
            ["--scope-secrt: unknown setting; did you mean --scope-secret?"],
            id="misspelt-flag-holding-a-secret",
        ),
        pytest.param(
            ["--redis", "redis://h"],
            ["--redis: unknown setting; write --store-url redis://HOST:6379/0"],
            id="another-word-for-a-store",
        ),
        pytest.param(
            ["--port", "80", "--host", "::1"],
            [
                "--port: unknown setting; write --listen 127.0.0.1:8080",
                "--host: unknown setting; write --listen 127.0.0.1:8080",
            ],
            id="other-words-for-listen",
        ),
        pytest.param(
            ["--scope-sec", SECRET],
            ["--scope-sec: unknown setting; did you mean --scope-secret?"],
            id="flags-are-not-abbreviated",
        ),
    ],
)
def test_a_wrong_start_is_told_and_ends_with_2(
    command: str, flags: list[str], want: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error has one line for each error and nothing else; the exit code is 2."""
    assert cli.main([command, *flags]) == 2

    printed = capsys.readouterr()
    assert sorted(printed.err.splitlines()) == sorted(want)
    assert printed.out == ""


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        pytest.param(["serve", SECRET], "serve: 1 unexpected argument(s); write --name value", id="stray-word"),  # noqa: E501
        pytest.param(["serve", "-x"], "serve: 1 unexpected argument(s); write --name value", id="short-flag"),  # noqa: E501
        pytest.param(["serve", "config/azure.yaml"], "serve: 1 unexpected argument(s); write --config FILE", id="bare-file"),  # noqa: E501
        pytest.param(["verify", "python", "agent.py"], "verify: -- is missing before the command; write: verify -- python agent.py", id="no-dashes"),  # noqa: E501
        pytest.param(["demo", "--mode", "on"], "demo: 2 unexpected argument(s); see --help", id="demo-with-flags"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_stray_word_is_not_quoted(
    argv: list[str], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An argument without a flag is not quoted, since it may be a secret."""
    assert cli.main(argv) == 2
    assert capsys.readouterr().err == want + "\n"


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        pytest.param([], "the following arguments are required: COMMAND", id="no-command"),
        pytest.param(["serve", "--mode"], "argument --mode: expected one argument", id="no-value"),
    ],
)
def test_a_malformed_line_is_told_in_one_line(
    argv: list[str], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage error is one line, without the usage text."""
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)

    (line,) = capsys.readouterr().err.splitlines()
    assert caught.value.code == 2
    assert want in line


def test_a_switch_needs_no_value(served: list[Settings]) -> None:
    """`--reuse-port` means true; a value is optional."""
    shared = ["serve", "--store-url", "redis://localhost"]
    assert cli.main([*shared, "--reuse-port"]) == 0
    assert cli.main([*shared, "--reuse-port", "--mode", "off"]) == 0
    assert cli.main([*shared, "--reuse-port=false"]) == 0
    assert [settings.reuse_port for settings in served] == [True, True, False]


def test_check_gets_the_environment_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` gets the environment for the upstream's key, and the model and so on of --prove."""
    got: list[tuple[Settings, str, str, str, str]] = []

    async def check(
        settings: Settings, environ: Mapping[str, str], prove: str, dialect: str, upstream: str
    ) -> int:
        got.append((settings, environ["OPENAI_API_KEY"], prove, dialect, upstream))
        return 1

    monkeypatch.setattr("reasoning_replay.check.check", check)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    assert cli.main(["check", "--mode=off"]) == 1
    assert cli.main(["check", "--prove", "gpt-5.4"]) == 1
    assert cli.main(["check", "--prove", "kimi-k3", "--dialect", "chat"]) == 1
    assert cli.main(["check", "--upstreams", SEVERAL, "--upstream", "b", "--prove", "m"]) == 1
    several = Settings(upstreams={name: {"url": "http://h/v1"} for name in "ab"})
    assert got == [
        (Settings(mode="off"), SECRET, "", "responses", ""),
        (Settings(), SECRET, "gpt-5.4", "responses", ""),
        (Settings(), SECRET, "kimi-k3", "chat", ""),
        (several, SECRET, "m", "responses", "b"),
    ]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("--upstreams", SEVERAL, "--upstream", "c"), "--upstream: 'c' is none of a, b\n"),
        (("--upstream", "a"), "--upstream: 'a' is for several upstreams, and upstreams is not set\n"),  # noqa: E501
        (("--upstreams", SEVERAL, "--prove", "m"), "--prove: which upstream has that model? Add --upstream: a, b\n"),  # noqa: E501
    ],
)  # fmt: skip
def test_an_unclear_upstream_is_refused(
    words: tuple[str, ...], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` says which names there are."""
    assert cli.main(["check", *words]) == 2
    assert capsys.readouterr().err == want


def test_a_dialect_without_a_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """`check --dialect chat` alone would do nothing more, so it says what is missing."""
    assert cli.main(["check", "--dialect", "chat"]) == 2
    assert capsys.readouterr().err == (
        "check: --dialect is for --prove MODEL only; give both or neither\n"
    )


def test_config_prints_the_settings_in_effect(capsys: pytest.CaptureFixture[str]) -> None:
    """It is what `effective` returns."""
    assert cli.main(["config", "--ttl-s", "2d"]) == 0
    assert re.search("^ttl_s: 2d +# --ttl-s$", capsys.readouterr().out, re.MULTILINE)


def test_demo_runs_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """`demo` returns its exit code and ignores invalid settings; `--serve` is the playground."""
    monkeypatch.setattr(playground, "serve", lambda: 8)
    monkeypatch.setattr(demo, "run", {"responses": 7, "chat": 9, "messages": 11}.get)
    monkeypatch.setenv("REPLAY_MODE", "maybe")

    assert cli.main(["demo"]) == 7
    assert cli.main(["demo", "--dialect", "chat"]) == 9
    assert cli.main(["demo", "--dialect", "messages"]) == 11
    assert cli.main(["demo", "--serve"]) == 8


def test_serve_starts_without_what_it_does_not_use() -> None:
    """`serve` does not import optional modules, which would cost time and memory."""
    words = (
        "import sys, reasoning_replay.cli, reasoning_replay.web.serve; "
        "from reasoning_replay.web.wiring import replays, safe_store; "
        "from unittest import mock; settings = reasoning_replay.settings.model.Settings(); "
        "store = safe_store(settings, mock.Mock(), mock.Mock(), mock.Mock()); "
        "replays(settings, store, mock.Mock()); print(*sys.modules)"
    )
    got = subprocess.run(  # noqa: S603
        [sys.executable, "-c", words], capture_output=True, check=True, cwd=ROOT, text=True
    )
    brought_in = set(got.stdout.split())
    assert {"reasoning_replay.cli", "reasoning_replay.web.app"} <= brought_in
    assert not brought_in & {
        "reasoning_replay.demo",
        "reasoning_replay.strict_api",
        "reasoning_replay.check",
        "multiprocessing",
    }
    assert not brought_in & {"redis", "sqlite3", "cryptography", "yaml", "pydantic_settings"}
    assert not any("opentelemetry" in name for name in brought_in)


def test_ctrl_c_during_the_start_ends_a_command() -> None:
    """It prints nothing, and the exit code is that of a program that the signal ended."""
    words = (
        "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.argv[1:] = ['check']; sys.addaudithook(lambda event, given: event == 'import' "
        "and given[0] == 'reasoning_replay.cli' and signal.raise_signal(signal.SIGINT)); "
        "runpy.run_module('reasoning_replay', run_name='__main__')"
    )
    got = subprocess.run([sys.executable, "-c", words], capture_output=True, check=False, cwd=ROOT)  # noqa: S603
    assert (got.returncode, got.stdout, got.stderr) == (130, b"", b"")


def test_the_collector_is_at_work_and_passes_over_what_was_brought_in(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the imports, garbage collection is on and their objects are frozen."""
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    calls: list[str] = []
    gc.disable()
    try:
        assert cli.main(["serve"]) == 0
        assert gc.isenabled()
    finally:
        gc.enable()
    assert served
    assert calls == ["freeze"]


@pytest.mark.parametrize("command", [[], *([name] for name in [*COMMANDS, "demo"])])
@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_version_is_that_of_the_package(
    command: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--version` and `-v` print the version of the package, also after a command."""
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, flag])

    assert caught.value.code == 0
    assert capsys.readouterr().out == f"reasoning-replay {build_version()}\n"


def help_text(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return the printed help, on long lines."""
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == 0
    return capsys.readouterr().out


def flags_in(text: str) -> set[str]:
    """Return the flags that begin a line of a help text."""
    return set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_whole_help_has_every_setting(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each one with its flag and its variable."""
    text = help_text(capsys, command, "--help-all")

    assert set(map(flag_of, Settings.model_fields)) <= flags_in(text)
    for name in Settings.model_fields:
        assert f"REPLAY_{name.upper()}" in text
    assert "REPLAY_SCOPE_SECRET_FILE" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_short(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the settings that most deployments change, and the flag that shows the others."""
    shown = ["admin_listen"] if command == "health" else COMMON
    text = help_text(capsys, command, "--help")

    assert flags_in(text) - {
        "--config",
        "--help-all",
        "--ready",
        "--strict",
        "--prove",
        "--dialect",
        "--upstream",
    } == set(map(flag_of, shown))
    assert "--help-all" in text
    assert len(text.splitlines()) <= 80


def test_the_short_help_shows_choices_units_and_groups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader needs no other page to write the value."""
    monkeypatch.setenv("COLUMNS", "1000")
    text = help_text(capsys, "serve", "-h")

    assert "--mode on|shadow|off" in text
    assert "One of auto, openai, azure," in text
    assert re.search("--ttl-s DURATION +Time that .* last use. Default: 7d.\n", text)
    assert "\nStore:\n" in text
    assert "\nTimeouts:\n" not in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_every_command_and_flag(shell: str) -> None:
    """Shtab writes its completions from the parser, as docs/getting-started.md says."""
    words = [sys.executable, "-m", "shtab", f"--shell={shell}", "reasoning_replay.cli.parser"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603
    for word in [*COMMANDS, "demo", "verify", *map(flag_of, Settings.model_fields)]:
        assert word.removeprefix("--") in done.stdout


def test_scope_has_a_line_for_each_secret() -> None:
    """In a rotation, data may be in the scope of each."""
    command = [sys.executable, "-m", "reasoning_replay", "scope", "--scope-secret"]
    new, both = (
        subprocess.run(  # noqa: S603 (our own program)
            [*command, secret], input="api-key: sk-1", capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for secret in ("n", "s,n")
    )
    assert both[1] == f"{new[0]}  old-secret"
    assert len({*new, *both}) == 3


@pytest.mark.parametrize(
    ("text", "upstreams", "code", "out", "message"),
    [
        ("Authorization: Bearer sk-1", "", 0, f"{SCOPE}\n", ""),
        ("Authorization: Bearer sk-1", NAMED, 0, f"a  {SCOPE}\nb  {SCOPE}\n", ""),
        ("sk: 1", "", 2, "", "scope: line 1: this name does not count; authorization, api-key, "),
    ],
)
def test_scope_reads_the_tenant_from_standard_input(
    text: str, upstreams: str, code: int, out: str, message: str
) -> None:
    """It prints the scope that the log shows; an argument would show in the process list."""
    command = [sys.executable, "-m", "reasoning_replay", "scope", "--scope-secret", "s"]
    command += ["--upstreams", upstreams] if upstreams else []
    ran = subprocess.run(  # noqa: S603 (our own program)
        command, input=text, capture_output=True, text=True, check=False
    )

    assert ran.returncode == code
    assert ran.stdout == out
    assert ran.stderr.startswith(message)


def test_a_person_has_a_store_of_their_own(
    served: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """A restart loses nothing; `config` shows the address, and each setting overrides it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "my state"))
    url = f"sqlite://{tmp_path}/my%20state/reasoning-replay/replay.db"

    assert cli.main(["config"]) == 0
    assert f"store_url: {url}" in capsys.readouterr().out
    assert not (tmp_path / "my state").exists()
    assert cli.main(["serve"]) == 0
    assert cli.main(["serve", "--store-url=memory://"]) == 0
    assert [one.store_url for one in served] == [url, "memory://"]
    assert (tmp_path / "my state" / "reasoning-replay").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "environ",
    [
        {"XDG_STATE_HOME": os.devnull},
        {"XDG_STATE_HOME": "relative", "HOME": ""},
        {"HOME": os.devnull},
    ],
)
def test_a_container_has_none(environ: dict[str, str]) -> None:
    """Where no folder can be made, the store is memory, as its settings say."""
    assert own_store_url(environ) == ""
