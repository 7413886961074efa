"""Secrets can come from files, and are never shown."""

import asyncio
import itertools
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from reasoning_replay.settings.entries import SettingsError
from reasoning_replay.settings.loader import SECRET_NAMES, env_of, load
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.web.line import line_to, request

SECRET = "hunter2-hunter2"
# A valid value of each secret setting, and refused values.
HOLDING = {
    "scope_secret": SECRET,
    "admin_token": SECRET,
    "store_password": SECRET,
    "encryption_keys": "k1:aHVudGVyMi1odW50ZXIyLWh1bnRlcjItaHVudGVyMjI=",
    "store_url": f"redis://user:{SECRET}@127.0.0.1:1/0",
    "upstream_proxy": f"http://user:{SECRET}@127.0.0.1:1",
    "upstreams": f'{{a: {{url: "http://127.0.0.1:1/v1", proxy: "http://user:{SECRET}@h:1"}}}}',
}
REFUSED = {
    "store_url": f"foo://:{SECRET}@h",
    "upstream_proxy": f"foo://:{SECRET}@h",
    "upstreams": f'{{a: {{url: "http://127.0.0.1:1/v1", proxy: "foo://:{SECRET}@h"}}}}',
    "store_password_file": SECRET,  # instead of a path
}
# The part of each value that must not be shown.
HIDDEN = dict.fromkeys(HOLDING, SECRET) | {"encryption_keys": "aHVudGVyMi1odW50"}


def fault_of(environ: dict[str, str]) -> str:
    """Return the one line that `load` reports; the exception has no cause that holds more."""
    with pytest.raises(SettingsError) as caught:
        load({}, environ, None)
    (fault,) = caught.value.faults
    assert caught.value.__cause__ is None
    return fault


def test_these_are_the_secrets() -> None:
    """The secrets are all settings of type SecretStr, and three that may hold a password."""
    fields = Settings.model_fields.items()
    typed = {name for name, field in fields if isinstance(field.default, SecretStr)}
    assert set(HOLDING) == SECRET_NAMES == typed | {"store_url", "upstream_proxy", "upstreams"}


FROM_FILES = sorted(SECRET_NAMES - {"store_password"})


def value_of(settings: Settings, name: str) -> object:
    """Return a setting, also a secret one."""
    value = getattr(settings, name)
    return value.get_secret_value() if isinstance(value, SecretStr) else value


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("name", FROM_FILES)
def test_a_secret_is_what_its_file_holds(name: str, end: str, tmp_path: Path) -> None:
    """A secret is the content of its file without one trailing line break."""
    path = tmp_path / "secret"
    path.write_bytes((HOLDING[name] + end).encode())

    got = value_of(load({}, {env_of(name) + "_FILE": str(path)}, None), name)
    assert got == value_of(load({}, {env_of(name): HOLDING[name]}, None), name)


@pytest.mark.parametrize(
    ("content", "want"),
    [("a\n\n", "a\n"), ("\na", "\na"), (" a ", " a "), ("a\nb\n", "a\nb"), ("é", "é")],
)
def test_nothing_else_is_taken_off(content: str, want: str, tmp_path: Path) -> None:
    """All other whitespace of the file belongs to the secret."""
    path = tmp_path / "secret"
    path.write_bytes(content.encode())

    got = load({}, {"REPLAY_SCOPE_SECRET_FILE": str(path)}, None)
    assert got.scope_secret.get_secret_value() == want


def test_a_file_stands_where_its_variable_would(tmp_path: Path) -> None:
    """A secret's file has the priority of its variable: below a flag, above the --config file."""
    secret, config = tmp_path / "secret", tmp_path / "replay.yaml"
    secret.write_text("from the secret's file")
    config.write_text("scope_secret: from the settings' file")
    environ = {"REPLAY_SCOPE_SECRET_FILE": str(secret)}

    def got(flags: dict[str, str]) -> str:
        return load(flags, environ, config).scope_secret.get_secret_value()

    assert got({}) == "from the secret's file"
    assert got({"scope_secret": "from a flag"}) == "from a flag"


@pytest.mark.parametrize("name", FROM_FILES)
def test_a_secret_from_two_places_is_a_fault(name: str, tmp_path: Path) -> None:
    """A secret that is set twice is refused, and the message names both variables."""
    path = tmp_path / "secret"
    path.write_text(HOLDING[name])
    environ = {env_of(name): HOLDING[name], env_of(name) + "_FILE": str(path)}

    assert fault_of(environ) == f"{env_of(name)}, {env_of(name)}_FILE: both are set; keep one"


