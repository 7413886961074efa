"""
Settings reference: the groups, texts and values that `--help`, `config` and the documentation show.

The text of a setting is its description in the model. docs/configuration.md and config/replay.yaml
are generated from the same source (`python -m tests.docs.configuration`).
"""

from collections.abc import Iterator
from typing import Final, get_args

from pydantic import SecretStr

from reasoning_replay.settings import units, upstreams, urls
from reasoning_replay.settings.groups import Group
from reasoning_replay.settings.loader import SECRET_NAMES, Loaded, default_of, env_of
from reasoning_replay.settings.model import Settings

GROUPS: Final[tuple[type[Group], ...]] = tuple(
    base for base in reversed(Settings.__bases__) if issubclass(base, Group)
)
"""The groups in reading order; the docstring of a group is the sentence about its settings."""

COMMON: Final = (
    "upstream_url",
    "upstreams",
    "upstream_profile",
    "listen",
    "tls_cert_file",
    "tls_key_file",
    "mode",
    "store_url",
    "ttl_s",
    "scope_secret",
    "admin_listen",
    "admin_token",
    "log_level",
)
"""The settings that most deployments change; the short help has only these."""

# Metavars of settings without a unit, by the end of their name.
_METAVARS: Final = {
    "upstreams": "MAP",
    "_url": "URL",
    "_proxy": "URL",
    "_file": "FILE",
    "listen": "HOST:PORT",
}
_SHORT_CHOICE: Final = 4  # more words than this would fill the line


def metavar_of(name: str) -> str:
    """Return the placeholder for a setting's value: its few choices, or its kind."""
    annotation = Settings.model_fields[name].annotation
    if 0 < len(choices := _words(name)) <= _SHORT_CHOICE:
        return "|".join(choices)
    if annotation is bool:
        return "true|false"
    if kind := units.kind_of(name):
        return kind.metavar
    ends = (metavar for end, metavar in _METAVARS.items() if name.endswith(end))
    return next(ends, "NUMBER" if annotation is int else "TEXT")


def help_of(name: str) -> str:
    """Return the help text of a setting: its description, choices, default and variable."""
    return (
        f"{_text(name)} {_choices(name)}Default: {default_of(name)}. Environment: {env_of(name)}."
    )


def short_help_of(name: str) -> str:
    """Return the first sentence of the help text, with the choices and the default."""
    text = _text(name)
    if "|" not in metavar_of(name):  # else each sentence explains a choice
        text = text.partition(". ")[0].removesuffix(".") + "."
    return f"{text} {_choices(name)}Default: {default_of(name)}."


def _text(name: str) -> str:
    return (Settings.model_fields[name].description or "").replace("`", "")


def _words(name: str) -> list[str]:
    """Return the only values of a setting; none if it has others."""
    choices = get_args(Settings.model_fields[name].annotation)
    return [choice for choice in choices if isinstance(choice, str)]


def _choices(name: str) -> str:
    """Return a sentence with the choices that are too many for the metavar."""
    choices = _words(name)
    return f"One of {', '.join(choices)}. " if len(choices) > _SHORT_CHOICE else ""


# --- the settings in effect ---

HEAD: Final = """\
# The settings in effect, each with its source. `reasoning-replay serve --config FILE` reads this.
# A secret that is set is commented out, and must be set again."""
COMMENTS_AT: Final = 48


def effective(loaded: Loaded) -> Iterator[str]:
    """Yield the lines of a YAML file: every setting with its value and its source, no secrets."""
    yield HEAD
    for group in GROUPS:
        yield f"\n# {group.heading}"
        for name in group.model_fields:
            if name == "upstream_url" and loaded.settings.upstreams:
                continue  # not in effect, and an error next to them
            source = loaded.sources.get(name, "default")
            first, *more = _lines(name, getattr(loaded.settings, name))
            yield f"{first:<{COMMENTS_AT}} # {source}"
            yield from more


def _lines(name: str, value: object) -> list[str]:
    import yaml  # noqa: PLC0415 (`serve` does not need it)

    shown = _shown(name, value)
    dumped = yaml.safe_dump(
        {name: shown}, allow_unicode=True, width=float("inf"), sort_keys=False
    ).strip()
    mark = "# " if name in SECRET_NAMES and shown not in ("", value) else ""
    return [mark + line for line in dumped.splitlines()]


def _shown(name: str, value: object) -> object:
    """Return a value as the file has it; a secret without what must stay secret."""
    if isinstance(value, SecretStr):
        return "***" if value.get_secret_value() else ""
    if isinstance(value, dict):  # the upstreams, and the settings of one
        return {key: _shown(upstreams.OWN.get(key, key), one) for key, one in value.items()}
    if name in SECRET_NAMES:
        return urls.redacted(str(value))
    if units.kind_of(name) and isinstance(value, int | float):
        text = units.shown(name, value)
        return int(text) if text.isdigit() else text
    return value
