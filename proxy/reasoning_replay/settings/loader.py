"""
Loader: settings from flags, environment, file and defaults, with one line for each error.

Flags win over environment variables, these over the file, and the file over the defaults.
A secret's variable may name a file instead, as Docker and Kubernetes provide secrets.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from reasoning_replay.settings import units, upstreams, urls
from reasoning_replay.settings.entries import SettingEntry, SettingsError, from_file, of_upstreams
from reasoning_replay.settings.model import Settings

ENV_PREFIX: Final = "REPLAY_"
CONFIG_VARIABLE: Final = "REPLAY_CONFIG"  # names the file of settings, and is none itself
# Variables that Kubernetes sets for a Service called "replay" or "replay-..."; no settings.
SERVICE_LINK: Final = re.compile(
    r"REPLAY_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)=.*"
    r"|REPLAY_(\w+_)?PORT=(tcp|udp|sctp)://.*",
    re.DOTALL,
)

# Settings that may hold a secret. A variable with this suffix names a file that holds it.
SECRET_NAMES: Final = frozenset({"store_url", "upstream_proxy", upstreams.FIELD}) | {
    name for name, field in Settings.model_fields.items() if isinstance(field.default, SecretStr)
}
# What people write instead of a setting, the setting, and what its value looks like.
MEANT: Final = {
    "recent_max_bytes": ("local_max_bytes", ""),
    **dict.fromkeys(("redis", "redis_url"), ("store_url", "redis://HOST:6379/0")),
    **dict.fromkeys(("port", "host", "bind", "address"), ("listen", "127.0.0.1:8080")),
    **dict.fromkeys(("upstream", "base_url", "target"), ("upstream_url", "https://HOST/v1")),
    "workers": ("reuse_port", "true and start one process for each core (docs/deploy.md)"),
}
OTHER_PREFIX: Final = "REASONING_REPLAY_"  # as metrics and the command are called
FILE_SUFFIX: Final = "_file"
SECRET_MAX_BYTES: Final = 64 * 1024
# Errors of pydantic whose words are those of a programmer.
_NOT_WHOLE: Final = frozenset({"int_from_float", "int_parsing"})


class Loaded(NamedTuple):
    """
    Settings, and where each was set.

    Attributes:
        sources: Name of a setting -> its flag, its variable, or file and line. Settings with their
            default are absent.
    """

    settings: Settings
    sources: Mapping[str, str]


def flag_of(name: str) -> str:
    """Return the flag of a setting: ttl_s -> --ttl-s."""
    return "--" + name.replace("_", "-")


def default_of(name: str) -> str:
    """Return a setting's default as a user writes it, such as `7d`; "empty" if it is empty."""
    default = Settings.model_fields[name].default
    if default in ("", {}) or isinstance(default, SecretStr):
        return "empty"
    if isinstance(default, bool):
        return str(default).lower()
    return units.shown(name, default) if isinstance(default, int | float) else str(default)


def env_of(name: str) -> str:
    """Return the environment variable of a setting: ttl_s -> REPLAY_TTL_S."""
    return ENV_PREFIX + name.upper()


def config_in(environ: Mapping[str, str]) -> Path | None:
    """Return the file of settings that the environment names; None if it names none."""
    named = environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def load(
    argv_overrides: Mapping[str, str], environ: Mapping[str, str], config_path: Path | None
) -> Settings:
    """
    Merge flags over environment over file over defaults.

    Args:
        argv_overrides: Setting name, as in Settings, -> the text given on the command line.
        environ: The whole environment; only REPLAY_* is read, without REPLAY_TEST_*.
            For a secret, REPLAY_<NAME>_FILE may name a file that holds it.
        config_path: A YAML file of `name: value` lines, or None.

    Raises:
        SettingsError: There are errors; it has all of them, so that one start shows each.
    """
    return load_with_sources(argv_overrides, environ, config_path).settings


def load_with_sources(
    argv_overrides: Mapping[str, str],
    environ: Mapping[str, str],
    config_path: Path | None,
    own: Mapping[str, str] = MappingProxyType({}),
) -> Loaded:
    """Do what `load` does, with other defaults in `own`, and return each setting's source too."""
    written: dict[str, SettingEntry] = {}
    faults: list[str] = []
    try:
        if config_path is not None:
            _take(from_file(config_path), written, faults)
    except SettingsError as error:
        faults += error.faults
    _take(_from_environ(environ, faults), written, faults)
    flags = (
        SettingEntry(name, text, flag_of(name), flag_of) for name, text in argv_overrides.items()
    )
    _take(flags, written, faults)
    sources = {name: entry.place.removesuffix(f": {name}") for name, entry in written.items()}
    several = written.pop(upstreams.FIELD, None)
    named = {} if several is None else of_upstreams(several, faults)
    if named and (one := written.pop("upstream_url", None)):
        faults.append(f"{one.place}: {sources[upstreams.FIELD]} sets upstreams as well; keep one")
    # First each upstream alone, so that an error has its place.
    for name, entries in named.items() or [("", {})]:
        alone = written | {entry.name: entry for entry in entries.values()}
        faults += [fault for fault in _faults_of(name, alone, own) if fault not in faults]
    if faults:
        raise SettingsError(faults)
    values: dict[str, object] = {**own, **{name: one.value for name, one in written.items()}}
    values[upstreams.FIELD] = {
        name: {key: one.value for key, one in entries.items()} for name, entries in named.items()
    }
    return Loaded(Settings.model_validate(values), sources)


