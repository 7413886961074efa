"""The number of replicas when an autoscaler has it: an upgrade keeps the live one."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tests.chart.rendering import NEWEST, Helm

DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/r-reasoning-replay"
AUTOSCALED = {"autoscaling": {"enabled": True}, "config": {"store_url": "redis://redis:6379/0"}}


class Api(BaseHTTPRequestHandler):
    """What Helm reads of a cluster: the resources of one API group, and one Deployment."""

    objects: ClassVar[dict[str, Any]] = {
        "/apis/apps/v1": {
            "kind": "APIResourceList",
            "groupVersion": "apps/v1",
            "resources": [
                {"name": "deployments", "namespaced": True, "kind": "Deployment", "verbs": ["get"]}
            ],
        },
        DEPLOYMENT: {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "r-reasoning-replay"},
            "spec": {"replicas": 7},
        },
    }

    def do_GET(self) -> None:
        """Return an object, or say that there is none."""
        found = self.objects.get(self.path.partition("?")[0])
        body = json.dumps(found or {"kind": "Status", "reason": "NotFound", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write nothing to stderr."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The URL of an API server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def replicas(helm: Helm, cluster: str, values: dict[str, Any], release: str = "r") -> int | None:
    """Render the chart as in a cluster; return the replicas that its Deployment has."""
    asked = ("--dry-run=server", f"--kube-apiserver={cluster}")
    done = helm.template(values, NEWEST, *asked, release=release)
    assert done.returncode == 0, done.stderr
    (found,) = [each for each in helm.read(done.stdout) if each["kind"] == "Deployment"]
    number: int | None = found["spec"].get("replicas")
    return number


@pytest.mark.parametrize(
    ("values", "number"),
    [
        pytest.param(AUTOSCALED, 7, id="autoscaler-of-the-chart"),
        pytest.param({"replicaCount": None}, 7, id="autoscaler-of-the-user"),
        pytest.param({}, 1, id="no-autoscaler"),
    ],
)
def test_an_upgrade_keeps_the_live_number_of_replicas(
    helm: Helm, cluster: str, values: dict[str, Any], number: int
) -> None:
    """Kubernetes would start again with one replica if the upgrade removed the member."""
    assert replicas(helm, cluster, values) == number


def test_an_installation_leaves_the_number_to_the_autoscaler(helm: Helm, cluster: str) -> None:
    """Where no Deployment exists yet."""
    assert replicas(helm, cluster, AUTOSCALED, release="new") is None
