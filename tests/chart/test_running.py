"""Commands of the chart, run here: the sidecar's container, its hooks, and the release test."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from reasoning_replay.settings.loader import ENV_PREFIX

from tests.chart.rendering import CI, Helm, Values, env_of_container, sidecar
from tests.patience import SOON_S
from tests.ports import free_port
from tests.web.line import line_to, request
from tests.web.scripted import Script, Upstream, scripted, send
from tests.web.served import Served, served
from tests.web.wire import whole

ANY_PORT = "127.0.0.1:0"


@contextlib.asynccontextmanager
async def contained(
    container: Mapping[str, Any], upstream_url: str, under: Sequence[str] = ()
) -> AsyncIterator[Served]:
    """Run a container's process with its variables, except ports and upstream."""
    env = env_of_container(dict(container))
    given = {name.removeprefix(ENV_PREFIX).lower(): value for name, value in env.items()}
    given |= {"listen": ANY_PORT, "admin_listen": ANY_PORT, "upstream_url": upstream_url}
    assert container["args"] == ["serve"]  # as `served` does
    async with served(under=under, **given) as proxy:
        await proxy.started()
        yield proxy


async def run(command: list[str], **env: str) -> tuple[int, str]:
    """Run a command of the image; return its exit code and output."""
    assert command[0] == "python"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command[1:],
        env={"PATH": os.defpath} | env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), SOON_S)
    return process.returncode or 0, said.decode()


async def probe(proxy: Served, container: Mapping[str, Any], kind: str) -> int:
    """Send the probe as the kubelet does; return the status."""
    asked = container[kind]["httpGet"]
    assert asked["port"] == "admin"
    async with line_to(proxy.admin_url) as line:
        return (await line.ask(request("GET", asked["path"]))).status


def answers(upstream: Upstream, status: int) -> None:
    """Let upstream send one response."""
    upstream.plays(Script([send(whole(b"{}", status=f"{status} As Told"))]))


