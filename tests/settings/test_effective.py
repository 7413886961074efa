"""The printed settings are those in effect, name their sources, and hold no secret."""

from pathlib import Path

import pytest
from reasoning_replay.settings.loader import SECRET_NAMES, env_of, load, load_with_sources
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.reference import effective

from tests.settings.test_secrets import HIDDEN, HOLDING

# Values that differ from the defaults; YAML needs some of them quoted.
OTHER = {
    "listen": "[::1]:8080",
    "upstream_url": "http://localhost:1/v1",
    "mode": "off",
    "heal": "off",
    "tracing": "off",
    "ttl_s": "1234567",
    "drain_s": "0",
    "read_timeout_s": "0.0001",
    "idle_timeout_s": "1.5",
    "store_budget_ms": "2s",
    "local_max_bytes": "0",
    "body_max_bytes": "10MB",
    "inspect_max_bytes": "1000001",
    "max_exchanges": "17",
    "scope_from": "claims:tid+oid",
}


def printed(
    flags: dict[str, str], environ: dict[str, str] | None = None, file: Path | None = None
) -> str:
    """Return the printed settings."""
    return "\n".join(effective(load_with_sources(flags, environ or {}, file)))


def line_of(name: str, text: str) -> str:
    """Return the line of one setting, with single spaces."""
    starts = (f"{name}: ", f"# {name}: ")
    (line,) = [line for line in text.splitlines() if line.startswith(starts)]
    return " ".join(line.split())


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_line(name: str) -> None:
    """With its default, if nothing sets it."""
    assert line_of(name, printed({})).endswith(" # default")


SEVERAL = {
    "upstreams": '{"b": {"url": "https://b/v1", "heal": "off", "connect_timeout_s": "5s"}, '
    '"a": {"url": "https://a/v1", "hosts": "a.example.com"}}',
}


@pytest.mark.parametrize("flags", [{}, OTHER, SEVERAL], ids=["defaults", "other", "several"])
def test_the_output_can_be_used_as_a_file(flags: dict[str, str], tmp_path: Path) -> None:
    """It leads to the same settings."""
    path = tmp_path / "replay.yaml"
    path.write_text(printed(flags))

    assert load({}, {}, path) == load(flags, {}, None)


def test_a_setting_names_the_place_that_set_it(tmp_path: Path) -> None:
    """The one that counts, where several set it."""
    path, secret = tmp_path / "replay.yaml", tmp_path / "secret"
    path.write_text("# Ours.\nttl_s: 30d\nmode: 'off'\nlog_level: error\n")
    secret.write_text("hunter2")
    environ = {
        "REPLAY_MODE": "shadow",
        "REPLAY_LOG_LEVEL": "debug",
        "REPLAY_ADMIN_TOKEN_FILE": str(secret),
    }
    text = printed({"log_level": "warning"}, environ, path)

    assert line_of("ttl_s", text) == f"ttl_s: 30d # {path}:2"
    assert line_of("mode", text) == "mode: shadow # REPLAY_MODE"
    assert line_of("log_level", text) == "log_level: warning # --log-level"
    assert line_of("admin_token", text) == "# admin_token: '***' # REPLAY_ADMIN_TOKEN_FILE"
    assert line_of("drain_s", text) == "drain_s: 10m # default"


@pytest.mark.parametrize("name", sorted(SECRET_NAMES))
def test_a_secret_is_masked_and_commented_out(name: str, tmp_path: Path) -> None:
    """The file can be used, and needs the secret again."""
    text = printed({}, {env_of(name): HOLDING[name]})
    path = tmp_path / "replay.yaml"
    path.write_text(text)

    assert HIDDEN[name] not in text
    assert line_of(name, text).startswith(f"# {name}: ")
    assert "***" in text
    assert load({}, {}, path) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [("store_url", "redis://h:6379/0"), ("upstream_proxy", "env"), ("scope_secret", "")],
)
def test_a_value_without_a_secret_is_shown(name: str, value: str) -> None:
    """An address is a secret only with a password, and an empty secret is none."""
    assert line_of(name, printed({name: value})) == f"{name}: {value or repr('')} # --" + (
        name.replace("_", "-")
    )
