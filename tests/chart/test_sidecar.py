"""The sidecar: the same container from the chart and from the snippets, in the right place."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from reasoning_replay.settings.loader import load

from tests.chart.rendering import CHART, OLDEST, SIDECARS, Helm, env_of_container, pod_specs

SNIPPETS = CHART.parent / "config" / "kubernetes"


def pod_of(path: Path) -> dict[str, Any]:
    """Return the spec of the pod in a snippet."""
    (pod,) = pod_specs([yaml.safe_load(path.read_text())])
    return pod


@pytest.fixture
def native(consumer: Helm) -> dict[str, Any]:
    """The spec of a pod with a native sidecar."""
    (pod,) = pod_specs(consumer.manifests({}))
    return pod


@pytest.fixture
def classic(consumer: Helm) -> dict[str, Any]:
    """The spec of a pod with a plain container instead."""
    (pod,) = pod_specs(consumer.manifests({"classic": True}))
    return pod


def by_name(container: dict[str, Any]) -> dict[str, Any]:
    """Sort the variables by name, since their order in a snippet is free."""
    return container | {"env": sorted(container["env"], key=lambda each: str(each["name"]))}


def test_the_snippet_is_what_the_chart_makes(native: dict[str, Any]) -> None:
    """The snippet for use without Helm equals the chart's pod."""
    snippet = pod_of(SNIPPETS / "sidecar.yaml")
    (container,) = snippet["initContainers"]

    assert by_name(container) == by_name(native["initContainers"][0])
    assert snippet | {"initContainers": 0} == native | {"initContainers": 0}


def test_the_classic_snippet_is_what_the_chart_makes(classic: dict[str, Any]) -> None:
    """The snippet for clusters without native sidecars equals the chart's pod."""
    snippet = pod_of(SNIPPETS / "sidecar-classic.yaml")

    assert [by_name(each) for each in snippet["containers"]] == [
        by_name(each) for each in classic["containers"]
    ]
    assert snippet | {"containers": 0} == classic | {"containers": 0}


def test_the_native_one_starts_first_and_ends_last(native: dict[str, Any]) -> None:
    """The app starts after the startup probe; a Job does not wait for the sidecar."""
    (container,) = native["initContainers"]

    assert container["restartPolicy"] == "Always"
    assert container["startupProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "admin"}
    assert "lifecycle" not in container  # a sleep before SIGTERM would only delay the end of a Job


def slept(container: dict[str, Any]) -> int:
    """Return the sleep of a container's preStop hook, in seconds; 0 without one."""
    if "lifecycle" not in container:
        return 0
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    return int(command[-1].partition("sleep(")[2][:-1])


def test_the_classic_one_holds_the_app_until_it_answers(classic: dict[str, Any]) -> None:
    """The container is first: later ones start only after its postStart hook."""
    first = classic["containers"][0]

    assert first["name"] == "reasoning-replay"
    assert "restartPolicy" not in first
    assert "/readyz" in first["lifecycle"]["postStart"]["exec"]["command"][-1]


@pytest.mark.parametrize("kind", ["native", "classic"])
def test_the_pod_has_time_for_both(kind: str, request: pytest.FixtureRequest) -> None:
    """The grace period is longer than the preStop sleep plus the drain."""
    pod = request.getfixturevalue(kind)
    first = (pod["initContainers"] if kind == "native" else pod["containers"])[0]
    settings = load({}, env_of_container(first), None)

    assert pod["terminationGracePeriodSeconds"] > slept(first) + settings.drain_s
    assert settings.drain_grace_s == 0


@pytest.mark.parametrize("is_classic", [False, True])
def test_a_pod_without_time_for_both_is_refused(consumer: Helm, is_classic: bool) -> None:
    """A grace period that is too short is refused, with the numbers."""
    values = {"classic": is_classic, "replay": {"sidecar": {"config": {"drain_s": 120}}}}
    slept_s = 30 if is_classic else 0

    with pytest.raises(AssertionError) as told:
        consumer.manifests(values)

    assert "sidecar.terminationGracePeriodSeconds: 90 is not more" in str(told.value)
    assert f"preStopSeconds {slept_s} plus drain_s 120" in str(told.value)


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ({"listen": "127.0.0.1:8081"}, "http://127.0.0.1:8081/v1"),
        ({"listen": "[::1]:8080"}, "http://[::1]:8080/v1"),
        ({"listen": "0.0.0.0:8080"}, "http://127.0.0.1:8080/v1"),
        ({"listen": "[::]:8080"}, "http://[::1]:8080/v1"),
        ({"tls_cert_file": "/a", "tls_key_file": "/b"}, "https://127.0.0.1:8080/v1"),
    ],
)
def test_the_helper_points_the_app_at_the_sidecar(
    consumer: Helm, config: dict[str, str], url: str
) -> None:
    """`reasoning-replay.sidecarEnv` prints the base URL that the settings of the sidecar make."""
    (pod,) = pod_specs(consumer.manifests({"replay": {"sidecar": {"config": config}}}))

    assert pod["containers"][0]["env"] == [{"name": "OPENAI_BASE_URL", "value": url}]


