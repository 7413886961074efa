"""The chart's schema, tables and values match the settings."""

import json
import math
import re
from typing import Any

import pytest
import yaml
from reasoning_replay.settings.loader import load
from reasoning_replay.settings.model import Settings

from tests.chart.rendering import CHART, Helm
from tests.chart.schema import SCHEMA, VARIABLES, definitions, variables
from tests.chart.values_table import table, written

GUIDE = CHART.parent / "docs/kubernetes.md"


def test_the_schema_knows_every_setting_and_no_other() -> None:
    """If this fails, `python -m tests.chart.schema` updates the schema."""
    assert json.loads(SCHEMA.read_text())["definitions"] == definitions()
    assert VARIABLES.read_text() == variables()


@pytest.mark.parametrize("unit", ["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"])
def test_the_chart_reads_a_size_as_the_proxy_does(helm: Helm, unit: str) -> None:
    """The memory that its checks demand is that of the setting."""
    value = f"1{unit}"
    least_mib = 64 + math.ceil(Settings(local_max_bytes=value).local_max_bytes / 2**20)
    values = {"config": {"store_url": "redis://redis", "local_max_bytes": value}}
    done = helm.template(values | {"resources": {"limits": {"memory": "1k"}}})

    assert f"1k is less than {least_mib} MiB" in done.stderr


@pytest.mark.parametrize("unit", ["ms", "s", "m", "h", "d"])
def test_the_chart_reads_a_duration_as_the_proxy_does(helm: Helm, unit: str) -> None:
    """The grace period that its checks demand is that of the setting."""
    value = f"2000{unit}"
    least_s = load({"drain_s": value}, {}, None).drain_s + 1
    done = helm.template({"config": {"drain_s": value}, "terminationGracePeriodSeconds": 1})

    assert f"set at least {least_s:.0f}\n" in done.stderr


def test_the_values_are_short_enough_to_be_read() -> None:
    """values.yaml stays short enough to read."""
    assert len((CHART / "values.yaml").read_text().splitlines()) <= 240


@pytest.mark.parametrize(
    ("name", "value"), yaml.safe_load((CHART / "values.yaml").read_text()).items()
)
def test_every_value_has_its_place_in_the_schema(name: str, value: object) -> None:
    """values.yaml and the schema describe the same values."""
    schema = json.loads(SCHEMA.read_text())["properties"]

    assert set(schema) == set(yaml.safe_load((CHART / "values.yaml").read_text()))
    if "properties" in schema[name]:
        assert isinstance(value, dict)
        assert set(value) <= set(schema[name]["properties"])


def test_the_guide_names_values_that_exist() -> None:
    """Every value in the guide's table exists."""
    lines = GUIDE.read_text().splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]

    assert len(rows) > 10
    assert [
        name for row in rows for name in re.findall(r"`([\w.]+)`", row) if not exists(name)
    ] == []


def exists(name: str) -> bool:
    """Return whether values.yaml has a value, such as `pdb.enabled`."""
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for step in name.split("."):
        if step not in found:
            return False
        found = found[step]
    return True


def test_a_usual_name_of_other_charts_leads_to_the_name_here(helm: Helm) -> None:
    """The schema lets exactly the names of the table pass, and the template refuses each."""
    table = (CHART / "templates" / "other-names.yaml").read_text()
    here = dict(re.findall(r'^  "([\w.]+)" "(.*)"$', table, re.MULTILINE))
    values: dict[str, Any] = {}
    for name in here:
        group, _, word = name.rpartition(".")
        (values.setdefault(group, {}) if group else values)[word] = 1
    done = helm.template(values)

    assert [name for name in here if f"{name}: here it is {here[name]}\n" not in done.stderr] == []
    assert [name for name in here.values() if not exists(re.findall(r"[\w.]+", name)[0])] == []
    schema = json.loads(SCHEMA.read_text())
    groups = {"": schema} | {f"{name}.": each for name, each in schema["properties"].items()}
    patterns = [
        (group, pattern)
        for group in groups
        for pattern in groups[group].get("patternProperties", {})
    ]
    passing = {f"{group}{word}" for group, pattern in patterns for word in pattern[2:-2].split("|")}
    assert passing == here.keys() - {"podSecurityContext.enabled", "securityContext.enabled"}


def test_the_charts_readme_has_every_value() -> None:
    """If this fails, `python -m tests.chart.values_table` updates the table."""
    assert written() == table()


@pytest.mark.parametrize("name", yaml.safe_load((CHART / "values.yaml").read_text()))
def test_every_value_is_used(name: str) -> None:
    """Every value is used by a template."""
    templates = "".join(path.read_text() for path in CHART.glob("templates/**/*.*"))

    assert f".Values.{name}" in templates
