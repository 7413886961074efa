"""Contradictory values are refused before the installation, with a way out."""

from typing import Any

import pytest
from reasoning_replay.settings.loader import SECRET_NAMES

from tests.chart.rendering import Helm

REDIS = "redis://redis:6379/0"
SQLITE = "sqlite:///var/lib/replay/replay.db"
SECRET = {"existingSecret": "made", "keys": {"store_url": "url"}}

# (values, words of the message)
REFUSED = [
    pytest.param(
        {"replicaCount": 2}, ["2 replicas cannot share memory://", "use Redis"], id="memory"
    ),
    pytest.param(
        {"autoscaling": {"enabled": True}}, ["10 replicas cannot share memory://"], id="memory-hpa"
    ),
    pytest.param(
        {"replicaCount": 3, "config": {"store_url": SQLITE}, "persistence": {"enabled": True}},
        ["3 replicas cannot share sqlite://", "use Redis"],
        id="sqlite-replicas",
    ),
    pytest.param(
        {"config": {"store_url": SQLITE}},
        ["/var/lib/replay/replay.db is not on a volume", "set persistence.enabled"],
        id="sqlite-on-read-only-root",
    ),
    pytest.param(
        {"config": {"store_url": "sqlite:///data/x.db"}, "persistence": {"enabled": True}},
        ["/data/x.db is not on a volume", "persistence.mountPath /var/lib/replay"],
        id="sqlite-beside-the-volume",
    ),
    pytest.param(
        {"config": {"drain_s": 900}},
        ["terminationGracePeriodSeconds: 660", "preStopSeconds 0 plus drain_s 900", "at least 901"],
        id="drain-longer-than-grace",
    ),
    pytest.param({"preStopSeconds": 60}, ["660", "60", "600", "at least 661"], id="grace-not-more"),
    pytest.param(
        {"terminationGracePeriodSeconds": 30}, ["30 is not more"], id="kubernetes-default"
    ),
    pytest.param(
        {"resources": {"limits": {"memory": "256Mi"}}},
        ["resources.limits.memory: 256Mi is less than 352 MiB", "store_max_bytes"],
        id="limit-below-memory-store",
    ),
    pytest.param(
        {"resources": {"limits": {"memory": "1Gi"}}, "config": {"store_max_bytes": 2**30}},
        ["1Gi is less than 1120 MiB"],
        id="memory-store-above-limit",
    ),
    pytest.param(
        {"resources": {"limits": {"memory": "1Gi"}}, "config": {"store_max_bytes": "1GiB"}},
        ["1Gi is less than 1120 MiB"],
        id="memory-store-above-limit-with-units",
    ),
    pytest.param(
        {"config": {"drain_s": "0.25h"}},
        ["terminationGracePeriodSeconds: 660", "drain_s 0.25h", "at least 901"],
        id="drain-longer-than-grace-with-units",
    ),
    pytest.param({"config": {"ttl_s": "10 parsecs"}}, ["ttl_s", "pattern"], id="no-unit"),
    pytest.param(
        {"resources": {"limits": {"memory": "90M"}}, "secrets": SECRET},
        ["90M is less than 96 MiB", "recent_max_bytes"],
        id="limit-below-recent",
    ),
    pytest.param(
        {"resources": {"limits": {"memory": "1 GB"}}}, ['"1 GB"', "512Mi"], id="no-amount"
    ),
    pytest.param(
        {"config": {"store_url": "redis://me:secret@redis"}},
        ["config.store_url: has a password", "secrets.keys.store_url"],
        id="password-in-address",
    ),
    pytest.param(
        {"config": {"store_url": "redis+sentinel://a/m?sentinel_password=secret"}},
        ["config.store_url: has a password"],
        id="password-in-query",
    ),
    pytest.param(
        {"config": {"upstream_proxy": "http://me:secret@proxy:3128"}},
        ["config.upstream_proxy: has a password"],
        id="password-of-the-way-out",
    ),
    pytest.param(
        {"config": {"store_url": REDIS}, "secrets": SECRET},
        ["config.store_url, secrets.keys.store_url: both are set"],
        id="set-twice",
    ),
    pytest.param(
        {"secrets": {"keys": {"scope_secret": "x"}}}, ["set secrets.existingSecret"], id="no-secret"
    ),
    pytest.param(
        {"secrets": {"existingSecret": "made"}},
        ["secrets.existingSecret: no key of it is used", "secrets.keys"],
        id="no-key",
    ),
    pytest.param(
        {"persistence": {"enabled": True}},
        ["memory:// does not use a volume", "sqlite:///var/lib/replay/replay.db"],
        id="volume-for-nothing",
    ),
    pytest.param(
        {"config": {"listen": "0.0.0.0:9090"}},
        ["config.admin_listen: has the same port"],
        id="one-port",
    ),
    pytest.param(
        {"autoscaling": {"enabled": True, "minReplicas": 20}, "config": {"store_url": REDIS}},
        ["autoscaling.minReplicas: 20 is more than maxReplicas 10"],
        id="fewest-above-most",
    ),
    pytest.param(
        {
            "autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": 0},
            "config": {"store_url": REDIS},
        },
        ["autoscaling: no target"],
        id="no-measure",
    ),
    pytest.param(
        {
            "autoscaling": {"enabled": True},
            "config": {"store_url": REDIS},
            "resources": {"requests": {"cpu": None}},
        },
        ["is a share of resources.requests.cpu, which is not set"],
        id="share-of-nothing",
    ),
    pytest.param(
        {"config": {"listen": "127.0.0.1:8080"}},
        ["config.listen: 127.0.0.1:8080 is loopback", "use 0.0.0.0:8080"],
        id="clients-on-loopback",
    ),
    pytest.param(
        {"config": {"admin_listen": "[::1]:9090"}},
        ["config.admin_listen: [::1]:9090 is loopback", "probes outside the pod"],
        id="probes-on-loopback",
    ),
    *(
        pytest.param({"config": {"listen": address}}, [f'config.listen: "{address}"'], id=address)
        for address in (":8080", "10.0.0.1", "10.0.0.1:0", "::1:8080")
    ),
    pytest.param({"ingress": {"enabled": True}}, ["ingress.hosts: empty"], id="no-host"),
    pytest.param(
        {"gateway": {"enabled": False}, "metrics": {"podMonitor": {"enabled": True}}},
        ["metrics.podMonitor.selector: empty"],
        id="monitor-of-nothing",
    ),
    pytest.param(
        {"image": {"registry": "a.example", "repository": "b.example/replay"}},
        ["a.example and b.example/replay both name a registry"],
        id="two-registries",
    ),
    pytest.param({"dnsPolicy": "None"}, ["set dnsConfig.nameservers"], id="no-name-server"),
    pytest.param(
        {"httpRoute": {"enabled": True}}, ["httpRoute.parentRefs: empty"], id="route-of-no-gateway"
    ),
    pytest.param(
        {"service": {"nodePort": 30080}},
        ["service.nodePort: 30080", "ClusterIP", "NodePort or LoadBalancer"],
        id="node-port-of-cluster-ip",
    ),
    pytest.param(
        {"service": {"type": "NodePort", "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
        ["service.loadBalancerSourceRanges: have no meaning with service.type NodePort"],
        id="ranges-without-load-balancer",
    ),
    pytest.param(
        {"pdb": {"enabled": True, "minAvailable": 1}},
        ["pdb.minAvailable: 1 of 1 replicas must stay", "pdb.maxUnavailable"],
        id="budget-of-all",
    ),
    pytest.param(
        {
            "pdb": {"enabled": True, "minAvailable": "51%"},
            "autoscaling": {"enabled": True, "minReplicas": 2},
            "config": {"store_url": REDIS},
        },
        ["pdb.minAvailable: 51% of 2 replicas must stay"],
        id="share-of-all",
    ),
    # The schema refuses these:
    pytest.param({"config": {"ttl": 5}}, ["'/config'", "'ttl' not allowed"], id="unknown-setting"),
    pytest.param({"config": {"ttl_s": 0}}, ["'/config/ttl_s'", "want 1"], id="out-of-range"),
    pytest.param({"config": {"ttl_s": True}}, ["'/config/ttl_s'", "integer"], id="wrong-type"),
    pytest.param({"config": {"mode": "maybe"}}, ["'/config/mode'", "'shadow'"], id="unknown-word"),
    pytest.param({"secrets": {"keys": {"listen": "x"}}}, ["'/secrets/keys'"], id="no-such-secret"),
    pytest.param({"replicas": 2}, ["'replicas' not allowed"], id="unknown-value"),
    pytest.param({"secrets": None}, ["missing property 'secrets'"], id="nothing-said"),
    pytest.param({"livenessProbe": None}, ["missing property 'livenessProbe'"], id="no-probe"),
    pytest.param({"fullnameOverride": "My_Name"}, ["'/fullnameOverride'"], id="no-name"),
    pytest.param({"extraEnv": [{"name": "A", "value": 1}]}, ["'/extraEnv/0/value'"], id="no-text"),
    pytest.param({"image": {"digest": "latest"}}, ["'/image/digest'"], id="no-digest"),
    pytest.param({"image": {"registry": "https://a"}}, ["'/image/registry'"], id="no-registry"),
    pytest.param({"extraContainers": [{"image": "a"}]}, ["'name'"], id="container-without-name"),
    pytest.param({"extraEnvFrom": [{"name": "a"}]}, ["'/extraEnvFrom/0'"], id="env-from-nothing"),
    pytest.param({"hostAliases": [{"ip": "::1"}]}, ["'hostnames'"], id="alias-of-no-name"),
    pytest.param({"ingress": {"hosts": ["a.b"]}}, ["'/ingress/hosts/0'", "object"], id="host-text"),
    pytest.param(
        {"ingress": {"hosts": [{"host": "a.b", "paths": [{"path": "v1"}]}]}},
        ["'/ingress/hosts/0/paths/0/path'"],
        id="no-path",
    ),
    pytest.param({"httpRoute": {"rules": []}}, ["'/httpRoute/rules'"], id="route-of-no-rule"),
    pytest.param({"service": {"nodePort": 70000}}, ["'/service/nodePort'"], id="no-node-port"),
    pytest.param({"pdb": {"minAvailable": "100%"}}, ["'/pdb/minAvailable'"], id="budget-of-100"),
    pytest.param(
        {"persistence": {"accessModes": ["ReadOnlyMany"]}}, ["accessModes/0'"], id="read-only-claim"
    ),
    pytest.param(
        {"persistence": {"resourcePolicy": "delete"}}, ["resourcePolicy'"], id="no-policy"
    ),
    pytest.param(
        {"metrics": {"serviceMonitor": {"scrapeTimeout": "10"}}}, ["scrapeTimeout'"], id="no-unit"
    ),
    pytest.param({"dnsPolicy": "Cluster"}, ["'/dnsPolicy'"], id="no-dns-policy"),
    pytest.param({"revisionHistoryLimit": -1}, ["'/revisionHistoryLimit'"], id="no-number"),
    pytest.param({"commonAnnotations": {"a": 1}}, ["'/commonAnnotations/a'"], id="annotation"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED)
def test_what_cannot_work_is_refused(helm: Helm, values: dict[str, Any], words: list[str]) -> None:
    """The message has the value, the numbers and the way out, and never a password."""
    done = helm.template(values)

    assert done.returncode != 0
    assert [word for word in words if word not in done.stderr] == []
    assert "secret@" not in done.stderr
    assert "=secret" not in done.stderr


@pytest.mark.parametrize("name", sorted(SECRET_NAMES - {"store_url", "upstream_proxy"}))
def test_a_secret_has_no_place_in_values(helm: Helm, name: str) -> None:
    """A secret in values is refused: values go to a repository, and to Helm's own Secret."""
    done = helm.template({"config": {name: "hunter2"}})

    assert done.returncode != 0
    assert f"config.{name}: a secret must not be in values" in done.stderr
    assert f"secrets.keys.{name}" in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"config": {"drain_s": 659}}, id="grace-by-a-second"),
        pytest.param({"config": {"drain_s": 0}, "terminationGracePeriodSeconds": 1}, id="no-drain"),
        pytest.param({"resources": {"limits": {"memory": "352Mi"}}}, id="limit-exactly"),
        pytest.param({"resources": {"limits": {"memory": "0.5Gi"}}}, id="limit-in-parts"),
        pytest.param({"resources": {"limits": {"memory": 2**30}}}, id="limit-as-a-number"),
        pytest.param(
            {
                "resources": {"limits": {"memory": "64Mi"}},
                "config": {"store_url": REDIS, "recent_max_bytes": 0},
            },
            id="no-local-copies",
        ),
        pytest.param({"replicaCount": 2, "config": {"store_url": REDIS}}, id="redis-by-address"),
        pytest.param({"replicaCount": 2, "secrets": SECRET}, id="redis-by-secret"),
        pytest.param({"config": {"upstream_proxy": "env"}}, id="proxy-of-environment"),
        pytest.param(
            {
                "config": {"store_url": "sqlite:////mnt/x.db"},
                "extraVolumeMounts": [{"name": "x", "mountPath": "/"}],
            },
            id="volume-of-ones-own",
        ),
        pytest.param(
            {
                "pdb": {"enabled": True, "minAvailable": "50%"},
                "replicaCount": 2,
                "config": {"store_url": REDIS},
            },
            id="budget-of-half",
        ),
        pytest.param(
            {"pdb": {"enabled": True, "minAvailable": 3}, "replicaCount": None},
            id="budget-of-unknown-replicas",
        ),
        pytest.param({"global": {"region": "eu"}}, id="globals-of-others"),
        pytest.param({"config": None, "secrets": {"keys": None}}, id="keys-without-values"),
    ],
)
def test_what_can_work_is_not_refused(helm: Helm, values: dict[str, Any]) -> None:
    """Values at the exact limits are accepted."""
    assert helm.template(values).returncode == 0, helm.template(values).stderr
