"""The files in config/ load, serve and do what their headers say; replay.yaml has all defaults."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from reasoning_replay.adapters.stores.encryption_keys import parse_keys
from reasoning_replay.check.live_test import of_proof
from reasoning_replay.check.upstream import ApiKey
from reasoning_replay.core.dialects.registry import CHAT, MESSAGES
from reasoning_replay.settings.loader import FILE_SUFFIX, SECRET_NAMES, env_of, load
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import host_and_port
from reasoning_replay.web.app import running
from reasoning_replay.web.wiring import profile, profiles

from tests.e2e.agent import Agent
from tests.programs import require
from tests.redis_server import RedisServer
from tests.security.tenants import token
from tests.strict import Quirks, StrictResponses
from tests.strict.chat import FamilyName, StrictChat
from tests.strict.messages import ModeName, StrictMessages

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"
COMPOSE = yaml.safe_load((CONFIG / "compose.yaml").read_text())
SETTINGS = sorted(set(CONFIG.glob("*.yaml")) - {CONFIG / "compose.yaml"})
EXAMPLES = [path for path in SETTINGS if path.name != "replay.yaml"]

# Claims of one user, as in tokens of Entra ID and of a ChatGPT login.
JWT = token(iss="https://issuer.example", tid="directory", oid="person", sub="person")
STATELESS = Quirks(keeps_nothing=True)
CODEX = Quirks(keeps_nothing=True, not_found="text")
ALOUD = Quirks(keeps_nothing=True, thinks_aloud=True, takes_blobs=False)

# (file, its profile, options of the strict API, additional fields of each request)
BACKENDS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("openai", "openai", {}, {}),
    ("azure", "azure", {"quirks": Quirks(needs_reasoning_ids=True)}, {}),
    ("azure-entra", "azure", {"quirks": Quirks(not_found="azure")}, {}),
    ("openrouter", "openrouter", {"quirks": STATELESS}, {}),
    ("xai", "xai", {}, {}),
    ("vllm", "vllm", {"quirks": ALOUD}, {}),
    ("llamacpp", "llamacpp", {"quirks": ALOUD}, {}),
    ("ollama", "ollama", {"quirks": STATELESS, "always_encrypted": True}, {}),
    ("chatgpt", "codex", {"quirks": CODEX, "empty_completed_output": True}, {"store": False}),
    ("redis", "openai", {}, {}),
]
# (file, its profile, a strict API of its sort)
CHAT_BACKENDS: list[tuple[str, str, FamilyName]] = [
    ("deepseek", "deepseek", "deepseek"),
    ("moonshot", "moonshot", "kimi"),
    ("gemini", "gemini", "gemini"),
    ("openrouter", "openrouter", "openrouter"),
    ("vllm", "vllm", "lenient"),
    ("llamacpp", "llamacpp", "lenient"),
    ("ollama", "ollama", "lenient"),
]
MESSAGES_BACKENDS: list[tuple[str, str, ModeName]] = [
    ("anthropic", "anthropic", "manual"),
    ("bedrock", "bedrock", "manual"),
    ("vertex", "vertex", "manual"),
    ("deepseek", "deepseek", "deepseek"),
]
KEY = ApiKey("KEY", ("Authorization", f"Bearer {JWT}"))


def reasoning(items: list[dict[str, Any]]) -> int:
    """Count the reasoning items."""
    return sum(item.get("type") == "reasoning" for item in items)


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.*")), ids=lambda path: path.name)
def test_every_example_says_what_it_is_for_and_how_to_use_it(path: Path) -> None:
    """The first two lines of an example give its purpose and the command to use it."""
    first, second, *_ = [
        line for line in path.read_text().splitlines() if not line.startswith("#!")
    ]
    assert first.startswith("# ")
    assert second.startswith("# ")
    if path in SETTINGS:
        assert f"--config config/{path.name}" in second


@pytest.mark.parametrize(("name", "leads_to", "upstream", "more"), BACKENDS)
async def test_an_example_replays_in_front_of_a_backend_of_its_kind(
    name: str,
    leads_to: str,
    upstream: dict[str, Any],
    more: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    """With each example, all reasoning that an agent drops is injected in every turn."""
    path = CONFIG / f"{name}.yaml"
    assert profile(load({}, {}, path)).name == leads_to
    async with StrictResponses(**upstream) as api:
        here = {
            "upstream_url": api.base_url,
            "upstream_profile": leads_to,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "log_level": "error",
            "store_budget_ms": "5000",
        }
        if name == "redis":
            shared: RedisServer = request.getfixturevalue("shared_redis")
            here["store_url"] = shared.url
        async with (
            running(load(here, {}, path)) as app,
            Agent(f"{app.url}/v1", keeps="ids", more=more, api_key=JWT) as agent,
        ):
            await agent.converse()

        assert len(agent.steps) == 4
        served = [json.loads(one.body)["input"] for one in api.received if one.status == 200]
        assert [reasoning(items) for items in served] == [
            reasoning(step.whole) for step in agent.steps
        ]


async def proven(name: str, upstream_url: str, leads_to: str, model: str, dialect: str) -> str:
    """Return what `check --prove` says of the second turn with an example."""
    settings = load({}, {}, CONFIG / f"{name}.yaml")
    assert profiles(settings)[dialect].name == leads_to
    here = {"upstream_url": upstream_url, "upstream_profile": leads_to, "store_budget_ms": 5000}
    proof = of_proof(settings.model_copy(update=here), KEY, model, dialect)
    return [finding.words async for finding in proof][-1]


@pytest.mark.parametrize(("name", "leads_to", "family"), CHAT_BACKENDS)
async def test_an_example_replays_chat_completions(
    name: str, leads_to: str, family: FamilyName
) -> None:
    """With each example of such a vendor, the members that a client drops are injected."""
    async with StrictChat(family) as api:
        told = await proven(name, api.base_url, leads_to, api.model, CHAT)
    assert re.fullmatch(r"the second turn was accepted with \d injected item\(s\)", told)


@pytest.mark.parametrize(("name", "leads_to", "mode"), MESSAGES_BACKENDS)
async def test_an_example_replays_anthropic_messages(
    name: str, leads_to: str, mode: ModeName
) -> None:
    """With each example of such a vendor, the block that a client drops is injected."""
    async with StrictMessages(mode) as api:
        told = await proven(name, api.base_url, leads_to, api.model, MESSAGES)
    assert told == "the second turn was accepted with 1 injected item(s)"


def test_every_example_is_served_by_a_test() -> None:
    """A new example must be in one of the tables."""
    rows = [*BACKENDS, *CHAT_BACKENDS, *MESSAGES_BACKENDS]
    elsewhere = {"several"}  # tests/e2e/test_several_upstreams.py
    assert {path.stem for path in EXAMPLES} == {row[0] for row in rows} | elsewhere


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_about_one_thing(path: Path) -> None:
    """An example sets a few settings, and only what differs from the defaults, or its upstream."""
    got, default = load({}, {}, path), Settings()
    written = {name for name, value in yaml.safe_load(path.read_text()).items() if value}
    assert len(written) <= 3
    assert {name for name in written if getattr(got, name) == getattr(default, name)} <= {
        "upstream_url"
    }


# --- systemd ---


def test_the_template_unit_runs_processes_that_share_a_port() -> None:
    """Each instance has its own admin port, and systemd waits longer than drain_s for it."""
    text = (CONFIG / "systemd" / "reasoning-replay@.service").read_text()
    lines = [line.split("=", 1) for line in text.splitlines() if re.match("[A-Z]", line)]
    told = dict(lines)
    environ = dict(value.split("=", 1) for name, value in lines if name == "Environment")
    first, second = (
        load({}, {name: value.replace("%i", number) for name, value in environ.items()}, None)
        for number in ("1", "2")
    )

    assert first.reuse_port
    assert first.listen == second.listen == Settings().listen
    assert first.store_url == second.store_url
    assert (first.admin_listen, second.admin_listen) == ("127.0.0.1:9091", "127.0.0.1:9092")
    assert told["StateDirectory"] in first.store_url
    assert int(told["TimeoutStopSec"]) > Settings().drain_s
    assert told["ExecStart"].endswith("/bin/reasoning-replay serve")


def test_the_plain_unit_is_the_template_for_one_process() -> None:
    """It differs by what several processes need, so what holds for one holds for the other."""
    template, plain = (
        [line for line in (CONFIG / "systemd" / name).read_text().splitlines() if line[:1] != "#"]
        for name in ("reasoning-replay@.service", "reasoning-replay.service")
    )
    assert [line for line in template if line not in plain] == [
        "Description=Reasoning Replay, process %i",
        "Environment=REPLAY_REUSE_PORT=true",
        "Environment=REPLAY_ADMIN_LISTEN=127.0.0.1:909%i",
    ]
    assert [line for line in plain if line not in template] == [
        "Description=Reasoning Replay",
        f"Environment=REPLAY_ADMIN_LISTEN={Settings().admin_listen}",
    ]


# --- Docker Compose ---


def test_compose_sets_what_there_is() -> None:
    """Every REPLAY_* variable is a setting, or names the file of a secret of the service."""
    service = COMPOSE["services"]["replay"]
    for variable, value in service["environment"].items():
        of = variable.removesuffix(FILE_SUFFIX.upper())
        if of == variable:
            assert variable in map(env_of, Settings.model_fields)
        else:
            assert of in map(env_of, SECRET_NAMES)
            assert value in {f"/run/secrets/{name}" for name in service["secrets"]}


def test_compose_waits_for_answers_and_opens_nothing_to_the_network() -> None:
    """Compose waits longer than drain_s, and publishes the image's ports on loopback only."""
    service = COMPOSE["services"]["replay"]
    assert int(service["stop_grace_period"].removesuffix("s")) > Settings().drain_s
    image = (ROOT / "Dockerfile").read_text()
    inside = [host_and_port(at)[1] for at in re.findall(r"REPLAY_\w*LISTEN=(\S+)", image)]
    published = [f"127.0.0.1:{port}:{port}" for port in inside]
    assert service["ports"] == published
    assert "ports" not in COMPOSE["services"]["redis"]
    for each in COMPOSE["services"].values():
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert set(each["secrets"]) <= set(COMPOSE["secrets"])
    assert service["depends_on"]["redis"]["condition"] == "service_healthy"
    assert "healthcheck" in COMPOSE["services"]["redis"]
    assert "HEALTHCHECK" in image