def test_only_the_pod_may_call_it(native: dict[str, Any]) -> None:
    """Clients connect by loopback only; the admin port is open, since the kubelet needs it."""
    settings = load({}, env_of_container(native["initContainers"][0]), None)

    assert settings.listen == "127.0.0.1:8080"
    assert settings.admin_listen == "0.0.0.0:9090"
    assert {"name": "OPENAI_BASE_URL", "value": f"http://{settings.listen}/v1"} in native[
        "containers"
    ][0]["env"]


def test_what_it_may_hold_is_within_its_limit(native: dict[str, Any]) -> None:
    """The limit covers a full budget and store; the memory request covers the store."""
    (container,) = native["initContainers"]
    settings = load({}, env_of_container(container), None)
    stored_bytes = settings.store_max_bytes + settings.recent_max_bytes
    processing_mib = 192  # docs/operations.md
    most_mib = 64 + processing_mib + (stored_bytes + settings.inspect_total_max_bytes) / 2**20

    requested = container["resources"]["requests"]["memory"]
    assert int(requested.removesuffix("Mi")) == 64 + stored_bytes / 2**20
    assert most_mib <= int(container["resources"]["limits"]["memory"].removesuffix("Mi"))


def test_a_chart_sets_it_as_its_own(consumer: Helm) -> None:
    """A parent chart can set shared settings, the sidecar's own (including 0), and secrets."""
    values = {
        "config": {"upstream_url": "https://example.com/v1", "drain_grace_s": 9, "mode": "shadow"},
        "sidecar": {"config": {"mode": False, "store_max_bytes": 2**20}, "name": "replay"},
        "secrets": {"existingSecret": "made", "keys": {"scope_secret": "key"}},
        "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "replay"}],
    }
    (pod,) = pod_specs(consumer.manifests({"replay": {"gateway": {"enabled": False}} | values}))
    (container,) = pod["initContainers"]
    settings = load({}, env_of_container(container, secret="secret"), None)

    assert container["name"] == "replay"
    assert container["env"][-1]["name"] == "OTEL_SERVICE_NAME"
    assert settings.upstream_url == "https://example.com/v1"
    assert (settings.mode, settings.drain_grace_s) == ("off", 0)
    assert settings.store_max_bytes == 2**20
    assert settings.scope_secret.get_secret_value() == "secret"


# (values of the chart, Kubernetes version, words of the message)
REFUSED = [
    pytest.param(
        {}, "1.28", ["1.28 has no sidecar containers", "reasoning-replay.sidecarClassic"], id="old"
    ),
    pytest.param(
        {"sidecar": {"config": {"store_max_bytes": 2**30}}},
        SIDECARS,
        ["sidecar.resources.limits.memory: 448Mi is less than 1120 MiB"],
        id="limit",
    ),
    pytest.param(
        {"config": {"store_url": "sqlite:///data/x.db"}},
        SIDECARS,
        ["/data/x.db is not on a volume", "sidecar.volumeMounts"],
        id="sqlite-on-read-only-root",
    ),
    pytest.param(
        {"config": {"admin_token": "hunter2"}}, SIDECARS, ["must not be in values"], id="secret"
    ),
    pytest.param(
        {"sidecar": {"config": {"drain": 1}}}, SIDECARS, ["'drain' not allowed"], id="unknown"
    ),
]


@pytest.mark.parametrize(("values", "version", "words"), REFUSED)
def test_what_cannot_work_is_refused(
    consumer: Helm, values: dict[str, Any], version: str, words: list[str]
) -> None:
    """The sidecar's values are checked like the gateway's."""
    done = consumer.template({"replay": {"gateway": {"enabled": False}} | values}, version)

    assert done.returncode != 0
    assert [word for word in words if word not in done.stderr] == []


def test_the_gateway_needs_no_sidecars(helm: Helm) -> None:
    """A Kubernetes without native sidecars can still install the gateway."""
    assert helm.template({}, OLDEST).returncode == 0
