"""The gateway's manifests, and that the proxy accepts the settings in them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from reasoning_replay import __version__
from reasoning_replay.settings.loader import SECRET_NAMES, env_of, load
from reasoning_replay.settings.model import Settings

from tests.chart.rendering import CHART, CI, Helm, env_of_container

REDIS = {"config": {"store_url": "redis://redis:6379/0"}}
SQLITE = {"config": {"store_url": "sqlite:///var/lib/replay/replay.db"}}
PLATFORM = CI["platform"]
GATEWAY_LABELS = {
    "app.kubernetes.io/name": "reasoning-replay",
    "app.kubernetes.io/instance": "r",
    "app.kubernetes.io/component": "gateway",
}
# Valid values for keys of the Secret.
HELD = {
    "REPLAY_STORE_URL": "redis://:secret@redis:6379/0",
    "REPLAY_ENCRYPTION_KEYS": "a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
}


@pytest.fixture
def a_file(tmp_path: Path) -> Path:
    """A readable file for settings that name one."""
    path = tmp_path / "file"
    path.write_text("x")
    return path


@pytest.mark.parametrize("name", sorted(set(CI) - {"sidecar-library"}))
def test_the_proxy_takes_what_the_chart_sets(helm: Helm, name: str, a_file: Path) -> None:
    """Every variable is a setting, with a value that the proxy accepts."""
    env = env_of_container(helm.pod(CI[name])["containers"][0], secret="secret")
    env |= {key: HELD[key] for key in env if env[key] == "secret" and key in HELD}
    env = {key: re.sub(r"/etc/[\w/.]+", str(a_file), value) for key, value in env.items()}
    settings = load({}, env, None)

    ports = {
        each["name"]: each["containerPort"] for each in helm.pod(CI[name])["containers"][0]["ports"]
    }
    assert settings.listen == f"0.0.0.0:{ports['http']}"
    assert settings.admin_listen == f"0.0.0.0:{ports['admin']}"
    assert settings.require_store is not settings.store_url.startswith("memory:")


def test_a_store_that_is_named_is_required(helm: Helm) -> None:
    """Unless the values say otherwise: then a pod starts while the store is down."""
    config = REDIS["config"] | {"require_store": False}
    env = env_of_container(helm.pod({"config": config})["containers"][0])
    assert load({}, env, None).require_store is False


def test_every_setting_reaches_the_proxy(helm: Helm) -> None:
    """Each setting in `config` reaches the proxy unchanged: words, integers and fractions."""
    config = {
        name: field.default
        for name, field in Settings.model_fields.items()
        if name not in SECRET_NAMES
    } | {"store_url": "memory://", "read_timeout_s": 0.25, "heal": False, "mode": True}
    config |= {"listen": "0.0.0.0:8080", "admin_listen": "[::]:9090", "body_max_bytes": 2**40}
    env = env_of_container(helm.pod({"config": config})["containers"][0])

    assert set(env) == {env_of(name) for name in config}
    assert load({}, env, None) == Settings(
        read_timeout_s=0.25,
        heal="off",
        listen="0.0.0.0:8080",
        admin_listen="[::]:9090",
        body_max_bytes=2**40,
    )


def test_every_secret_comes_from_the_secret(helm: Helm) -> None:
    """Each secret comes from its key of the Secret, never as a value."""
    keys = {name: name.replace("_", "-") for name in SECRET_NAMES}
    (container,) = helm.pod({"secrets": {"existingSecret": "made", "keys": keys}})["containers"]
    got = {each["name"]: each["valueFrom"] for each in container["env"] if "valueFrom" in each}

    assert got == {
        env_of(name): {"secretKeyRef": {"name": "made", "key": key}} for name, key in keys.items()
    }


# (values, kind, path in the manifest, its value)
SAID: list[Any] = [
    pytest.param({}, "Deployment", "spec.replicas", 1, id="one-replica"),
    pytest.param({**REDIS, "autoscaling": {"enabled": True}}, "Deployment", "spec.replicas", None, id="replicas-are-the-autoscalers"),  # noqa: E501
    pytest.param({"replicaCount": None}, "Deployment", "spec.replicas", None, id="replicas-of-another-autoscaler"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.strategy.rollingUpdate", {"maxSurge": 1, "maxUnavailable": 0}, id="one-more-first"),  # noqa: E501
    pytest.param(CI["sqlite"], "Deployment", "spec.strategy", {"type": "Recreate"}, id="sqlite-old-first"),  # noqa: E501
    pytest.param({"strategy": {"type": "Recreate"}}, "Deployment", "spec.strategy", {"type": "Recreate"}, id="own-strategy"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.terminationGracePeriodSeconds", 660, id="grace"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.lifecycle", None, id="no-pre-stop"),  # noqa: E501
    pytest.param(CI["sqlite"], "Deployment", "spec.template.spec.containers.0.lifecycle.preStop.exec.command", ["python", "-c", "import time; time.sleep(10)"], id="pre-stop"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.startupProbe.httpGet", {"path": "/readyz", "port": "admin"}, id="startup"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.readinessProbe.httpGet", {"path": "/readyz", "port": "admin"}, id="readiness"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.livenessProbe.httpGet", {"path": "/livez", "port": "admin"}, id="liveness"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.image", f"reasoning-replay:{__version__}", id="image"),  # noqa: E501
    pytest.param({"image": {"repository": "r", "tag": "2"}}, "Deployment", "spec.template.spec.containers.0.image", "r:2", id="tag"),  # noqa: E501
    pytest.param({"image": {"repository": "r", "tag": "2", "digest": "sha256:" + "0" * 64}}, "Deployment", "spec.template.spec.containers.0.image", "r@sha256:" + "0" * 64, id="digest"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.resources.limits", {"memory": "1Gi"}, id="no-limit-of-cpu"),  # noqa: E501
    pytest.param({"serviceAccount": {"create": False}}, "Deployment", "spec.template.spec.serviceAccountName", "default", id="no-account"),  # noqa: E501
    pytest.param(CI["sqlite"], "Deployment", "spec.template.spec.volumes.1", {"name": "store", "persistentVolumeClaim": {"claimName": "r-reasoning-replay"}}, id="volume"),  # noqa: E501
    pytest.param(CI["sqlite"], "PersistentVolumeClaim", "spec.resources.requests.storage", "5Gi", id="claim"),  # noqa: E501
    pytest.param({}, "Service", "spec.ports", [{"name": "http", "port": 8080, "targetPort": "http"}], id="clients-port-alone"),  # noqa: E501
    pytest.param({**REDIS, "autoscaling": {"enabled": True}}, "HorizontalPodAutoscaler", "spec.metrics.0.resource.target.averageUtilization", 70, id="by-cpu"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "HorizontalPodAutoscaler", "spec.metrics.1.pods", {"metric": {"name": "reasoning_replay_in_flight"}, "target": {"type": "AverageValue", "averageValue": "200"}}, id="by-exchanges"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "HorizontalPodAutoscaler", "spec.behavior.scaleDown.stabilizationWindowSeconds", 600, id="slow-to-shrink"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "PodDisruptionBudget", "spec", {"minAvailable": "60%", "selector": {"matchLabels": GATEWAY_LABELS}}, id="budget"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "NetworkPolicy", "spec.ingress.0.from", [{"namespaceSelector": {"matchLabels": {"uses": "reasoning-replay"}}}], id="clients"),  # noqa: E501
    pytest.param({"networkPolicy": {"enabled": True, "clients": []}}, "NetworkPolicy", "spec.ingress.0.from", None, id="any-client"),  # noqa: E501
    pytest.param(CI["sentinel-tls"], "NetworkPolicy", "spec.egress.2.ports", [{"port": 6379, "protocol": "TCP"}, {"port": 26379, "protocol": "TCP"}], id="way-to-the-store"),  # noqa: E501
    pytest.param({"networkPolicy": {"enabled": True}}, "NetworkPolicy", "spec.egress.2", None, id="no-store-no-way"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "Ingress", "spec.rules.0.http.paths.0.backend.service", {"name": "r-reasoning-replay", "port": {"name": "http"}}, id="ingress"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "ServiceMonitor", "metadata.labels.release", "prometheus", id="label-of-the-operator"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.containers.0.image", f"registry.example.com:5000/mirror/ai/reasoning-replay:{__version__}", id="registry"),  # noqa: E501
    pytest.param({"global": {"imageRegistry": "mirror.example"}, "image": {"registry": "a.example"}}, "Deployment", "spec.template.spec.containers.0.image", f"mirror.example/reasoning-replay:{__version__}", id="registry-of-the-parent"),  # noqa: E501
    pytest.param({"global": {"imagePullSecrets": ["a", {"name": "b"}]}, "imagePullSecrets": [{"name": "b"}, {"name": "c"}]}, "Deployment", "spec.template.spec.imagePullSecrets", [{"name": "a"}, {"name": "b"}, {"name": "c"}], id="secrets-of-the-parent"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.imagePullSecrets", None, id="no-secrets-of-a-registry"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.containers.0.envFrom", [{"configMapRef": {"name": "proxy-environment", "optional": True}}, {"prefix": "OTEL_", "secretRef": {"name": "collector"}}], id="env-from"),  # noqa: E501
    pytest.param({}, "Deployment", "spec.template.spec.containers.0.envFrom", None, id="no-env-from"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.containers.0.name", "reasoning-replay", id="the-proxy-comes-first"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.containers.1.name", "tunnel", id="container-beside"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.initContainers.0.name", "wait", id="container-before"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.hostAliases", [{"ip": "10.0.0.7", "hostnames": ["llm.internal"]}], id="hosts"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.dnsPolicy", "None", id="dns-policy"),
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.dnsConfig.nameservers", ["10.0.0.53"], id="dns"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.spec.runtimeClassName", "gvisor", id="runtime"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.revisionHistoryLimit", 0, id="no-history"),
    pytest.param({"revisionHistoryLimit": None}, "Deployment", "spec.revisionHistoryLimit", None, id="history-of-kubernetes"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "metadata.annotations", {"example.com/owner": "ai", "example.com/backup": "no"}, id="annotations"),  # noqa: E501
    pytest.param({"commonAnnotations": {"a": "all"}, "deploymentAnnotations": {"a": "own"}}, "Deployment", "metadata.annotations", {"a": "own"}, id="own-annotation-wins"),  # noqa: E501
    pytest.param(PLATFORM, "Deployment", "spec.template.metadata.annotations", None, id="pods-have-their-own-annotations"),  # noqa: E501
    pytest.param(CI["gateway-redis"], "Ingress", "spec.rules.0.http.paths.0.path", "/", id="every-path"),  # noqa: E501
    pytest.param(PLATFORM, "Ingress", "spec.rules.0.http.paths.0.path", "/v1", id="a-path"),
    pytest.param(PLATFORM, "Ingress", "spec.rules.0.http.paths.1.pathType", "Exact", id="path-type"),  # noqa: E501
    pytest.param(PLATFORM, "HTTPRoute", "spec.parentRefs.0.name", "public", id="gateway-api"),
    pytest.param(PLATFORM, "HTTPRoute", "spec.rules", [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "timeouts": {"request": "0s"}, "backendRefs": [{"name": "r-reasoning-replay", "port": 8080}]}], id="route-without-timeout"),  # noqa: E501
    pytest.param({"httpRoute": {"enabled": True, "parentRefs": [{"name": "a"}], "rules": [{"backendRefs": [{"name": "b", "port": 1}]}]}}, "HTTPRoute", "spec.rules", [{"backendRefs": [{"name": "b", "port": 1}]}], id="route-of-ones-own"),  # noqa: E501
    pytest.param(CI["sentinel-tls"], "Service", "spec.ports.0.nodePort", 30443, id="node-port"),
    pytest.param({}, "Service", "spec.ports.0.nodePort", None, id="no-node-port"),
    pytest.param(CI["sentinel-tls"], "Service", "spec.loadBalancerIP", "192.0.2.7", id="address"),
    pytest.param(CI["sentinel-tls"], "Service", "spec.loadBalancerSourceRanges", ["192.0.2.0/24"], id="source-ranges"),  # noqa: E501
    pytest.param(CI["sqlite"], "PodDisruptionBudget", "spec.maxUnavailable", 1, id="default-budget"),  # noqa: E501
    pytest.param(CI["sqlite"], "PersistentVolumeClaim", "spec.accessModes", ["ReadWriteOncePod"], id="access-modes"),  # noqa: E501
    pytest.param(CI["sqlite"], "PersistentVolumeClaim", "metadata.annotations", {"helm.sh/resource-policy": "keep", "example.com/backup": "daily"}, id="uninstall-keeps-the-claim"),  # noqa: E501
    pytest.param({**SQLITE, "persistence": {"enabled": True, "resourcePolicy": ""}}, "PersistentVolumeClaim", "metadata.annotations", None, id="uninstall-deletes-the-claim"),  # noqa: E501
    pytest.param({"metrics": {"serviceMonitor": {"enabled": True}}}, "ServiceMonitor", "spec.endpoints", [{"port": "admin", "path": "/metrics", "interval": "30s"}], id="monitor"),  # noqa: E501
    pytest.param({"metrics": {"serviceMonitor": {"enabled": True}}}, "ServiceMonitor", "spec.namespaceSelector", None, id="monitor-in-its-namespace"),  # noqa: E501
    *(
        param
        for kind, endpoints in (("ServiceMonitor", "endpoints"), ("PodMonitor", "podMetricsEndpoints"))  # noqa: E501
        for param in (
            pytest.param(PLATFORM, kind, "metadata.namespace", "monitoring", id=f"{kind}-elsewhere"),  # noqa: E501
            pytest.param(PLATFORM, kind, "spec.namespaceSelector", {"matchNames": ["ns"]}, id=f"{kind}-finds-the-release"),  # noqa: E501
            pytest.param(PLATFORM, kind, f"spec.{endpoints}.0.scrapeTimeout", "10s", id=f"{kind}-timeout"),  # noqa: E501
            pytest.param(PLATFORM, kind, f"spec.{endpoints}.0.relabelings.0.targetLabel", "node", id=f"{kind}-relabelings"),  # noqa: E501
            pytest.param(PLATFORM, kind, f"spec.{endpoints}.0.metricRelabelings.0.action", "drop", id=f"{kind}-metric-relabelings"),  # noqa: E501
        )
    ),
    pytest.param(CI["sidecar-library"], "PodMonitor", "spec.namespaceSelector", {"any": True}, id="sidecars-anywhere"),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind", "where", "what"), SAID)
def test_a_manifest_says(helm: Helm, values: Any, kind: str, where: str, what: object) -> None:
    """Each row is one promise of a manifest; None means that the field is absent."""
    found: Any = helm.one(values, kind)
    for step in where.split("."):
        if isinstance(found, list):
            found = dict(enumerate(found)).get(int(step))
        else:
            found = (found or {}).get(step)

    assert found == what


def test_every_object_has_the_common_annotations(helm: Helm) -> None:
    """The object's own annotations stay, those of Helm's hook included."""
    values = yaml.safe_load(CI["gateway-redis"].read_text()) | {"commonAnnotations": {"a": "b"}}
    made = {
        (each["kind"], each["metadata"]["name"]): each["metadata"]["annotations"]
        for each in helm.manifests(values)
    }

    assert [key for key, said in made.items() if said.get("a") != "b"] == []
    assert made["Pod", "r-reasoning-replay-test"]["helm.sh/hook"] == "test"
    assert "nginx.ingress.kubernetes.io/proxy-buffering" in made["Ingress", "r-reasoning-replay"]


@pytest.mark.parametrize("name", sorted(set(CI) - {"sidecar-library"}))
def test_what_selects_pods_selects_those_that_serve(helm: Helm, name: str) -> None:
    """All selectors match the gateway's pods, and none matches the test pod."""
    pods = helm.one(CI[name], "Deployment")["spec"]["template"]["metadata"]["labels"]
    test = helm.one(CI[name], "Pod", "r-reasoning-replay-test")["metadata"]["labels"]
    services = [each for each in helm.manifests(CI[name]) if each["kind"] == "Service"]
    selectors = [each["spec"]["selector"] for each in services]
    for manifest in helm.manifests(CI[name]):
        spec = manifest.get("spec", {})
        if manifest["kind"] in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
            selectors.append(spec["selector"]["matchLabels"])
        elif manifest["kind"] == "NetworkPolicy":
            selectors.append(spec["podSelector"]["matchLabels"])

    for selector in selectors:
        assert selector.items() <= pods.items()
        assert not selector.items() <= test.items()


