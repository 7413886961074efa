"""
Dockerfile interpreter: reads a Dockerfile and runs its steps without a container engine.

A stage becomes a folder below `root`, and absolute paths of the image are below it. The base image
is a virtual environment with only pip, for the Python that runs the tests. Steps that only an
engine can run (the user, owners, layers, ports) are parsed and not run.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import NamedTuple

# Absolute paths to the folders that the steps write, except the system's own.
OURS = re.compile(r"(?<![\w./-])/(?=(?:opt|src|wheels|var/lib/replay)\b)")
OWNERS = re.compile(r" --(?:owner|group)=\d+")
FLAG = re.compile(r"--([a-z-]+)=(\S+)\s+")
# Prefixes of variables that pip may need to reach its index.
FROM_OUTSIDE = ("PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy", "HOME", "LANG")
RUN_DEADLINE_S = 110


class Instruction(NamedTuple):
    """One instruction: its keyword, its `--name=value` flags, and the rest."""

    word: str
    flags: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Built:
    """
    The last stage after the build.

    Attributes:
        root: The folder that stands for `/`.
        environ: The variables of ENV and ARG.
        told: Text of parsed instructions by keyword: USER, HEALTHCHECK, ENTRYPOINT, CMD and others.
    """

    root: Path
    environ: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    def words(self, word: str) -> list[str]:
        """Return a command in exec form as a list."""
        words: list[str] = json.loads(self.told[word].removeprefix("CMD "))
        return words

    def placed(self, text: str) -> str:
        """Move the absolute paths in a text below `root`."""
        return OURS.sub(f"{self.root}/", text)


def instructions(text: str) -> Iterator[Instruction]:
    """Parse a Dockerfile: drop comments, join continued lines."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|$)", line)]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.partition(" ")
        flags = {}
        while flag := FLAG.match(rest):
            flags[flag[1]] = flag[2]
            rest = rest[flag.end() :]
        yield Instruction(word, flags, rest.strip())


def build(context: Path, root: Path, base: Path) -> Built:
    """
    Run `context`/Dockerfile.

    Args:
        context: The build context; files that its .dockerignore excludes are not copied.
        root: A folder to create; the earlier stages end up next to it.
        base: The virtual environment that stands for the base image.
    """
    stages: dict[str, Path] = {}
    given: dict[str, str] = {}
    name = ""
    built = Built(root)
    for instruction in instructions((context / "Dockerfile").read_text()):
        if instruction.word == "FROM":
            if name:
                root.rename(root.with_name(f"{root.name}-{name}"))
                stages[name] = root.with_name(f"{root.name}-{name}")
            name = instruction.text.partition(" AS ")[2] or "last"
            root.mkdir(parents=True)
            built = Built(root, {"PATH": f"{base / 'bin'}:{os.environ['PATH']}"})
        elif instruction.word == "ARG" and not name:
            key, _, value = instruction.text.partition("=")
            given[key] = value
        else:
            _perform(instruction, built, context, stages, given)
    return built


def _perform(
    instruction: Instruction,
    built: Built,
    context: Path,
    stages: Mapping[str, Path],
    given: Mapping[str, str],
) -> None:
    word, flags, text = instruction
    match word:
        case "ARG":
            key, _, value = text.partition("=")
            built.environ[key] = value or given[key]
        case "ENV":
            for pair in shlex.split(Template(text).safe_substitute(built.environ)):
                key, _, value = pair.partition("=")
                built.environ[key] = built.placed(value)
        case "WORKDIR":
            built.workdir = text
            _below(built.root, text).mkdir(parents=True, exist_ok=True)
        case "COPY":
            *sources, target = text.split()
            taken = stages[flags["from"]] if "from" in flags else context
            is_ours = "from" not in flags
            for source in sources:
                _copy(taken, source, _below(built.root, built.workdir, target), is_ours=is_ours)
        case "RUN":
            _run(built, text)
        case _:
            assert word in {
                *("LABEL", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD")
            }
            built.told[word] = Template(text).safe_substitute(built.environ)


def _run(built: Built, text: str) -> None:
    outside = {k: v for k, v in os.environ.items() if k.startswith(FROM_OUTSIDE)}
    subprocess.run(  # noqa: S603
        ["/bin/sh", "-ec", built.placed(OWNERS.sub("", text))],
        cwd=_below(built.root, built.workdir),
        env={**outside, **built.environ},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=RUN_DEADLINE_S,
    )


def _below(root: Path, *paths: str) -> Path:
    """Resolve paths one after the other, as `cd` does, below `root`."""
    return root / str(Path("/", *paths)).lstrip("/")


def _copy(taken: Path, source: str, target: Path, *, is_ours: bool) -> None:
    """Copy a file, or the content of a folder, into a folder, except ignored files."""
    origin = _below(taken, source)
    if origin.is_file():
        assert not is_ours or passes_ignore(taken, source), f"{source} is not in the context"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(origin, target)
        return

    def left_out(folder: str, names: list[str]) -> list[str]:
        places = {name: (Path(folder) / name).relative_to(taken).as_posix() for name in names}
        return [n for n, place in places.items() if is_ours and not passes_ignore(taken, place)]

    shutil.copytree(origin, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)


def passes_ignore(context: Path, path: str) -> bool:
    """Return whether the .dockerignore of a context includes a path: its last match counts."""
    is_in = True
    for line in (context / ".dockerignore").read_text().split("\n"):
        if not line or line.startswith("#"):
            continue
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?")
        if re.fullmatch(f"{pattern.replace(chr(92) + '*', '[^/]*')}(/.*)?", path):
            is_in = line.startswith("!")
    return is_in
