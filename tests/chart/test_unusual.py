"""Unusual values that real teams write are valid for YAML and for Kubernetes."""

import re
from typing import Any

import kubernetes_validate
import pytest

from tests.chart.rendering import CI, NEWEST, Helm, env_of_container

LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # for a Service, the strictest rule
SHARED = {"team": "ai", "release": "prometheus", "grafana_dashboard": "1"}
MONITORS = {
    kind: {"enabled": True, "labels": {"release": "other"}}
    for kind in ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
}

UNUSUAL: list[Any] = [
    pytest.param({"commonLabels": SHARED, "podLabels": {"team": "me"}, "metrics": MONITORS}, id="labels-said-twice"),  # noqa: E501
    pytest.param({"commonLabels": {"app.kubernetes.io/name": "x", "app.kubernetes.io/component": "else", "app.kubernetes.io/version": "z"}}, id="labels-of-ours"),  # noqa: E501
    pytest.param({"podLabels": {"app.kubernetes.io/component": "else"}}, id="label-that-selects"),
    pytest.param({"image": {"tag": "a" * 128}}, id="long-tag"),
    pytest.param({"image": {"tag": "main_"}}, id="tag-that-is-no-label"),
    pytest.param({"secrets": {"existingSecret": "yes", "keys": {"store_url": "on", "scope_secret": "123"}}}, id="secrets-that-yaml-misreads"),  # noqa: E501
    pytest.param({"serviceAccount": {"name": "123"}, "priorityClassName": "on", "nameOverride": "123"}, id="names-that-yaml-misreads"),  # noqa: E501
    pytest.param({"config": {"store_url": "sqlite:///a: b/x.db"}, "persistence": {"enabled": True, "existingClaim": "123", "mountPath": "/a: b", "size": "5"}}, id="a-path-with-a-colon"),  # noqa: E501
    pytest.param({"securityContext": {"runAsUser": 1000660000}, "podSecurityContext": {"fsGroup": 1000660000}}, id="large-ids"),  # noqa: E501
    pytest.param({"terminationGracePeriodSeconds": 2_000_000, "preStopSeconds": 1_000_000}, id="large-times"),  # noqa: E501
    pytest.param({"resources": None, "podSecurityContext": None, "imagePullSecrets": None, "extraEnv": None}, id="nothing-said"),  # noqa: E501
    pytest.param({"fullnameOverride": "x" * 80}, id="long-name"),
]  # fmt: skip


def assert_taken(manifests: list[dict[str, Any]]) -> None:
    """Fail if Kubernetes would refuse a manifest, its name or its labels."""
    for manifest in manifests:
        said = manifest["metadata"]
        labels = [said["labels"]]
        if manifest["kind"] == "Deployment":
            labels.append(manifest["spec"]["template"]["metadata"]["labels"])
        assert manifest["kind"] != "Service" or NAME.fullmatch(said["name"]), said["name"]
        assert [one for each in labels for one in each.values() if not LABEL.fullmatch(one)] == []
        if "monitoring" not in manifest["apiVersion"]:
            assert kubernetes_validate.validate(manifest, NEWEST, strict=True) == NEWEST


@pytest.mark.parametrize("values", UNUSUAL)
def test_kubernetes_takes_what_becomes_of_unusual_values(helm: Helm, values: Any) -> None:
    """No key is duplicated, text stays text, and a Service finds its pods."""
    made = helm.manifests(values)

    assert_taken(made)
    (pods,) = (each["spec"]["template"] for each in made if each["kind"] == "Deployment")
    for service in (each["spec"] for each in made if each["kind"] == "Service"):
        assert service["selector"].items() <= pods["metadata"]["labels"].items()


@pytest.mark.parametrize("release", ["a" * 53, "my.app", "x-" * 26 + "x", "reasoning-replay-eu"])
def test_every_release_has_names_that_kubernetes_takes(helm: Helm, release: str) -> None:
    """Release names may have dots and 53 characters; the names made from them are valid."""
    done = helm.template(CI["gateway-redis"], release=release)
    assert done.returncode == 0, done.stderr

    assert_taken(helm.read(done.stdout))


def test_what_a_monitor_is_told_wins_over_the_labels_of_all(helm: Helm) -> None:
    """A monitor's own labels override the common ones: the operator's selector needs them."""
    labels = {
        each["kind"]: each["metadata"]["labels"]
        for each in helm.manifests({"commonLabels": SHARED, "metrics": MONITORS})
    }

    assert labels["ServiceMonitor"]["release"] == labels["PodMonitor"]["release"] == "other"
    assert labels["Deployment"] == labels["Deployment"] | SHARED


@pytest.mark.parametrize(
    ("config", "upstream", "store"),
    [
        ({"upstream_url": "http://vllm:8000/v1"}, {443, 8000}, set()),
        ({"upstream_url": "http://gateway/v1"}, {443, 80}, set()),
        ({"upstream_proxy": "http://proxy:3128"}, {443, 3128}, set()),
        ({"store_url": "rediss://[fd00::1]:6380/0?ssl_ca_certs=/a:1"}, {443}, {6379, 6380}),
        ({"store_url": "redis+cluster://a:7000,b:7001"}, {443}, {6379, 7000, 7001}),
        ({"store_url": "redis+sentinel://a,b:26380/m"}, {443}, {6379, 26380}),
    ],
)
def test_the_policy_lets_out_to_what_the_addresses_name(
    helm: Helm, config: dict[str, str], upstream: set[int], store: set[int]
) -> None:
    """The policy allows the ports of upstream, proxy and store addresses."""
    policy = helm.one({"config": config, "networkPolicy": {"enabled": True}}, "NetworkPolicy")
    names, *out = [{one["port"] for one in rule["ports"]} for rule in policy["spec"]["egress"]]

    assert names == {53}
    assert out == [ports for ports in (upstream, store) if ports]


def test_two_sidecars_stand_in_one_pod(consumer: Helm) -> None:
    """Two sidecars have their own names and ports; null restores the proxy's default."""
    second = {
        "name": "azure",
        "config": {
            "listen": "127.0.0.1:8081",
            "admin_listen": "0.0.0.0:9091",
            "store_max_bytes": None,
        },
    }
    (deployment,) = consumer.manifests({"replay": {"sidecar": second}})
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]

    assert container["name"] == "azure"
    assert container["ports"] == [{"name": "admin", "containerPort": 9091}]
    assert "REPLAY_STORE_MAX_BYTES" not in env_of_container(container)