def test_the_monitor_finds_the_admin_service_alone(helm: Helm) -> None:
    """The monitor selects only the admin Service, so no pod is scraped twice."""
    selector = helm.one(CI["gateway-redis"], "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    services = [each for each in helm.manifests(CI["gateway-redis"]) if each["kind"] == "Service"]
    (found,) = [each for each in services if selector.items() <= each["metadata"]["labels"].items()]

    assert [port["name"] for port in found["spec"]["ports"]] == ["admin"]


def test_no_type_of_service_opens_the_admin_port(helm: Helm) -> None:
    """No Service type exposes the admin port, since health and metrics have no password."""
    clients = helm.one(CI["sentinel-tls"], "Service")["spec"]
    admin = helm.one(CI["sentinel-tls"], "Service", "r-reasoning-replay-admin")["spec"]

    assert clients["type"] == "LoadBalancer"
    assert [port["name"] for port in clients["ports"]] == ["http"]
    assert admin["clusterIP"] == "None"
    assert "type" not in admin


def test_the_test_may_pass_the_policy(helm: Helm) -> None:
    """The policy allows `helm test` to reach both ports."""
    labels = helm.one(CI["gateway-redis"], "Pod", "r-reasoning-replay-test")["metadata"]["labels"]
    rules = helm.one(CI["gateway-redis"], "NetworkPolicy")["spec"]["ingress"]
    let_in = {
        rule["ports"][0]["port"]
        for rule in rules
        for peer in rule["from"]
        if "podSelector" in peer and peer["podSelector"]["matchLabels"].items() <= labels.items()
    }

    assert let_in == {"http", "admin"}


def test_a_changed_setting_rolls_the_pods(helm: Helm) -> None:
    """A changed setting changes the pod template, so no checksum annotation is needed."""
    assert helm.pod({"config": {"ttl_s": 1}}) != helm.pod({"config": {"ttl_s": 2}})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({}, ["OPENAI_BASE_URL=http://r-reasoning-replay.ns:8080/v1", "memory://"], id="memory"),  # noqa: E501
        pytest.param({"fullnameOverride": "replay", "service": {"port": 80}}, ["=http://replay.ns:80/v1"], id="names"),  # noqa: E501
        pytest.param(CI["sentinel-tls"], ["=https://r-reasoning-replay.ns:443/v1"], id="tls"),
        pytest.param(REDIS, ["scope_secret is not set"], id="no-scope-secret"),
        pytest.param(CI["shadow"], ["mode is shadow"], id="shadow"),
        pytest.param(CI["gateway-redis"], ["OPENAI_BASE_URL=https://replay.example.com/v1"], id="from-outside"),  # noqa: E501
        pytest.param({"ingress": {"enabled": True, "hosts": [{"host": "a.b"}]}, "networkPolicy": {"enabled": True}}, ["=http://a.b/v1", "networkPolicy.clients"], id="shut-out"),  # noqa: E501
        pytest.param({"resources": {"requests": {"memory": "128Mi"}}}, ["resources.requests.memory 128Mi is less than 408 MiB"], id="evicted-first"),  # noqa: E501
        pytest.param(PLATFORM, ["=https://replay.example.com/v1   (http, if the Gateway"], id="gateway-api"),  # noqa: E501
        pytest.param({"httpRoute": {"enabled": True, "parentRefs": [{"name": "a"}]}}, ["=https://<host name of the Gateway>/v1"], id="any-host"),  # noqa: E501
        pytest.param({"resources": {"limits": {"memory": "512Mi"}}}, ["512Mi is less than 1024 MiB"], id="burst"),  # noqa: E501
        pytest.param(CI["sidecar-library"], ["No gateway is installed", "this release has a PodMonitor"], id="library"),  # noqa: E501
        pytest.param({"gateway": {"enabled": False}}, ["this release has no object at all"], id="nothing"),  # noqa: E501
    ],
)  # fmt: skip
def test_the_notes_say_what_to_do(helm: Helm, values: Any, words: list[str]) -> None:
    """The notes have the line that apps set, and warnings about the values."""
    notes = helm.notes(values)

    assert [word for word in words if word not in notes] == []


