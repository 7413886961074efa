"""A port that `serve` cannot use is a problem, unless a running proxy uses it."""

import errno
import socket
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.pytest_plugin import AiohttpServer
from pydantic import SecretStr
from reasoning_replay.build import build_version
from reasoning_replay.check.local import of_ports
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.check.reports import found

TAKEN = "another program uses this port"


async def ports(settings: Settings, **changed: object) -> list[str]:
    """Return the findings about the ports."""
    return await found(of_ports(settings.model_copy(update=changed)))


async def test_free_ports_are_well(settings: Settings) -> None:
    """Free ports are ok, and are free again after the check."""
    (line,) = await ports(settings)
    assert line.startswith("ok: free: ")
    assert await ports(settings) == [line]


@pytest.mark.parametrize("name", ["listen", "admin_listen"])
async def test_a_port_of_another_program_is_a_problem(settings: Settings, name: str) -> None:
    """A port of another program is a problem, even if that program sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (line,) = await ports(settings, **{name: f"127.0.0.1:{port}"})
    assert line == (
        f"problem: {name} 127.0.0.1:{port}: {TAKEN}, and `lsof -i :{port}` shows which; stop it, "
        "or choose another port"
    )


async def test_a_port_that_processes_share_is_well(settings: Settings) -> None:
    """With `reuse_port`, a `listen` port in use is ok; the admin port is never shared."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        (shared,) = await ports(settings, listen=address, reuse_port=True)
        (alone,) = await ports(settings, listen=address)
        (admin,) = await ports(settings, admin_listen=address, reuse_port=True)
    assert shared.startswith("ok: ")
    assert alone.startswith(f"problem: listen {address}: {TAKEN}")
    assert admin.startswith(f"problem: admin_listen {address}: {TAKEN}")


async def test_another_programs_admin_port_is_no_proxy(
    settings: Settings, aiohttp_server: AiohttpServer
) -> None:
    """Another HTTP server on the admin port is not taken for a proxy."""
    server = await aiohttp_server(web.Application())
    (line,) = await ports(settings, admin_listen=f"127.0.0.1:{server.port}")
    assert TAKEN in line


async def test_a_proxy_that_runs_is_told(settings: Settings) -> None:
    """A running proxy is reported with version and readiness; its ports are not a problem."""
    async with running(settings.model_copy(update={"log_level": "error"})) as app:
        here = {
            "listen": app.url.removeprefix("http://"),
            "admin_listen": app.admin_url.removeprefix("http://"),
        }
        lines = await ports(settings, **here)
    (line,) = lines
    assert line.startswith(f"ok: reasoning-replay {build_version()} for ")
    assert line.endswith(" is running here: ready, store ok")


@pytest.mark.parametrize("name", ["upstream_url", "store_url"])
async def test_another_proxy_that_runs_is_a_problem(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    """One with another upstream or another store holds the port, and is named."""
    token = {"admin_token": SecretStr("of the operators" * 2), "log_level": "error"}
    own = settings.model_copy(update=token)
    there = {"upstream_url": "http://127.0.0.1:9/v2", "store_url": f"sqlite://{tmp_path}/their.db"}
    async with running(own.model_copy(update={name: there[name]})) as app:
        here = app.admin_url.removeprefix("http://")
        (line,) = await ports(own, admin_listen=here)
        (unknown,) = await ports(settings, admin_listen=here)  # without the token
    assert line.startswith("problem: reasoning-replay ")
    told = f"it is another proxy, with the {name.removesuffix('_url')} {there[name]}: stop it"
    assert told in line
    assert unknown.startswith("ok: reasoning-replay ")


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(PermissionError(errno.EACCES, "no"), "choose one above 1023", id="privileged"),
        pytest.param(
            OSError(errno.EADDRNOTAVAIL, "no"), "this machine has no such address", id="elsewhere"
        ),
        pytest.param(socket.gaierror(-2, "no"), "its host is not a name or address", id="no-name"),
        pytest.param(OSError(errno.EMFILE, "too many files"), "too many files", id="other"),
    ],
)
async def test_each_fault_has_its_way_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: OSError, want: str
) -> None:
    """Each listen error has a way out in terms of the setting."""

    def refuse(*_: object, **__: object) -> socket.socket:
        raise error

    monkeypatch.setattr("reasoning_replay.check.local.socket.create_server", refuse)
    lines = await ports(settings)
    assert [line.split()[:2] for line in lines] == [
        ["problem:", "listen"],
        ["problem:", "admin_listen"],
    ]
    assert all(want in line for line in lines)