@pytest.fixture(params=[False, True], ids=["native", "classic"])
def container(consumer: Helm, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The proxy's container next to an app."""
    return sidecar(consumer, classic=request.param)[1]


async def test_the_sidecar_serves_and_ends(container: dict[str, Any]) -> None:
    """The sidecar answers its probes, forwards requests, and ends with 0 after SIGTERM."""
    async with scripted() as upstream, contained(container, f"{upstream.url}/v1") as proxy:
        assert await probe(proxy, container, "startupProbe") == 200
        assert await probe(proxy, container, "livenessProbe") == 200
        answers(upstream, 200)
        async with line_to(proxy.url) as line:
            assert (await line.ask(request("GET", "/v1/models"))).status == 200
        assert upstream.received[-1].target == "/v1/models"

        proxy.signal(signal.SIGTERM)
        assert await proxy.exit_code() == 0


def children_cpu_s() -> float:
    """Return the CPU time of all ended children; unlike the clock, the load hardly changes it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def test_the_startup_probe_does_not_fail_in_a_normal_start(container: dict[str, Any]) -> None:
    """On a node with a free core the proxy is ready before the kubelet asks for the first time."""
    before_s = children_cpu_s()
    async with contained(container, "http://127.0.0.1:9/v1") as proxy:
        assert await probe(proxy, container, "startupProbe") == 200
        proxy.signal(signal.SIGTERM)
        assert await proxy.exit_code() == 0

    assert children_cpu_s() - before_s < container["startupProbe"]["initialDelaySeconds"]


def restricted() -> list[str]:
    """Return a command prefix for a read-only root without capabilities, or skip the test."""
    script = 'mount -o remount,ro,bind / && exec setpriv --bounding-set=-all --no-new-privs "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True, timeout=20)  # noqa: S603 (our own words)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("namespaces are not available here")
    return command


async def test_the_sidecar_needs_no_rights(consumer: Helm) -> None:
    """The sidecar runs with a read-only root, without capabilities and without a volume."""
    _, container = sidecar(consumer)
    assert "volumeMounts" not in container
    async with scripted() as upstream, contained(container, upstream.url, restricted()) as proxy:
        assert await probe(proxy, container, "startupProbe") == 200


async def test_the_classic_ones_hooks_work(consumer: Helm) -> None:
    """The postStart hook ends when the proxy is ready, the preStop hook after its sleep."""
    values = {"replay": {"sidecar": {"preStopSeconds": 0}}}
    _, first = sidecar(consumer, values, classic=True)
    hooks = {name: hook["exec"]["command"] for name, hook in first["lifecycle"].items()}
    async with contained(first, "http://127.0.0.1:9/v1") as proxy:
        waits = [
            word.replace("http://localhost:9090", proxy.admin_url) for word in hooks["postStart"]
        ]

        assert proxy.admin_url in waits[-1]
        assert await run(waits) == (0, "")
        assert await run(hooks["preStop"]) == (0, "")


async def release_test(
    helm: Helm, admin_url: str, url: str, retry_s: int = 0, values: Values | None = None
) -> tuple[int, str]:
    """Run the container of `helm test`; return its exit code and what it wrote."""
    (test,) = helm.one(values or {}, "Pod", "r-reasoning-replay-test")["spec"]["containers"]
    (clients,) = [one["value"] for one in test["env"] if one["name"] == "CLIENTS"]
    clients = clients.replace("http://r-reasoning-replay.ns:8080", url)
    return await run(test["command"], ADMIN=admin_url, CLIENTS=clients, RETRY_SECONDS=str(retry_s))


@pytest.mark.parametrize("status", [200, 401])
async def test_the_test_passes_when_upstream_was_asked(helm: Helm, status: int) -> None:
    """The release test passes on any response of upstream, such as 401 without a key."""
    async with scripted() as upstream, served(upstream_url=f"{upstream.url}/v1") as proxy:
        await proxy.started()
        answers(upstream, status)
        code, said = await release_test(helm, proxy.admin_url, proxy.url)

    assert (code, f"models: {status}" in said) == (0, True), said


async def test_the_test_fails_when_upstream_cannot_be_reached(helm: Helm) -> None:
    """The release test fails on the proxy's own error, which it detects by its header."""
    async with served(upstream_url="http://127.0.0.1:9/v1") as proxy:
        await proxy.started()
        code, said = await release_test(helm, proxy.admin_url, proxy.url)

    assert (code, "models: 502 error=" in said) == (1, True), said


@pytest.mark.parametrize("is_down", [False, True])
async def test_the_test_asks_each_of_several_upstreams(helm: Helm, *, is_down: bool) -> None:
    """The pod's variable is the map, and the test fails if one of them cannot be reached."""
    async with scripted() as upstream:
        urls = {
            "a": f"{upstream.url}/v1",
            "b": "http://127.0.0.1:9/v1" if is_down else upstream.url,
        }
        values = {"config": {"upstreams": {name: {"url": url} for name, url in urls.items()}}}
        env = env_of_container(helm.pod(values)["containers"][0])
        async with served(upstreams=env["REPLAY_UPSTREAMS"]) as proxy:
            await proxy.started()
            answers(upstream, 200)
            answers(upstream, 401)
            code, said = await release_test(helm, proxy.admin_url, proxy.url, values=values)

    assert (code, "/a/v1" in said, "/b/v1" in said) == (int(is_down), True, True), said
    assert ("error=upstream_unreachable" in said) is is_down


async def test_the_test_fails_when_the_store_is_not_used(helm: Helm) -> None:
    """A proxy without its store serves, but an installation without it is not complete."""
    async with (
        scripted() as upstream,
        served(upstream_url=f"{upstream.url}/v1", store_url="redis://127.0.0.1:9") as proxy,
    ):
        await proxy.started()
        answers(upstream, 200)
        code, said = await release_test(helm, proxy.admin_url, proxy.url)

    assert (code, "failed: the store is not used" in said) == (1, True), said


async def test_the_test_fails_when_the_proxy_is_not_ready(helm: Helm) -> None:
    """A health check that returns 503 is a failure, whatever the clients' port returns."""
    async with scripted() as upstream:
        answers(upstream, 503)
        code, said = await release_test(helm, upstream.url, upstream.url)

    assert (code, "failed: HTTP Error 503" in said) == (1, True), said


async def test_the_test_retries(helm: Helm) -> None:
    """Right after an installation the first attempts may fail, and the test tries again."""
    listen, admin_listen = (f"127.0.0.1:{free_port()}" for _ in range(2))
    testing = asyncio.create_task(
        release_test(helm, f"http://{admin_listen}", f"http://{listen}", retry_s=60)
    )
    await asyncio.sleep(1)
    async with (
        scripted() as upstream,
        served(
            upstream_url=f"{upstream.url}/v1", listen=listen, admin_listen=admin_listen
        ) as proxy,
    ):
        await proxy.started()
        answers(upstream, 200)
        code, said = await testing

    assert (code, "again in 2 s: <urlopen error" in said, "models: 200" in said) == (0, True, True)


def test_the_test_runs_where_the_gateway_runs(helm: Helm) -> None:
    """Its pod is scheduled as the gateway's, and stays until the next run for `--logs`."""
    test = helm.one(CI["gateway-redis"], "Pod", "r-reasoning-replay-test")
    gateway = helm.pod(CI["gateway-redis"])

    for name in ("nodeSelector", "tolerations", "imagePullSecrets"):
        assert test["spec"][name] == gateway[name]
    assert test["metadata"]["annotations"] == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation",
    }


def test_the_test_asks_the_services_that_there_are(helm: Helm) -> None:
    """The release test uses the Services' names and ports, and TLS if clients do."""
    values = {
        "config": {"admin_listen": "0.0.0.0:9191", "tls_cert_file": "/a", "tls_key_file": "/b"}
    }
    (test,) = helm.one(values, "Pod", "r-reasoning-replay-test")["spec"]["containers"]

    assert {each["name"]: each["value"] for each in test["env"]} == {
        "RETRY_SECONDS": "180",
        "ADMIN": "http://r-reasoning-replay-admin:9191",
        "CLIENTS": "https://r-reasoning-replay.ns:8080/v1",
    }
    admin = helm.one(values, "Service", "r-reasoning-replay-admin")["spec"]["ports"]
    assert admin == [{"name": "admin", "port": 9191, "targetPort": "admin"}]
