"""Effective settings: every setting with its value and its source, as a file without secrets."""

from collections.abc import Iterator
from typing import Final

import yaml
from pydantic import SecretStr

from reasoning_replay.settings import units, urls
from reasoning_replay.settings.loader import SECRET_NAMES, Loaded
from reasoning_replay.settings.reference import GROUPS

__all__ = ["effective"]

HEAD: Final = """\
# The settings in effect, each with its source. `reasoning-replay serve --config FILE` reads this.
# A secret that is set is commented out, and must be set again."""
COMMENTS_AT: Final = 48


def effective(loaded: Loaded) -> Iterator[str]:
    """Yield the lines of a YAML file."""
    yield HEAD
    for group in GROUPS:
        yield f"\n# {group.heading}"
        for name in group.model_fields:
            source = loaded.sources.get(name, "default")
            yield f"{_line(name, getattr(loaded.settings, name)):<{COMMENTS_AT}} # {source}"


def _line(name: str, value: object) -> str:
    shown = _shown(name, value)
    dumped = yaml.safe_dump({name: shown}, allow_unicode=True, width=float("inf")).strip()
    return f"# {dumped}" if name in SECRET_NAMES and shown not in ("", value) else dumped


def _shown(name: str, value: object) -> object:
    """Return a value as the file has it; a secret without what must stay secret."""
    if isinstance(value, SecretStr):
        return "***" if value.get_secret_value() else ""
    if name in SECRET_NAMES:
        return urls.redacted(str(value))
    if units.kind_of(name) and isinstance(value, int | float):
        text = units.shown(name, value)
        return int(text) if text.isdigit() else text
    return value
