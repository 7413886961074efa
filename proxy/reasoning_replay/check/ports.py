"""Port check: whether both ports are free, or in use by a running proxy."""

import errno
import re
import socket
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from reasoning_replay.check.report import Finding
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import authority, dialled, host_and_port
from reasoning_replay.web.http.listener import why_refused

ASK_TIMEOUT_S: Final = 2.0
VERSION = re.compile(r'^reasoning_replay_build_info\{version="([\w.+-]+)"\}', re.MULTILINE)


async def of_ports(settings: Settings) -> AsyncIterator[Finding]:
    """Listen on each port for a moment; if that fails, test whether a proxy listens there."""
    faults = {
        name: fault
        for name, reuse_port in (("listen", settings.reuse_port), ("admin_listen", False))
        if (fault := _fault(getattr(settings, name), reuse_port=reuse_port))
    }
    running = await _running(settings.admin_listen) if "admin_listen" in faults else ""
    if running:
        yield Finding("ok", "ports", f"a reasoning-replay {running}")
        faults = {name: fault for name, fault in faults.items() if not _is_taken(fault)}
    for name, fault in faults.items():
        address = getattr(settings, name)
        yield Finding("problem", "ports", f"{name} {address}: {why_refused(fault, address)}")
    if not faults and not running:
        words = f"free: {settings.listen} and {settings.admin_listen}; serve can listen there"
        yield Finding("ok", "ports", words)


def _fault(listen: str, *, reuse_port: bool) -> OSError | None:
    """Return the error of listening there; None if it works."""
    host, port = host_and_port(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family, backlog=1, reuse_port=reuse_port).close()
    except OSError as error:
        return error
    return None


def _is_taken(fault: OSError) -> bool:
    return fault.errno == errno.EADDRINUSE


async def _running(admin_listen: str) -> str:
    """Return version and readiness of the proxy that listens there; "" if something else does."""
    host, port = host_and_port(admin_listen)
    url = f"http://{authority(dialled(host), port)}"
    timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.get(f"{url}/metrics", allow_redirects=False) as response:
                version = VERSION.search(await response.text())
            if version is None:
                return ""
            async with session.get(f"{url}/readyz", allow_redirects=False) as response:
                state = await response.json()
    except (aiohttp.ClientError, OSError, ValueError):
        return ""
    is_told = isinstance(state, dict)
    status, store = (state.get("status"), state.get("store")) if is_told else ("", "")
    return f"{version[1]} is running here: {status}, store {store}"
