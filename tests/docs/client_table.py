"""
Client table: the last section of docs/compatibility.md, made by running each client with `verify`.

`python -m tests.docs.client_table` installs the newest versions into temporary folders, runs each
client straight and through the proxy, and writes the section. It needs a package index and npm.
"""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.docs.page_tables import ROOT

PAGE = ROOT / "docs" / "compatibility.md"
KEEPERS = ROOT / "tests" / "verify" / "clients"
EXAMPLES = ROOT / "examples"
LANGCHAIN = ("langchain", "langchain-openai")
VERCEL = ("ai", "@ai-sdk/openai", "zod")
# (file, what it does with its history, packages of PyPI or of npm)
CLIENTS: tuple[tuple[Path, str, tuple[str, ...]], ...] = (
    (KEEPERS / "openai_keeps.py", "keeps all output items", ("openai",)),
    (EXAMPLES / "openai_python.py", "drops reasoning items", ("openai",)),
    (EXAMPLES / "openai_node.mjs", "drops reasoning items", ("openai",)),
    (EXAMPLES / "openai_agents.py", "drops reasoning between questions", ("openai-agents",)),
    (EXAMPLES / "langchain_agent.py", "drops reasoning between questions", LANGCHAIN),
    (KEEPERS / "vercel_ai_sdk_prunes.mjs", "prunes reasoning between questions", VERCEL),
    (EXAMPLES / "curl.sh", "drops reasoning items", ()),
    (EXAMPLES / "openai_chat.py", "keeps what the SDK declares", ("openai",)),
    (EXAMPLES / "langchain_chat.py", "keeps what LangChain keeps", LANGCHAIN),
    (EXAMPLES / "vercel_ai_sdk.mjs", "keeps what the provider keeps", VERCEL),
    (KEEPERS / "anthropic_keeps.py", "keeps all blocks", ("anthropic",)),
    (EXAMPLES / "anthropic_python.py", "drops thinking blocks", ("anthropic",)),
    (KEEPERS / "gemini_keeps.py", "lets the SDK keep the history", ("google-genai",)),
    (
        KEEPERS / "langchain_gemini.py",
        "keeps what LangChain keeps",
        ("langchain", "langchain-google-genai"),
    ),
    (
        KEEPERS / "pydantic_ai_gemini.py",
        "keeps what Pydantic AI keeps",
        ("pydantic-ai-slim[google]",),
    ),
    (EXAMPLES / "gemini_python.py", "drops signatures", ("google-genai",)),
)
HEAD = """\
## Clients

What clients bring back of their reasoning, straight to a strict API and through the proxy.

[`verify`](verify.md) ran each of them on {date}, with version {version} of the proxy, and `python -m tests.docs.client_table` wrote this section. What is not here was not run.
Some of these programs drop reasoning on purpose, as many apps do; the column *history* says what they do. *Whole* means that in each request, all reasoning that was due came back.

| client | API | history | straight | through the proxy |
|---|---|---|---|---|
"""  # noqa: E501 (lines of the page)


def main() -> None:
    """Run all clients, and write the section."""
    rows, version = [], ""
    with tempfile.TemporaryDirectory() as folder:
        for file, history, packages in CLIENTS:
            report, versions = _run(file, packages, Path(folder))
            version = report["version"]
            rows.append(_row(file, history, versions, report))
            print(rows[-1])  # noqa: T201 (a program)
    today = dt.datetime.now(tz=dt.UTC).date()
    above = PAGE.read_text().partition(HEAD.partition("\n")[0] + "\n")[0]
    PAGE.write_text(above + HEAD.format(date=today, version=version) + "\n".join(rows) + "\n")


def _run(file: Path, packages: Sequence[str], folder: Path) -> tuple[Any, list[str]]:
    """Install what a client needs, run it; return the report, and the versions of its packages."""
    is_node = file.suffix == ".mjs"
    program = Path(shutil.copy(file, folder))
    words = ["sh", str(program)]
    versions: list[str] = []
    if is_node:
        _ran("npm", "install", "--no-save", "--prefix", folder, *packages)
        words = ["node", str(program)]
        for name in packages:
            told = json.loads((folder / "node_modules" / name / "package.json").read_text())
            versions.append(f"{name} {told['version']}")
    elif packages:
        python = folder / "-".join(packages) / "bin" / "python"
        if not python.exists():
            _ran(sys.executable, "-m", "venv", python.parents[1])
            _ran(python, "-m", "pip", "install", "--quiet", *packages)
        words = [str(python), str(program)]
        listed = json.loads(_ran(python, "-m", "pip", "list", "--format", "json"))
        found = {one["name"]: one["version"] for one in listed}
        names = [name.partition("[")[0] for name in packages]
        versions = [f"{name} {found[name]}" for name in names]
    else:
        told = _ran("curl", "--version")
        versions = ["curl " + re.findall(r"\d[\d.]+", told)[0]]
    report = folder / "report.json"
    verify = [sys.executable, "-m", "reasoning_replay", "verify", "--through-proxy"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "proxy")}
    command = [*verify, "--json", str(report), "--", *words]
    subprocess.run(command, check=False, env=environ, cwd=ROOT)  # noqa: S603
    return json.loads(report.read_text()), versions


def _ran(*words: object) -> str:
    done = subprocess.run([*map(str, words)], check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout


def _row(file: Path, history: str, versions: Iterable[str], report: Any) -> str:
    straight, proxied = report["runs"]
    dialects = {one["dialect"] for run in report["runs"] for one in run["requests"]}
    link = f"[{', '.join(versions)}](../{file.relative_to(ROOT).as_posix()})"
    told = " | ".join(" ".join(_told(run)) for run in (straight, proxied))
    return f"| {link} | {', '.join(sorted(dialects))} | {history} | {told} |"


def _told(run: Any) -> Iterator[str]:
    """Yield the words of a run: its verdict, refusals, and the share of the cache."""
    states = [each["state"] for one in run["requests"] for each in one["findings"]]
    if run["verdict"] == "whole":
        yield f"whole, {len(states)} of {len(states)};"
    else:
        whole = states.count("whole")
        yield f"**{run['verdict']}**, {whole} of {len(states)};"
    refused = [one["refused"]["status"] for one in run["requests"] if one["refused"]]
    if refused:
        yield f"then {refused[0]};"
    share = run["cached_share"]
    yield "nothing to cache" if share is None else f"{share:.0%} cached"


if __name__ == "__main__":
    main()
