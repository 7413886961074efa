"""Each example works as examples/README.md describes it: against the playground, without a key."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from reasoning_replay.demo import playground as module
from reasoning_replay.demo.playground import Playground, playground
from reasoning_replay.settings.model import Settings

from tests.docs.page_tables import ROOT
from tests.fast_lane import first, slow
from tests.image.installing import environment, pip
from tests.programs import require

FOLDER = ROOT / "examples"
PAGE = (FOLDER / "README.md").read_text()
ROW = re.compile(r"^\| \[(\S+)\]\(\1\) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
HEADER = re.compile(r"^x-reasoning-replay: (.*)$", re.MULTILINE)
REQUEST_ID = re.compile(r"^x-reasoning-replay-request-id: [0-9a-f]{16}$", re.MULTILINE)
# What the API says to each of them without the proxy.
LACKS_ITEM = "without its required 'reasoning' item"
LACKS_TEXT = "must be passed back to the API"


class Example(NamedTuple):
    """A row of the page's table; code spans without their marks."""

    install: str
    run: str
    shows: str


EXAMPLES = {
    name: Example(*(text.strip("`") for text in texts)) for name, *texts in ROW.findall(PAGE)
}


@pytest.fixture
async def place(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Playground]:
    """A playground that answers at once; its own agents are silent."""
    monkeypatch.setattr(module, "keep_talking", lambda *_: asyncio.sleep(0))
    async with playground("127.0.0.1:0", "127.0.0.1:0", word_s=0) as place:
        yield place


async def played(base_url: str, *command: str | Path, cwd: Path = ROOT) -> tuple[int, str]:
    """Run a program against a base URL; return its exit code and both of its outputs."""
    environ = {**os.environ, "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "any"}
    for vendor in ("ANTHROPIC", "GOOGLE_GEMINI"):
        environ[f"{vendor}_BASE_URL"] = base_url.removesuffix("/v1")
    environ |= {"ANTHROPIC_API_KEY": "any", "GEMINI_API_KEY": "any"}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=environ | {"NO_PROXY": "127.0.0.1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


def assert_it_shows(name: str, code: int, printed: str) -> None:
    """Assert that an example ended well, with the header of the page, and names a request."""
    headers = HEADER.findall(printed)
    assert (code, headers[:1], headers[-1:]) == (0, ["injected=0"], [EXAMPLES[name].shows]), printed
    assert REQUEST_ID.search(printed)
    assert "\n\n" not in printed


async def assert_it_needs_the_proxy(
    place: Playground, name: str, error: str, *command: str | Path, cwd: Path = ROOT
) -> None:
    """Assert that an example fails with an error of the API itself, and works with the proxy."""
    code, printed = await played(place.upstream_url, *command, cwd=cwd)
    assert code == 1
    assert error in printed
    assert_it_shows(name, *await played(place.base_url, *command, cwd=cwd))


def test_each_file_is_on_the_page() -> None:
    """The page lists each file; a file repeats its commands and is short."""
    files = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"README.md"}
    assert EXAMPLES.keys() == files
    for name, example in EXAMPLES.items():
        text = (FOLDER / name).read_text()
        assert len(text.splitlines()) <= 40
        is_program = Path(name).suffix not in (".toml", ".json")
        if is_program:
            assert example.run in text
        if "install" in example.install and is_program:
            assert f"Run it with:   {example.install} && {example.run}\n" in text
    # `npm install --no-save` removes every package that it does not name.
    beside = {one.install for one in EXAMPLES.values() if "--no-save" in one.install}
    assert len(beside) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    first(
        1,
        [
            ("openai_python.py", LACKS_ITEM),
            ("openai_chat.py", LACKS_TEXT),
            ("anthropic_python.py", "Expected `thinking` or `redacted_thinking`, but found `tool_"),
            ("gemini_python.py", "is missing a thought_signature"),
        ],
    ),
)
async def test_the_sdk_for_python(place: Playground, name: str, error: str) -> None:
    """It fails against the API itself, and gets all its reasoning through the proxy."""
    await assert_it_needs_the_proxy(place, name, error, sys.executable, FOLDER / name)


async def test_curl(place: Playground) -> None:
    """The second request fails against the API itself, and not through the proxy."""
    require("curl")
    require("jq")
    command = EXAMPLES["curl.sh"].run.split()
    _, printed = await played(place.upstream_url, *command)
    assert "The requested URL returned error: 400" in printed

    assert_it_shows("curl.sh", *await played(place.base_url, *command))


@slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("openai_agents.py", LACKS_ITEM),
        ("langchain_agent.py", LACKS_ITEM),
        ("langchain_chat.py", LACKS_TEXT),
    ],
)
async def test_a_framework_for_python(
    place: Playground, tmp_path: Path, name: str, error: str
) -> None:
    """The newest version of the framework works with the example, and fails without the proxy."""
    python = environment(tmp_path) / "bin" / "python"
    packages = EXAMPLES[name].install.removeprefix("pip install ").split()
    await asyncio.to_thread(pip, "--python", python, "install", *packages)

    await assert_it_needs_the_proxy(place, name, error, python, FOLDER / name)


@slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("name", "error"), [("openai_node.mjs", LACKS_ITEM), ("vercel_ai_sdk.mjs", LACKS_TEXT)]
)
async def test_a_framework_for_javascript(
    place: Playground, tmp_path: Path, name: str, error: str
) -> None:
    """The newest version of the framework works with the example, and fails without the proxy."""
    require("npm")
    (tmp_path / "examples").mkdir()
    shutil.copy(FOLDER / name, tmp_path / "examples")
    await asyncio.to_thread(npm, EXAMPLES[name].install, tmp_path)

    run = EXAMPLES[name].run.split()
    await assert_it_needs_the_proxy(place, name, error, *run, cwd=tmp_path)


def npm(command: str, folder: Path) -> None:
    """Run npm; without a package index the test skips, or fails if REPLAY_TEST_REQUIRE names it."""
    got = subprocess.run(command.split(), cwd=folder, check=False, capture_output=True, text=True)  # noqa: S603
    if got.returncode:
        if "npm" in os.environ.get("REPLAY_TEST_REQUIRE", "").split(","):
            pytest.fail(got.stderr)
        pytest.skip("the package index of npm cannot be reached")


# --- settings of clients ---


def test_claude_code_uses_the_address_of_the_proxy() -> None:
    """Its settings have the proxy's default address, without the version."""
    read = json.loads((FOLDER / "claude_code.json").read_text())
    assert read == {"env": {"ANTHROPIC_BASE_URL": f"http://{Settings().listen}"}}


@pytest.mark.parametrize("has_login", [False, True])
def test_codex_uses_the_address_of_the_proxy(has_login: bool) -> None:
    """With a key or, after the edit that its comment describes, with a login."""
    text = (FOLDER / "codex.toml").read_text()
    if has_login:
        text = re.sub(r"^env_key.*\n", "", text, flags=re.MULTILINE)
        text = text.replace("# requires_openai_auth", "requires_openai_auth")
    read = tomllib.loads(text)
    provider = read["model_providers"][read["model_provider"]]
    assert provider["base_url"] == f"http://{Settings().listen}/v1"
    assert provider["wire_api"] == "responses"
    assert provider.get("requires_openai_auth", False) is has_login
    assert provider.get("env_key") == (None if has_login else "OPENAI_API_KEY")
