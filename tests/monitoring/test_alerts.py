"""The alerts fire and stay silent as their tests expect; each describes what to do."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from reasoning_replay.settings.model import Settings

from tests.monitoring.files import ALERTS, PANELS, ROOT, RULES_PATH
from tests.programs import require

Json = dict[str, Any]

# All values are text: `0x90` is ninety samples, not a hexadecimal number.
_TOLD: Json = yaml.load(Path(__file__).with_name("alert_cases.yaml").read_text(), yaml.BaseLoader)  # noqa: S506
CASES: dict[str, Json] = _TOLD["alerts"]
_SILENT_AT = ("2m", "20m", "90m")


def unit_tests() -> Json:
    """Return the unit tests of all rules."""
    quiet = [
        _test(name, {name: {series: values[at] for series, values in _TOLD["silent"].items()}})
        for at, name in enumerate(("idle", "normal"))
    ]
    for test in quiet:
        test["promql_expr_test"] = [
            _check('ALERTS{alertstate=~"pending|firing"}', at) for at in _SILENT_AT
        ]
    return {
        "rule_files": [str(RULES_PATH)],
        "evaluation_interval": "2m",
        "tests": [*quiet, *(_of_alert(name, case) for name, case in CASES.items())],
    }


def _of_alert(name: str, case: Json) -> Json:
    test = _test(name, case["series"], case.get("interval", "1m"))
    firing = f'alertname="{name}", alertstate="firing"'
    where = case.get("where", 'namespace="apps", job="over"')
    severity = ALERTS[name]["labels"]["severity"]
    fired = {"labels": f'ALERTS{{{firing}, severity="{severity}", {where}}}', "value": 1}
    test["promql_expr_test"] = [
        *(_check(f"ALERTS{{{firing}}}", at) for at in [case.get("silent_at")] if at),
        _check(f"ALERTS{{{firing}}}", case["fires_at"], fired),
    ]
    return test


def _test(name: str, series: Json, interval: str = "1m") -> Json:
    samples = [
        {"series": _whole(job, one), "values": values}
        for job, its in series.items()
        for one, values in its.items()
    ]
    return {"name": name, "interval": interval, "input_series": samples}


def _check(expr: str, at: str, *samples: Json) -> Json:
    return {"expr": expr, "eval_time": at, "exp_samples": list(samples)}


def _whole(job: str, series: str) -> str:
    """Return a series with the labels that follow from its job; none if it is below no job."""
    if not job:
        return series
    name, _, labels = series.rstrip("}").partition("{")
    place = f'namespace="apps", job="{job}"'
    if "instance=" not in labels:
        place += f', instance="{job}:9090", pod="{job}-0"'
    return f"{name}{{{place}, {labels}}}"


SOURCE = "".join(path.read_text() for path in (ROOT / "proxy" / "reasoning_replay").rglob("*.py"))


def promtool(*words: str) -> None:
    """Run Prometheus' own tool, which must succeed."""
    ran = subprocess.run(  # noqa: S603 (a program of the tests' own)
        [require("prometheus", "promtool"), *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_rules_are_well_formed() -> None:
    """Prometheus accepts the rules."""
    promtool("check", "rules", str(RULES_PATH))


def test_they_fire_and_are_silent_as_their_cases_say(tmp_path: Path) -> None:
    """The rules pass their tests over hours of artificial samples, one per minute."""
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump(unit_tests(), sort_keys=False))
    promtool("test", "rules", str(tests))


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_case_below_its_limit_and_before_its_time(alert: str) -> None:
    """Its case has a job just below the limit, and a time at which it does not fire yet."""
    case = CASES[alert]
    assert "under" in case["series"] or alert == "ReasoningReplayAbsent"
    assert "silent_at" in case or "for" not in ALERTS[alert]


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_is_wrong_and_where_and_the_way_out(alert: str) -> None:
    """Each alert has a summary, and a description with the place; tests/docs has its runbook."""
    rule = ALERTS[alert]
    said = rule["annotations"]

    assert alert.startswith("ReasoningReplay")
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert said["summary"].endswith(".")
    assert len(said["description"]) > len(said["summary"])
    if alert != "ReasoningReplayAbsent":  # it has no series, so no labels
        assert re.search(r"\{\{ \$labels\.(job|instance) \}\}", said["description"])


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_names_what_there_is(alert: str) -> None:
    """Every setting, metric word, log event and panel in an alert's description exists."""
    told = ALERTS[alert]["annotations"]["description"]

    words = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", told)) - set(Settings.model_fields)
    assert {word for word in words if f'"{word}"' not in SOURCE} == set()
    titles = {panel["title"] for panel in PANELS}
    assert {title for title in re.findall(r'panel "([^"]+)"', told) if title not in titles} == set()
