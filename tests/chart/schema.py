"""
Generator of the settings in the chart: `python -m tests.chart.schema`.

It writes those of helm/values.schema.json, whose rest is written by hand and stays, and the list of
variables with which the templates compare `extraEnv`.
"""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from reasoning_replay.settings import upstreams
from reasoning_replay.settings.loader import CONFIG_VARIABLE, FILE_SUFFIX, SECRET_NAMES, env_of
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.units import kind_of

SCHEMA: Final = Path(__file__).parents[2] / "helm" / "values.schema.json"
VARIABLES: Final = SCHEMA.parent / "templates" / "_variables.tpl"
KEPT: Final = ("type", "enum", "minimum", "exclusiveMinimum", "pattern", "description")
YAML_BOOLEANS: Final = {"on": True, "off": False}  # YAML reads these bare words as booleans
SECRET_KEY: Final = {"type": "string", "minLength": 1}


def definitions() -> dict[str, Any]:
    """Return the definitions of the schema that come from the settings."""
    told = Settings.model_json_schema()["properties"]
    settings: dict[str, Any] = {}
    for name in sorted(told, key=upstreams.FIELD.__eq__):  # that one has some of the others
        settings[name] = _of_setting(name, told[name], settings)
    return {
        "settings": {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: settings[name] for name in told},
        },
        "secretKeys": {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: SECRET_KEY for name in told if name in SECRET_NAMES},
        },
    }


def variables() -> str:
    """Return the template with the names of all variables that the proxy reads as settings."""
    files = (env_of(name + FILE_SUFFIX) for name in SECRET_NAMES)
    names = sorted({CONFIG_VARIABLE, *map(env_of, Settings.model_fields), *files})
    lines = "\n".join(names)
    about = "{{/* Variables of the settings; `python -m tests.chart.schema` writes this file. */}}"
    return f'{about}\n{{{{- define "reasoning-replay.variables" -}}}}\n{lines}\n{{{{- end -}}}}\n'


def _of_setting(name: str, about: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one setting in `config`, given those of all others."""
    if isinstance(Settings.model_fields[name].default, SecretStr):
        # A template refuses it with a way out; a schema could only refuse it.
        return {"description": f"A secret: set secrets.keys.{name} to its key in the Secret."}
    if name == upstreams.FIELD:
        own = {key: settings[full] for key, full in upstreams.OWN.items()}
        own[upstreams.HOSTS] = {
            "type": "string",
            "description": "Host names that choose this upstream, separated by commas.",
        }
        one = {
            "type": "object",
            "additionalProperties": False,
            "required": [upstreams.URL],
            "properties": own,
        }
        return {
            "type": "object",
            "additionalProperties": one,
            "description": about["description"],
        }
    said: dict[str, Any] = {key: about[key] for key in KEPT if key in about}
    if kind := kind_of(name):
        # A number, or text with a unit: `minimum` is for the number, `pattern` for the text.
        said["type"] = [about["type"], "string"]
        said["pattern"] = rf"^[0-9]+(\.[0-9]+)?\s*({'|'.join(kind.factors)})?$"
    words = about.get("enum", ())
    if booleans := [value for word, value in YAML_BOOLEANS.items() if word in words]:
        del said["type"]
        said["enum"] = [*words, *booleans]
    return said


def _write() -> None:
    schema = json.loads(SCHEMA.read_text())
    schema["definitions"] = definitions()
    SCHEMA.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    VARIABLES.write_text(variables())


if __name__ == "__main__":
    _write()
