"""The sidecar: the same container from the chart and from the snippets, in the right place."""

from typing import Any

import pytest
import yaml
from reasoning_replay.settings.loader import load

from tests.chart.rendering import CHART, Helm, env_of_container, pod_specs, sidecar

SNIPPETS = CHART.parent / "config" / "kubernetes"


def by_name(container: dict[str, Any]) -> dict[str, Any]:
    """Sort the variables by name, since their order in a snippet is free."""
    return container | {"env": sorted(container["env"], key=lambda each: str(each["name"]))}


@pytest.mark.parametrize(
    ("snippet", "classic", "members"),
    [("sidecar", False, "initContainers"), ("sidecar-classic", True, "containers")],
)
def test_the_snippet_is_what_the_chart_makes(
    consumer: Helm, snippet: str, classic: bool, members: str
) -> None:
    """The snippet for use without Helm equals the chart's pod."""
    (theirs,) = pod_specs([yaml.safe_load((SNIPPETS / f"{snippet}.yaml").read_text())])
    ours, _ = sidecar(consumer, classic=classic)

    assert [by_name(each) for each in theirs[members]] == [by_name(each) for each in ours[members]]
    assert theirs | {members: 0} == ours | {members: 0}


def test_the_native_one_starts_first_and_ends_last(consumer: Helm) -> None:
    """The app starts after the startup probe; a Job does not wait for the sidecar."""
    pod, container = sidecar(consumer)

    assert pod["initContainers"] == [container]
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


def test_the_classic_one_holds_the_app_until_it_answers(consumer: Helm) -> None:
    """The container is first: later ones start only after its postStart hook."""
    _, first = sidecar(consumer, classic=True)

    assert first["name"] == "reasoning-replay"
    assert "restartPolicy" not in first
    assert "/readyz" in first["lifecycle"]["postStart"]["exec"]["command"][-1]


@pytest.mark.parametrize("classic", [False, True], ids=["native", "classic"])
def test_the_pod_has_time_for_both(consumer: Helm, classic: bool) -> None:
    """The grace period is longer than the preStop sleep plus the drain."""
    pod, first = sidecar(consumer, classic=classic)
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
    pod, _ = sidecar(consumer, {"replay": {"sidecar": {"config": config}}})

    assert pod["containers"][0]["env"] == [{"name": "OPENAI_BASE_URL", "value": url}]


def test_only_the_pod_may_call_it(consumer: Helm) -> None:
    """Clients connect by loopback only; the admin port is open, since the kubelet needs it."""
    pod, container = sidecar(consumer)
    settings = load({}, env_of_container(container), None)

    assert settings.listen == "127.0.0.1:8080"
    assert settings.admin_listen == "0.0.0.0:9090"
    url = {"name": "OPENAI_BASE_URL", "value": f"http://{settings.listen}/v1"}
    assert url in pod["containers"][0]["env"]


def test_what_it_may_hold_is_within_its_limit(consumer: Helm) -> None:
    """The limit covers a full budget and store; the memory request covers the store."""
    _, container = sidecar(consumer)
    settings = load({}, env_of_container(container), None)
    stored_bytes = settings.store_max_bytes + settings.local_max_bytes
    processing_mib = 168  # docs/operations.md
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
    _, container = sidecar(consumer, parent)
    settings = load({}, env_of_container(container, secret="secret"), None)

    assert container["name"] == "replay"
    assert container["image"].startswith("mirror.example/reasoning-replay:")
    assert container["env"][-1]["name"] == "OTEL_SERVICE_NAME"
    assert settings.upstream_url == "https://example.com/v1"
    assert (settings.mode, settings.drain_grace_s) == ("off", 0)
    assert settings.store_max_bytes == 2**20
    assert settings.scope_secret.get_secret_value() == "secret"
