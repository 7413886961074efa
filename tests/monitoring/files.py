"""The dashboard and the alert rules, parsed for tests."""

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RULES_PATH = ROOT / "helm/files/alerts.yaml"

Json = dict[str, Any]

DASHBOARD: Json = json.loads((ROOT / "helm/files/dashboard.json").read_text())
# All panels, in the order of the dashboard; a row that is folded holds its own.
EVERY: list[Json] = [
    one for panel in DASHBOARD["panels"] for one in (panel, *panel.get("panels", []))
]
PANELS: list[Json] = [panel for panel in EVERY if panel["type"] != "row"]

_GROUPS: list[Json] = yaml.safe_load(RULES_PATH.read_text())["groups"]
RULES: list[Json] = [rule for group in _GROUPS for rule in group["rules"]]
ALERTS: dict[str, Json] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED: set[str] = {rule["record"] for rule in RULES if "record" in rule}

# Values for Grafana's variables; a test lasts a minute at most.
_FILLED = {
    "$__rate_interval": "1m",
    "$__range": "1m",
    "$namespace": ".*",
    "$job": ".*",
    "$pod": ".*",
    "$dialect": ".*",
    "$upstream": ".*",
}


def filled(expr: str) -> str:
    """Return an expression of the dashboard as Grafana sends it with all values selected."""
    for name, value in _FILLED.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def queries() -> dict[str, str]:
    """Return every expression of the dashboard as Grafana sends it, by panel and legend."""
    return {
        f"{panel['title']}: {target['legendFormat']}": filled(target["expr"])
        for panel in PANELS
        for target in panel["targets"]
    }