def _faults_of(name: str, written: Mapping[str, SettingEntry], own: Mapping[str, str]) -> list[str]:
    """Return a line for each error in the settings of one upstream; "" is the only one."""
    given = {one: entry.value for one, entry in written.items() if one != upstreams.HOSTS}
    try:
        Settings.model_validate({**own, **given})
    except ValidationError as error:
        return [_fault(detail, written, name) for detail in error.errors(include_url=False)]
    return []


def _from_environ(environ: Mapping[str, str], faults: list[str]) -> Iterator[SettingEntry]:
    for key, value in sorted(environ.items()):
        name = key.removeprefix(OTHER_PREFIX).lower()
        if key.startswith(OTHER_PREFIX) and name in Settings.model_fields:
            faults.append(f"{key}: unknown setting; it is {env_of(name)}")
        ours = key.startswith(ENV_PREFIX) and not key.startswith("REPLAY_TEST_")
        if not ours or key == CONFIG_VARIABLE or SERVICE_LINK.fullmatch(f"{key}={value}"):
            continue
        name = key.removeprefix(ENV_PREFIX).lower()
        of = name.removesuffix(FILE_SUFFIX)
        if name in Settings.model_fields or of == name or of not in SECRET_NAMES:
            yield SettingEntry(name, value, key, env_of)
        elif env_of(of) in environ:
            faults.append(f"{env_of(of)}, {key}: both are set; keep one")
        elif (secret := _from_secret_file(key, value, faults)) is not None:
            yield SettingEntry(of, secret, key, env_of, is_hidden=True)


def _from_secret_file(key: str, path: str, faults: list[str]) -> str | None:
    """
    Return the value in a secret's file, without one trailing line break; None after an error.

    No message quotes the path: users sometimes set the variable to the secret itself.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(SECRET_MAX_BYTES + 1)
        secret = re.sub(r"\r?\n\Z", "", content.decode())
    except UnicodeDecodeError:
        faults.append(f"{key}: the file is not UTF-8 text; it must contain only the value")
        return None
    except OSError as error:
        faults.append(f"{key}: the file cannot be read: {error.strerror}")
        return None
    if not secret or len(content) > SECRET_MAX_BYTES:
        size = "longer than 64 KiB" if secret else "empty"
        faults.append(f"{key}: the file is {size}; it must contain only the value")
        return None
    return secret


def _take(
    entries: Iterator[SettingEntry], written: dict[str, SettingEntry], faults: list[str]
) -> None:
    """Add entries that override those of earlier calls; report unknown names in `faults`."""
    for entry in entries:
        if entry.name in Settings.model_fields:
            written[entry.name] = entry
            continue
        import difflib  # noqa: PLC0415 (only this hint needs it)

        near = difflib.get_close_matches(entry.name, Settings.model_fields, n=1)
        if entry.name in MEANT:
            meant, example = MEANT[entry.name]
            remedy = f"write {entry.spell(meant)} {example}".rstrip()
        elif near:
            remedy = f"did you mean {entry.spell(near[0])}?"
        else:
            remedy = "`serve --help-all` lists all"
        faults.append(f"{entry.place}: unknown setting; {remedy}")


def _fault(detail: ErrorDetails, written: Mapping[str, SettingEntry], upstream: str = "") -> str:
    """Return one line: the place of a value, the value, and the values that are accepted."""
    if not detail["loc"]:
        return upstreams.in_words_of(upstream, str(detail["ctx"]["error"]))
    entry = written[str(detail["loc"][0])]
    if detail["type"] == "value_error":
        reason = str(detail["ctx"]["error"])
    else:
        told = detail["msg"].removeprefix("Input ")
        if detail["type"] in _NOT_WHOLE:
            kind = units.kind_of(entry.name)
            told = "should be a whole number" + (f" of {kind.unit}" if kind else "")
        reason = f"{told}; the default is {default_of(entry.name)}"
    return f'{entry.place}: "{_shown(entry)}": {reason}'


def _shown(entry: SettingEntry) -> str:
    """Return a refused value on one line, shortened and without its secrets."""
    field = Settings.model_fields[entry.name]
    of = Settings.model_fields.get(entry.name.removesuffix(FILE_SUFFIX), field)
    # Instead of the name of a secret's file, users sometimes write the secret itself.
    if entry.is_hidden or isinstance(of.default, SecretStr):
        return "***"
    is_address = entry.name.endswith(("_url", "_proxy"))
    value = urls.redacted(entry.value) if is_address else entry.value
    line = value.encode("unicode_escape").decode("ascii")
    return line if len(line) <= 80 else line[:77] + "..."  # noqa: PLR2004 - a terminal's width
