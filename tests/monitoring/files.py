"""The dashboard and the rules, as tests look at them."""

import json
from pathlib import Path
from typing import Any

import yaml

__all__ = ["ALERTS", "DASHBOARD", "PANELS", "RECORDED", "RULES", "RULES_PATH", "filled", "queries"]

ROOT = Path(__file__).parents[2]
RULES_PATH = ROOT / "helm/files/alerts.yaml"

Json = dict[str, Any]

DASHBOARD: Json = json.loads((ROOT / "helm/files/dashboard.json").read_text())
# All panels, rows left out, in the order in which they stand.
PANELS: list[Json] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

_GROUPS: list[Json] = yaml.safe_load(RULES_PATH.read_text())["groups"]
RULES: list[Json] = [rule for group in _GROUPS for rule in group["rules"]]
ALERTS: dict[str, Json] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED: set[str] = {rule["record"] for rule in RULES if "record" in rule}

# What Grafana puts in place of its variables; a minute is all that a test lasts.
_FILLED = {
    "$__rate_interval": "1m",
    "$__range": "1m",
    "$namespace": ".*",
    "$job": ".*",
    "$pod": ".*",
}


def filled(expr: str) -> str:
    """Return an expression of the dashboard as Grafana asks it, with all that there is selected."""
    for name, value in _FILLED.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def queries() -> dict[str, str]:
    """Return every expression of the dashboard as Grafana asks it, by panel and legend."""
    return {
        f"{panel['title']}: {target['legendFormat']}": filled(target["expr"])
        for panel in PANELS
        for target in panel["targets"]
    }