def test_the_secrets_of_compose_are_made_once(tmp_path: Path) -> None:
    """The script creates the secrets next to it, keeps existing ones, and git ignores them."""
    script = tmp_path / "compose.sh"
    script.write_bytes((CONFIG / "compose.sh").read_bytes())
    run = ["/bin/sh", str(script)]
    subprocess.run(run, check=True)  # noqa: S603
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    subprocess.run(run, check=True)  # noqa: S603

    assert set(made) == set(COMPOSE["secrets"])
    assert len(parse_keys(made["encryption_keys"])) == 1
    others = [secret for name, secret in made.items() if name != "encryption_keys"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", secret) for secret in others)
    assert len(set(made.values())) == len(made)
    assert made == {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert "config/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_redis_of_compose_wants_its_password(tmp_path: Path) -> None:
    """The Redis command of Compose requires the password and hides it from the process list."""
    require("redis", "redis-server")
    (tmp_path / "redis_password").write_text("hunter2")
    *shell, script = COMPOSE["services"]["redis"]["command"]
    told = script.replace("$$", "$").replace("/run/secrets", str(tmp_path))
    told = told.replace("/data", f"{tmp_path}\nport 0\nunixsocket {tmp_path}/socket\n")
    test = COMPOSE["services"]["redis"]["healthcheck"]["test"][1].replace("$$", "$")
    probe = test.replace("/run/secrets", str(tmp_path)).replace(
        "redis-cli", f"redis-cli -s {tmp_path}/socket"
    )

    def said(command: str) -> int:
        words = ["/bin/sh", "-c", command]
        return subprocess.run(words, check=False, capture_output=True).returncode  # noqa: S603

    with subprocess.Popen([*shell, told], stdout=subprocess.DEVNULL) as server:  # noqa: S603
        try:
            socket = shlex.quote(f"{tmp_path}/socket")
            said(f"for i in $(seq 200); do [ -S {socket} ] && break; sleep 0.05; done")
            assert said(probe) == 0
            assert said(f"redis-cli -s {socket} ping | grep -q NOAUTH") == 0
            assert said(f"tr '\\0' ' ' < /proc/{server.pid}/cmdline | grep -q hunter2") == 1
        finally:
            server.terminate()
