"""The chart's schema, tables and values match the settings."""

import json
import math
import re

import pytest
import yaml
from reasoning_replay.settings.loader import SECRET_NAMES, load
from reasoning_replay.settings.model import Settings

from tests.chart.rendering import CHART, Helm
from tests.chart.schema import SCHEMA, definitions
from tests.chart.values_table import table, written

GUIDE = CHART.parent / "docs/kubernetes.md"


def test_the_schema_knows_every_setting_and_no_other() -> None:
    """If this fails, `python -m tests.chart.schema` updates the schema."""
    assert json.loads(SCHEMA.read_text())["definitions"] == definitions()


def test_every_secret_may_come_from_a_secret() -> None:
    """The secret keys of the schema are exactly the secret settings."""
    assert set(definitions()["secretKeys"]["properties"]) == SECRET_NAMES


@pytest.mark.parametrize("unit", ["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"])
def test_the_chart_reads_a_size_as_the_proxy_does(helm: Helm, unit: str) -> None:
    """The memory that its checks demand is that of the setting."""
    value = f"1{unit}"
    least_mib = 64 + math.ceil(Settings(recent_max_bytes=value).recent_max_bytes / 2**20)
    values = {"config": {"store_url": "redis://redis", "recent_max_bytes": value}}
    done = helm.template(values | {"resources": {"limits": {"memory": "1k"}}})

    assert f"1k is less than {least_mib} MiB" in done.stderr


@pytest.mark.parametrize("unit", ["ms", "s", "m", "h", "d"])
def test_the_chart_reads_a_duration_as_the_proxy_does(helm: Helm, unit: str) -> None:
    """The grace period that its checks demand is that of the setting."""
    value = f"2000{unit}"
    least_s = load({"drain_s": value}, {}, None).drain_s + 1
    done = helm.template({"config": {"drain_s": value}, "terminationGracePeriodSeconds": 1})

    assert f"set at least {least_s:.0f}\n" in done.stderr


def test_a_setting_that_yaml_reads_as_a_boolean_may_be_one() -> None:
    """`mode: on` without quotes, a boolean in YAML, is accepted."""
    said = definitions()["settings"]["properties"]

    assert said["mode"]["enum"] == ["on", "shadow", "off", True, False]
    assert said["heal"]["enum"] == ["on", "off", True, False]


def test_the_values_are_short_enough_to_be_read() -> None:
    """values.yaml stays short enough to read."""
    assert len((CHART / "values.yaml").read_text().splitlines()) <= 240


@pytest.mark.parametrize(
    ("name", "value"), yaml.safe_load((CHART / "values.yaml").read_text()).items()
)
def test_every_value_has_its_place_in_the_schema(name: str, value: object) -> None:
    """values.yaml and the schema describe the same values, except Helm's own `global`."""
    schema = json.loads(SCHEMA.read_text())["properties"]

    assert set(schema) - {"global"} == set(yaml.safe_load((CHART / "values.yaml").read_text()))
    if "properties" in schema[name]:
        assert isinstance(value, dict)
        assert set(value) <= set(schema[name]["properties"])


def test_the_sidecar_is_set_to_what_settings_take() -> None:
    """The sidecar's defaults are valid settings."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert Settings.model_validate(values["sidecar"]["config"]).listen == "127.0.0.1:8080"


def test_the_guide_names_values_that_exist() -> None:
    """Every value in the guide's table exists."""
    lines = GUIDE.read_text().splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    for name in [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]:
        found = yaml.safe_load((CHART / "values.yaml").read_text())
        for step in name.split("."):
            assert step in found, name
            found = found[step]

    assert len(rows) > 10


def test_the_charts_readme_has_every_value() -> None:
    """If this fails, `python -m tests.chart.values_table` updates the table."""
    assert written() == table()


@pytest.mark.parametrize("name", yaml.safe_load((CHART / "values.yaml").read_text()))
def test_every_value_is_used(name: str) -> None:
    """Every value is used by a template."""
    templates = "".join(path.read_text() for path in CHART.glob("templates/**/*.*"))

    assert f".Values.{name}" in templates