@pytest.mark.parametrize("name", FROM_FILES)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty; it must contain only the value"),
        (b"\n", "is empty; it must contain only the value"),
        (b"\xff" + SECRET.encode(), "is not UTF-8 text; it must contain only the value"),
        (SECRET.encode() * 5000, "is longer than 64 KiB; it must contain only the value"),
    ],
)
def test_a_file_that_holds_no_secret_is_a_fault(
    name: str, content: bytes | None, reason: str, tmp_path: Path
) -> None:
    """An error about a secret's file shows neither content nor path: both may be the secret."""
    path = tmp_path / SECRET
    if content is not None:
        path.write_bytes(content)

    assert (
        fault_of({env_of(name) + "_FILE": str(path)}) == f"{env_of(name)}_FILE: the file {reason}"
    )


@pytest.mark.parametrize("name", ["mode", "listen", "nothing"])
def test_only_secrets_come_from_files(name: str) -> None:
    """Settings that are not secrets have no _FILE variable; the --config file is for them."""
    assert fault_of({env_of(name) + "_FILE": "x"}).startswith(f"{env_of(name)}_FILE: unknown")


def test_the_password_files_own_setting_stays_what_it_is(tmp_path: Path) -> None:
    """`store_password_file` is a setting: its file is read for each connection to the store."""
    path = tmp_path / "password"
    path.write_text("x")
    got = load({}, {"REPLAY_STORE_PASSWORD_FILE": str(path)}, None)

    assert (got.store_password_file, got.store_password.get_secret_value()) == (str(path), "")


@pytest.mark.parametrize(
    ("name", "by"),
    [
        *itertools.product(sorted(REFUSED), ["variable", "flag", "config"]),
        *itertools.product(sorted(REFUSED.keys() & SECRET_NAMES), ["file"]),
    ],
)
def test_a_refused_secret_is_not_quoted(name: str, by: str, tmp_path: Path) -> None:
    """A refused secret is not in the error, whatever its source."""
    path = tmp_path / "file"
    path.write_text(REFUSED[name] if by == "file" else f"{name}: '{REFUSED[name]}'")
    environ = {
        "variable": {env_of(name): REFUSED[name]},
        "file": {f"{env_of(name)}_FILE": str(path)},
    }
    flags = {name: REFUSED[name]} if by == "flag" else {}
    with pytest.raises(SettingsError) as caught:
        load(flags, environ.get(by, {}), path if by == "config" else None)

    assert len(caught.value.faults) == 1
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", sorted(HOLDING))
def test_no_setting_shows_its_secret(name: str) -> None:
    """A secret is neither in the printed settings nor in an error about another setting."""
    given: Any = {name: value_of(load({}, {env_of(name): HOLDING[name]}, None), name)}
    settings = Settings(**given)

    assert value_of(settings, name) == given[name]
    assert HIDDEN[name] not in f"{settings!r} {settings!s} {settings}"
    with pytest.raises(ValidationError) as caught:
        Settings(**given, mode="maybe")
    assert HIDDEN[name] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", sorted(HOLDING))
async def test_no_line_of_log_and_no_page_shows_a_secret(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No log line and no page shows a secret while store and upstream are unreachable."""
    given: Any = {
        "upstream_url": "http://127.0.0.1:1/v1",
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_level": "debug",
        "store_url": "redis://127.0.0.1:1/0",
        "store_budget_ms": 200,
        name: value_of(load({}, {env_of(name): HOLDING[name]}, None), name),
    }
    if name == "upstreams":
        del given["upstream_url"]
    pages: list[bytes] = []
    async with running(Settings(**given)) as app:
        body = b'{"model":"gpt-5.4","input":[{"type":"function_call","id":"fc_1","call_id":"c"}]}'
        key = f"Authorization: Bearer {SECRET}-of-a-client"
        for url, data in [
            (app.url, request("POST", "/v1/responses", key, body=body)),
            (app.url, b"GET\0" + request("GET", "/v1/models", key)),
            *[(app.admin_url, request("GET", page)) for page in ("/", "/readyz", "/metrics")],
        ]:
            async with line_to(url) as line:
                await line.send(data)
                head = await line.head()
                pages.append(repr(head).encode() + (await line.until_it_ends())[0])
        await asyncio.sleep(0)
    printed = capsys.readouterr()

    assert "started" in printed.out
    assert HIDDEN[name] not in printed.out + printed.err
    assert HIDDEN[name].encode() not in b"".join(pages)
