"""All manifests are valid for Kubernetes and for the Prometheus operator."""

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import pytest
import reasoning_replay
import yaml

from tests.chart.rendering import CHART, CI, NEWEST, OLDEST, SIDECARS, Helm

# Schemas of kinds that are not Kubernetes' own, after the definitions of their projects: the
# Prometheus operator (v0.93) and the Gateway API (v1.2, standard channel). They cover only the
# fields that the chart uses: the whole schemas are hundreds of kilobytes, and no package has them.
# For a new field, look up its definition and add it here.

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


def assert_is_of_its_project(manifest: dict[str, Any]) -> None:
    """Fail for a manifest that its project would refuse, and for a field that is not listed."""
    jsonschema.Draft202012Validator(SPECS[manifest["kind"]]).validate(manifest["spec"])


SNIPPETS = CHART.parent / "config" / "kubernetes"
OPERATORS = {"monitoring.coreos.com/v1", "gateway.networking.k8s.io/v1"}


def assert_valid(manifest: dict[str, Any], version: str) -> None:
    """Fail for an invalid manifest, and for a field that this version does not have."""
    assert kubernetes_validate.validate(manifest, version, strict=True) == version


@pytest.mark.parametrize("name", CI)
def test_helm_finds_no_fault(helm: Helm, name: str) -> None:
    """Helm's linter reports no error and no warning."""
    done = helm.lint(CI[name])

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", [OLDEST, SIDECARS, NEWEST])
@pytest.mark.parametrize("name", CI)
def test_every_manifest_is_of_its_schema(helm: Helm, name: str, version: str) -> None:
    """Every manifest is valid in all allowed versions, without a field that would be dropped."""
    for manifest in helm.manifests(CI[name]):
        if manifest["apiVersion"] not in OPERATORS:
            assert_valid(manifest, version)


@pytest.mark.parametrize("name", CI)
def test_names_and_labels_are_complete(helm: Helm, name: str) -> None:
    """Each object has the recommended labels and a unique name."""
    made = [each for each in helm.manifests(CI[name]) if each["metadata"]["name"] != "extra"]

    assert len({(each["kind"], each["metadata"]["name"]) for each in made}) == len(made)
    for manifest in made:
        assert {
            "app.kubernetes.io/name": "reasoning-replay",
            "app.kubernetes.io/instance": "r",
            "app.kubernetes.io/version": reasoning_replay.__version__,
            "app.kubernetes.io/managed-by": "Helm",
        }.items() <= manifest["metadata"]["labels"].items()


def test_the_operators_own_kinds_are_of_their_schema(helm: Helm) -> None:
    """Resources of the operator and of the Gateway API are valid, for the fields that are used."""
    made = [each for path in CI.values() for each in helm.manifests(path)]
    theirs = [each for each in made if each["apiVersion"] in OPERATORS]
    for manifest in theirs:
        assert_is_of_its_project(manifest)

    assert {each["kind"] for each in theirs} == set(SPECS)


@pytest.mark.parametrize(
    ("path", "oldest"),
    [(SNIPPETS / "sidecar.yaml", SIDECARS), (SNIPPETS / "sidecar-classic.yaml", OLDEST)],
    ids=lambda each: each.stem if isinstance(each, Path) else "",
)
def test_the_snippets_are_valid(path: Path, oldest: str) -> None:
    """The snippets for use without Helm are valid as they are."""
    snippet = yaml.safe_load(path.read_text())

    assert_valid(snippet, oldest)
    assert_valid(snippet, NEWEST)


def test_the_chart_is_of_this_version() -> None:
    """The chart installs the proxy of its own version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == reasoning_replay.__version__
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"


def test_alerts_and_dashboard_are_passed_on_as_they_are(helm: Helm) -> None:
    """Helm does not evaluate the braces in alerts and dashboard."""
    values = CI["gateway-redis"]
    rule = helm.one(values, "PrometheusRule")
    dashboard = helm.one(values, "ConfigMap", "r-reasoning-replay-dashboard")

    assert rule["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    (shown,) = dashboard["data"].values()
    assert json.loads(shown) == json.loads((CHART / "files" / "dashboard.json").read_text())
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_alerts_link_to_the_runbook_where_it_can_be_read(helm: Helm) -> None:
    """`runbookUrl` makes each path of the page a link, and changes nothing else."""
    page = "https://wiki.example/replay/alerts"
    values = {"metrics": {"prometheusRule": {"enabled": True, "runbookUrl": page}}}
    linked = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    for rule in (rule for group in linked["groups"] for rule in group["rules"] if "alert" in rule):
        section = rule["annotations"].pop("runbook").partition("#")[2]
        rule["annotations"]["runbook_url"] = f"{page}#{section}"

    assert helm.one(values, "PrometheusRule")["spec"] == linked
