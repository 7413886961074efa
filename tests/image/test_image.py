"""The image: its build is reproducible, it serves, and its root stays unchanged."""

import hashlib
import json
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import reasoning_replay
import yaml
from reasoning_replay.web.admin.inspector.page import page

from tests.image.dockerfile import Built, build, instructions, passes_ignore
from tests.image.installing import environment, pip
from tests.patience import SOON_S
from tests.ports import free_port
from tests.programs import require

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()
STEPS = list(instructions(DOCKERFILE))


def base_image(folder: Path) -> Path:
    """Create a Python with a current pip and no other package, like the real base image."""
    pip("--python", environment(folder) / "bin" / "python", "install", "pip>=25")
    return folder


def wheels(folder: Path, base: Path) -> Path:
    """Download the packages of the locks once; a build must not need others."""
    locks = [word for path in sorted(ROOT.glob("*.lock")) for word in ("--requirement", path)]
    pip(
        "download",
        "--only-binary=:all:",
        "--require-hashes",
        "--dest",
        folder,
        *locks,
        python=base / "bin" / "python",
    )
    return folder


def tree(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return each path with its mode, its time, and a digest of its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = ""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        state = path.lstat()
        found[path.relative_to(folder).as_posix()] = (state.st_mode, state.st_mtime_ns, content)
    return found


# One test, so that parallel test processes build it only once.
@pytest.mark.timeout(400)
def test_it_is_built_alike_and_serves_and_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builds at the same place are equal, and a running image writes no file."""
    base = base_image(tmp_path / "base")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels(tmp_path / "wheels", base)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    once = build(ROOT, tmp_path / "root", base)
    first = tree(once.root)
    for path in tmp_path.glob("root*"):
        path.rename(path.with_name(path.name.replace("root", "once")))
    built = build(ROOT, tmp_path / "root", base)

    second = tree(built.root)
    changed = {path for path in first | second if first.get(path) != second.get(path)}
    assert changed <= {"opt", "var", "var/lib", "var/lib/replay"}  # folders, by their time
    assert len(second) > 1000  # the layer of /opt/replay, the only large content of the last stage
    assert [path.name for path in (built.root / "opt").iterdir()] == ["replay"]
    names = {Path(path).name for path in second}
    assert not names & {"pip", "hatchling", "pytest", "test_image.py", "gcc"}
    assert {"opentelemetry", "page.html"} <= names

    serves_and_is_healthy(built)
    assert tree(built.root) == second


def serves_and_is_healthy(built: Built) -> None:
    """Start the image as an engine would, on free ports, and run its HEALTHCHECK."""
    ports = {
        "REPLAY_LISTEN": f"127.0.0.1:{free_port()}",
        "REPLAY_ADMIN_LISTEN": f"127.0.0.1:{free_port()}",
        "REPLAY_DRAIN_GRACE_S": "0",
    }
    assert set(ports) - {"REPLAY_DRAIN_GRACE_S"} <= set(built.environ)
    environ = {**built.environ, **ports}

    def health() -> int:
        words = built.words("HEALTHCHECK")
        return subprocess.run(words, env=environ, check=False, stdout=subprocess.DEVNULL).returncode  # noqa: S603

    assert health() == 1
    serving = subprocess.Popen(  # noqa: S603
        [*built.words("ENTRYPOINT"), *built.words("CMD")],
        env=environ,
        cwd=built.root,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        started: dict[str, Any] = json.loads(serving.stdout.readline())
        assert started["event"] == "started"
        assert started["admin"] == f"http://{ports['REPLAY_ADMIN_LISTEN']}"
        assert health() == 0
        browser = urllib.request.Request(started["admin"], headers={"Accept": "text/html"})  # noqa: S310 (our own)
        with urllib.request.urlopen(browser) as answer:  # noqa: S310
            assert answer.read() == page().body
        serving.send_signal(signal.Signals[built.told["STOPSIGNAL"]])
        assert serving.wait(SOON_S) == 0
    finally:
        serving.kill()
        serving.communicate()


def test_its_base_is_one_version_that_can_be_pinned_to_a_digest() -> None:
    """Both stages use one ARG, whose default has a patch version."""
    (base,) = [step.text for step in STEPS[: STEPS.index(next(s for s in STEPS if s[0] == "FROM"))]]

    assert re.fullmatch(r"BASE=docker\.io/library/python:3\.\d+\.\d+-slim-[a-z]+", base)
    assert [s.text.split()[0] for s in STEPS if s.word == "FROM"] == ["${BASE}", "${BASE}"]


def test_make_gives_the_time_of_the_dockerfile_to_buildkit() -> None:
    """Without the argument and the option, image and new folders would have the build's time."""
    told = subprocess.run(
        ["make", "--dry-run", "image"],  # noqa: S607 (as a user does)
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    (epoch,) = re.findall(r"^ARG SOURCE_DATE_EPOCH=(\d+)$", DOCKERFILE, re.MULTILINE)

    assert f" --build-arg SOURCE_DATE_EPOCH={epoch} " in told
    assert " --output type=docker,rewrite-timestamp=true " in told


def test_its_user_is_a_number_and_has_the_named_volume() -> None:
    """Kubernetes' runAsNonRoot refuses a name; a volume takes owner and mode of the folder."""
    (user,) = [step.text for step in STEPS if step.word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    uid, gid = user.split(":")
    owned = f"install --directory --mode=0700 --owner={uid} --group={gid} "
    (folder,) = [
        step.text.removeprefix(owned)
        for step in STEPS
        if step.word == "RUN" and step.text.startswith(owned)
    ]

    assert f"-v replay:{folder} -e REPLAY_STORE_URL=sqlite://{folder}/" in DEPLOY
    values = yaml.safe_load((ROOT / "helm" / "values.yaml").read_text())
    assert values["persistence"]["mountPath"] == folder


@pytest.mark.parametrize("page", ["deploy", "kubernetes"])
def test_pages_that_build_the_image_name_buildkit(page: str) -> None:
    """The cache mounts of the Dockerfile fail with the builder of an old Docker."""
    text = (ROOT / "docs" / f"{page}.md").read_text()

    assert "docker build" in text
    assert "BuildKit" in text


def test_its_label_has_the_version_of_the_package() -> None:
    """The label has the version, and the description and license of pyproject.toml."""
    (label,) = [step.text for step in STEPS if step.word == "LABEL"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    for name, value in {
        "version": reasoning_replay.__version__,
        "description": project["description"],
        "licenses": project["license"],
    }.items():
        assert f'org.opencontainers.image.{name}="{value}"' in label


@pytest.mark.parametrize(
    ("path", "is_in"),
    [
        pytest.param("pyproject.toml", True, id="project"),
        pytest.param("proxy/reasoning_replay/web/app.py", True, id="code"),
        pytest.param(
            "proxy/reasoning_replay/web/__pycache__/app.cpython-313.pyc", False, id="bytecode"
        ),
        pytest.param("tests/conftest.py", False, id="tests"),
        pytest.param("config/redis.yaml", False, id="examples"),
        pytest.param(".env", False, id="secrets"),
        pytest.param(".git/config", False, id="history"),
    ],
)
def test_the_context_is_what_is_needed(path: str, is_in: bool) -> None:
    """A file that is not listed in .dockerignore is not in the context."""
    assert passes_ignore(ROOT, path) is is_in


def test_a_source_distribution_is_enough_to_build_it() -> None:
    """A source distribution contains the Dockerfile and every file that it copies."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]
    copied = {
        source
        for step in STEPS
        if step.word == "COPY" and "from" not in step.flags
        for source in step.text.split()[:-1]
    }
    # Hatch always adds pyproject.toml.
    wanted = copied - {"pyproject.toml"} | {"Dockerfile", ".dockerignore", "Makefile"}

    assert {f"/{path}" for path in wanted} <= set(targets["sdist"]["include"])


def test_nothing_is_fetched_to_read_it() -> None:
    """No `# syntax=` line: it would download and run the current image of its tag."""
    assert not re.search(r"^#\s*syntax\s*=", DOCKERFILE, re.MULTILINE)


def test_a_linter_has_nothing_to_say() -> None:
    """The linter reports nothing, and no rule is switched off."""
    beside = Path(sys.executable).with_name("hadolint")
    linter = str(beside) if beside.exists() else require("hadolint")
    got = subprocess.run(  # noqa: S603
        [linter, "--no-color", "Dockerfile"], check=False, capture_output=True, cwd=ROOT, text=True
    )

    assert (got.returncode, got.stdout) == (0, "")
    assert "hadolint ignore" not in DOCKERFILE
