"""The sidecar: the same container from the chart and from the snippets, in the right place."""

from typing import Any

import pytest
import yaml
from reasoning_replay.settings.loader import load

from tests.chart.rendering import CHART, Helm, env_of_container, pod_specs

SNIPPETS = CHART.parent / "config" / "kubernetes"


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


@pytest.mark.parametrize(
    ("snippet", "kind", "members"),
    [("sidecar", "native", "initContainers"), ("sidecar-classic", "classic", "containers")],
)
def test_the_snippet_is_what_the_chart_makes(
    snippet: str, kind: str, members: str, request: pytest.FixtureRequest
) -> None:
    """The snippet for use without Helm equals the chart's pod."""
    (theirs,) = pod_specs([yaml.safe_load((SNIPPETS / f"{snippet}.yaml").read_text())])
    ours = request.getfixturevalue(kind)

    assert [by_name(each) for each in theirs[members]] == [by_name(each) for each in ours[members]]
    assert theirs | {members: 0} == ours | {members: 0}


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
    """A parent chart sets shared settings, the sidecar's own (including 0), secrets and globals."""
    values = {
        "config": {"upstream_url": "https://example.com/v1", "drain_grace_s": 9, "mode": "shadow"},
        "sidecar": {"config": {"mode": False, "store_max_bytes": 2**20}, "name": "replay"},
        "secrets": {"existingSecret": "made", "keys": {"scope_secret": "key"}},
        "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "replay"}],
    }
    parent = {"global": {"imageRegistry": "mirror.example"}, "replay": values}
    (pod,) = pod_specs(consumer.manifests(parent))
    (container,) = pod["initContainers"]
    settings = load({}, env_of_container(container, secret="secret"), None)

    assert container["name"] == "replay"
    assert container["image"].startswith("mirror.example/reasoning-replay:")
    assert container["env"][-1]["name"] == "OTEL_SERVICE_NAME"
    assert settings.upstream_url == "https://example.com/v1"
    assert (settings.mode, settings.drain_grace_s) == ("off", 0)
    assert settings.store_max_bytes == 2**20
    assert settings.scope_secret.get_secret_value() == "secret"
