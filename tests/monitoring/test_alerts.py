"""The alerts fire when they should, and are silent when they should; each says what to do."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from reasoning_replay.settings.model import Settings

from tests.monitoring.files import ALERTS, PANELS, ROOT, RULES_PATH
from tests.programs import require

SOURCE = "".join(path.read_text() for path in (ROOT / "proxy" / "reasoning_replay").rglob("*.py"))
TESTS = Path(__file__).with_name("alerts_test.yaml")
SILENT = 'ALERTS{alertstate=~"pending|firing"}'
CASES: dict[str, Any] = {test["name"]: test for test in yaml.safe_load(TESTS.read_text())["tests"]}


def promtool(*words: str) -> None:
    """Let Prometheus' own tool judge."""
    ran = subprocess.run(  # noqa: S603 (a program of the tests' own)
        [require("prometheus", "promtool"), *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_rules_are_well_formed() -> None:
    """Prometheus would load them."""
    promtool("check", "rules", str(RULES_PATH))


def test_they_fire_and_are_silent_as_their_tests_say() -> None:
    """Over hours of made-up samples, a minute apart."""
    promtool("test", "rules", str(TESTS))


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_case_in_which_it_fires_and_some_in_which_it_does_not(alert: str) -> None:
    """In the first, what is just under its limit stays silent beside what is over it."""
    case = CASES[alert]
    expr = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    checks = case["promql_expr_test"]
    assert {check["expr"] for check in checks} == {expr}

    (fired,) = checks[-1]["exp_samples"]
    assert f'severity="{ALERTS[alert]["labels"]["severity"]}"' in fired["labels"]
    assert "under" not in fired["labels"]
    assert any('job="under"' in one["series"] for one in case["input_series"]) or (
        alert == "ReasoningReplayAbsent"
    )
    if "for" in ALERTS[alert]:
        assert [check["exp_samples"] for check in checks[:-1]] == [[]]


@pytest.mark.parametrize("name", ["nobody asks", "all is as it should be"])
def test_every_alert_is_silent(name: str) -> None:
    """Not even pending, at any time that is looked at."""
    for check in CASES[name]["promql_expr_test"]:
        assert (check["expr"], check["exp_samples"]) == (SILENT, [])


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_is_wrong_and_where_and_the_way_out(alert: str) -> None:
    """To somebody who was woken by it."""
    rule = ALERTS[alert]
    said = rule["annotations"]

    assert alert.startswith("ReasoningReplay")
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert said["summary"].endswith(".")
    assert len(said["description"]) > len(said["summary"])
    if alert != "ReasoningReplayAbsent":  # which has no series to take a label from
        assert re.search(r"\{\{ \$labels\.(job|instance) \}\}", said["description"])
    page, _, anchor = said["runbook"].partition("#")
    headings = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("#")]
    assert anchor in {slug(heading) for heading in headings}


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_names_what_there_is(alert: str) -> None:
    """Settings, words of the metrics, lines of the log and panels that it points at exist."""
    told = ALERTS[alert]["annotations"]["description"]

    words = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", told)) - set(Settings.model_fields)
    assert {word for word in words if f'"{word}"' not in SOURCE} == set()
    titles = {panel["title"] for panel in PANELS}
    assert {title for title in re.findall(r'panel "([^"]+)"', told) if title not in titles} == set()


def slug(heading: str) -> str:
    """Return the anchor that a heading of a page has."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")
