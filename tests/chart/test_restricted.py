"""Every container meets the pod security standard "restricted"."""

from typing import Any

import pytest

from tests.chart.rendering import CI, Helm, pod_specs, sidecar

VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}


def faults(pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
    """Return the rules of the standard that a pod with this container breaks."""
    said = pod.get("securityContext", {})
    own = container.get("securityContext", {})
    both = said | own
    capabilities = own.get("capabilities", {})
    rules = {
        "host namespaces": not any(pod.get(k) for k in ("hostNetwork", "hostPID", "hostIPC")),
        "privileged": own.get("privileged", False) is False,
        "capabilities": capabilities.get("drop") == ["ALL"] and not capabilities.get("add"),
        "volumes": all(VOLUMES & set(each) for each in pod.get("volumes", [])),
        "host ports": all(not each.get("hostPort") for each in container.get("ports", [])),
        "privilege escalation": own.get("allowPrivilegeEscalation") is False,
        "running as non-root": both.get("runAsNonRoot") is True,
        "running as root by number": both.get("runAsUser", 1) != 0,
        "seccomp": both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "/proc mount": own.get("procMount", "Default") == "Default",
        "SELinux": not both.get("seLinuxOptions"),
        "sysctls": not said.get("sysctls"),
        # Stricter than the standard:
        "read-only root": own.get("readOnlyRootFilesystem") is True,
        "the image's user": both.get("runAsUser") == 65532,
        "bounded requests": bool(container["resources"].get("requests"))
        or not container["resources"],
    }
    return [rule for rule, is_kept in rules.items() if not is_kept]


@pytest.mark.parametrize("name", CI)
def test_our_pods_are_restricted(helm: Helm, name: str) -> None:
    """With all values, the gateway's and the test's pods are restricted and have no token."""
    for pod in pod_specs(helm.manifests(CI[name])):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert [fault for each in pod["containers"] for fault in faults(pod, each)] == []


@pytest.mark.parametrize("classic", [False, True])
def test_the_sidecar_is_restricted_by_itself(consumer: Helm, classic: bool) -> None:
    """The sidecar is restricted in a pod without a security context; the snippets equal it."""
    _, container = sidecar(consumer, classic=classic)

    assert faults({}, container) == []