def test_the_requested_memory_fits_what_is_kept(helm: Helm) -> None:
    """A pod with a full store and cache takes no more than it requested."""
    settings = Settings()
    requested = helm.pod({})["containers"][0]["resources"]["requests"]["memory"]

    kept_bytes = settings.store_max_bytes + settings.local_max_bytes
    assert int(requested.removesuffix("Mi")) == 64 + kept_bytes / 2**20
    assert "resources.requests.memory" not in helm.notes({})


def test_the_library_alone_makes_nothing_that_runs(helm: Helm) -> None:
    """Monitoring of sidecars can be installed without a gateway."""
    kinds = [each["kind"] for each in helm.manifests(CI["sidecar-library"])]

    assert sorted(kinds) == ["ConfigMap", "PodMonitor", "PrometheusRule"]


def test_the_guides_example_installs(helm: Helm) -> None:
    """The guide's example renders, and its first command creates the Secret that it needs."""
    page = CHART.parent / "docs/kubernetes.md"
    section = page.read_text().partition("\n## Gateway\n")[2]
    command, example = (
        part.partition("```")[0] for part in re.split("```(?:console|yaml)\n", section)[1:3]
    )
    values = yaml.safe_load(example)

    assert helm.one(values, "HorizontalPodAutoscaler")
    assert f"secret generic {values['secrets']['existingSecret']} " in command
    for key in values["secrets"]["keys"].values():
        assert f"--from-literal={key}=" in command
