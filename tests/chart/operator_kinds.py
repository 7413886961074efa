"""
Schemas of kinds that are not Kubernetes' own, after the definitions of their projects.

These are the Prometheus operator (v0.93) and the Gateway API (v1.2, standard channel). They cover
only the fields that the chart uses: the whole schemas are hundreds of kilobytes, and no package
has them. For a new field, look up its definition and add it here.
"""

from typing import Any, Final

import jsonschema

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
RELABELINGS: Final = _array(
    _object(
        sourceLabels=_array({"type": "string"}),
        targetLabel={"type": "string"},
        regex={"type": "string"},
        action={
            "enum": ["replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep"]
        },
    )
)
NAMESPACES: Final = _object(any={"type": "boolean"}, matchNames=_array({"type": "string"}))
ENDPOINTS: Final = _array(
    _object(
        "port",
        port={"type": "string"},
        path={"type": "string", "pattern": "^/"},
        interval=DURATION,
        scrapeTimeout=DURATION,
        relabelings=RELABELINGS,
        metricRelabelings=RELABELINGS,
    )
)
RULE: Final = _object(
    "expr",
    alert={"type": "string"},
    record={"type": "string"},
    expr={"type": "string"},
    labels=LABELS,
    annotations=LABELS,
    **{"for": DURATION},
)
GATEWAY_DURATION: Final = {"type": "string", "pattern": r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"}
MATCH: Final = _object(
    path=_object(
        type={"enum": ["Exact", "PathPrefix", "RegularExpression"]},
        value={"type": "string"},
    ),
)
ROUTE: Final = _object(
    "parentRefs",
    "rules",
    parentRefs=_array(
        _object(
            "name",
            namespace={"type": "string"},
            name={"type": "string"},
            sectionName={"type": "string"},
        )
    ),
    hostnames=_array({"type": "string", "pattern": r"^(\*\.)?[a-z0-9.-]+$"}),
    rules=_array(
        _object(
            "backendRefs",
            matches=_array(MATCH),
            backendRefs=_array(
                _object(
                    "name",
                    "port",
                    name={"type": "string"},
                    port={"type": "integer"},
                )
            ),
            timeouts=_object(request=GATEWAY_DURATION),
        )
    ),
)
SPECS: Final = {
    "HTTPRoute": ROUTE,
    "ServiceMonitor": _object(
        "selector",
        "endpoints",
        selector=SELECTOR,
        namespaceSelector=NAMESPACES,
        endpoints=ENDPOINTS,
    ),
    "PodMonitor": _object(
        "selector",
        "podMetricsEndpoints",
        selector=SELECTOR,
        namespaceSelector=NAMESPACES,
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
    """Fail for a manifest that its project would refuse, and for a field that is not listed."""
    jsonschema.Draft202012Validator(SPECS[manifest["kind"]]).validate(manifest["spec"])
