"""
What the chart may use of the Prometheus operator's own kinds, after its definitions (v0.93).

Their whole schemas are hundreds of kilobytes, and no package has them; a member that the chart
begins to use is looked up there, and entered here.
"""

from typing import Any, Final

import jsonschema

__all__ = ["assert_valid"]

DURATION: Final = {"type": "string", "pattern": r"^[0-9]+(ms|[smhdwy])$"}
LABELS: Final = {"type": "object", "additionalProperties": {"type": "string"}}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


SELECTOR: Final = {
    **_object(
        matchLabels=LABELS,
        matchExpressions=_array(
            _object(
                "key",
                "operator",
                key={"type": "string"},
                operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                values=_array({"type": "string"}),
            )
        ),
    ),
    "minProperties": 1,  # an empty one selects everything there is
}
ENDPOINTS: Final = _array(
    _object(
        "port",
        port={"type": "string"},
        path={"type": "string", "pattern": "^/"},
        interval=DURATION,
        scrapeTimeout=DURATION,
    )
)
RULE: Final = _object(
    "expr",
    alert={"type": "string"},
    record={"type": "string"},
    expr={"type": "string"},
    labels=LABELS,
    annotations=LABELS,
    **{"for": DURATION, "keep_firing_for": DURATION},
)
SPECS: Final = {
    "ServiceMonitor": _object("selector", "endpoints", selector=SELECTOR, endpoints=ENDPOINTS),
    "PodMonitor": _object(
        "selector",
        "podMetricsEndpoints",
        selector=SELECTOR,
        namespaceSelector=_object(any={"type": "boolean"}, matchNames=_array({"type": "string"})),
        podMetricsEndpoints=ENDPOINTS,
    ),
    "PrometheusRule": _object(
        "groups",
        groups=_array(
            _object(
                "name",
                "rules",
                name={"type": "string"},
                interval=DURATION,
                rules=_array(RULE),
            )
        ),
    ),
}


def assert_valid(manifest: dict[str, Any]) -> None:
    """Refuse what the operator would, and members that are not entered here."""
    jsonschema.Draft202012Validator(SPECS[manifest["kind"]]).validate(manifest["spec"])
