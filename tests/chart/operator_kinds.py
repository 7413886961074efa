"""
Schemas of the Prometheus operator's resources, after its definitions (v0.93).

They cover only the fields that the chart uses: the whole schemas are hundreds of kilobytes, and
no package has them. For a new field, look up its definition and add it here.
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
    "minProperties": 1,  # an empty selector would select everything
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
    """Fail for a manifest that the operator would refuse, and for a field that is not listed."""
    jsonschema.Draft202012Validator(SPECS[manifest["kind"]]).validate(manifest["spec"])
