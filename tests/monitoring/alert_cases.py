"""Alert cases: alert_cases.yaml, written out as unit tests for `promtool test rules`."""

from pathlib import Path
from typing import Any

import yaml

from tests.monitoring.files import ALERTS, RULES_PATH

Json = dict[str, Any]

# All values are text: `0x90` is ninety samples, not a hexadecimal number.
_TOLD: Json = yaml.load(Path(__file__).with_suffix(".yaml").read_text(), yaml.BaseLoader)  # noqa: S506
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
