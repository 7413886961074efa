"""Local checks: the settings, the base URLs for clients, and the ports, without any server."""

import contextlib
import errno
import json
import socket
from collections.abc import AsyncIterator
from typing import Final, Literal, NamedTuple

import aiohttp

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.dialects.path_faults import lacking_apis
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import authority, dialled, host_and_port
from reasoning_replay.web.doubtful_settings import doubts
from reasoning_replay.web.http.listener import why_refused
from reasoning_replay.web.wiring import base_urls, certificate, connection_limits, profile

ASK_TIMEOUT_S: Final = 2.0


class Finding(NamedTuple):
    """
    One line of the report.

    Attributes:
        grade: A problem prevents correct service; a warning does not.
        words: The result and, unless it is ok, the way out. They contain no secret.
    """

    grade: Literal["ok", "warning", "problem"]
    words: str


async def of_settings(settings: Settings) -> AsyncIterator[Finding]:
    """Check the settings, and the files that they name."""
    where = f"clients at {settings.listen}, health and metrics at {settings.admin_listen}"
    profiles = {profile(own).name: None for own in settings.by_upstream.values()}
    words = f"valid: mode {settings.mode}, upstream profile {', '.join(profiles)}, {where}"
    yield Finding("ok", words)
    log = Log("error", "text")
    try:
        certificate(settings, log)
    except OSError as error:
        yield Finding("problem", str(error))
    most = connection_limits(settings, log).max_connections
    if most < settings.max_connections:
        words = f"max_connections is {settings.max_connections}, but only {most} are possible"
        remedy = "each connection needs two open files: raise ulimit -n, or lower max_connections"
        yield Finding("warning", f"{words}; {remedy}")
    for words in doubts(settings):
        yield Finding("warning", words)


async def of_clients(settings: Settings) -> AsyncIterator[Finding]:
    """Name the base URLs for clients, with the requests into which reasoning is injected."""
    scheme = "https" if settings.tls_cert_file else "http"
    host, port = host_and_port(settings.listen)
    url = f"{scheme}://{authority(dialled(host), port or '<port>')}"
    elsewhere = "" if dialled(host) == host else " (or the name of this machine)"
    served: set[str] = set()
    for place, entries in base_urls(url, settings).items():
        served.update(entry.name for entry in entries)
        replayed = ", ".join(path for entry in entries for path in entry.replayed_paths)
        yield Finding("ok", f"{place}{elsewhere} for {replayed}")
    for host, name in settings.upstream_hosts.items():
        yield Finding("ok", f"the host {host} chooses {name}: its paths need no /{name} there")
    for own in settings.by_upstream.values():
        for dialect, remedy in lacking_apis(own.upstream_url).items():
            if dialect not in served:
                yield Finding("ok", remedy)
    yield Finding("ok", "reasoning is injected there; all other paths pass through")


# --- ports ---


async def of_ports(settings: Settings) -> AsyncIterator[Finding]:
    """Listen on each port for a moment; if that fails, test whether a proxy listens there."""
    faults = {
        name: fault
        for name, reuse_port in (("listen", settings.reuse_port), ("admin_listen", False))
        if (fault := _fault(getattr(settings, name), reuse_port=reuse_port))
    }
    running = await _running(settings) if "admin_listen" in faults else None
    if running:
        yield running
        faults = {name: one for name, one in faults.items() if one.errno != errno.EADDRINUSE}
    for name, fault in faults.items():
        address = getattr(settings, name)
        yield Finding("problem", f"{name} {address}: {why_refused(fault, address)}")
    if not faults and not running:
        words = f"free: {settings.listen} and {settings.admin_listen}; serve can listen there"
        yield Finding("ok", words)


def _fault(listen: str, *, reuse_port: bool) -> OSError | None:
    """Return the error of listening there; None if it works."""
    host, port = host_and_port(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family, backlog=1, reuse_port=reuse_port).close()
    except OSError as error:
        return error
    return None


async def _running(settings: Settings) -> Finding | None:
    """Return what the proxy that listens there says of itself; None if something else does."""
    host, port = host_and_port(settings.admin_listen)
    url = f"http://{authority(dialled(host), port)}"
    timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
    other: list[str] = []
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.get(f"{url}/livez", allow_redirects=False) as response:
                about = (await response.text()).strip()
            if not about.startswith("reasoning-replay "):
                return None
            async with session.get(f"{url}/readyz", allow_redirects=False) as response:
                state = await response.json()
            with contextlib.suppress(aiohttp.ClientError, ValueError, KeyError):
                other = await _differing(session, url, settings)
    except (aiohttp.ClientError, OSError, ValueError):
        return None
    words = f"{about} is running here: {state['status']}, store {state['store']}"
    if other:
        words += (
            f"; it is another proxy, with {' and '.join(other)}: stop it, or choose other ports"
        )
    return Finding("problem" if other else "ok", words)


async def _differing(session: aiohttp.ClientSession, url: str, settings: Settings) -> list[str]:
    """
    Return in what a running proxy differs from the settings.

    Raises:
        aiohttp.ClientError, ValueError, KeyError: It does not say that, as without its admin token.
    """
    from reasoning_replay.web.app import facts_of  # noqa: PLC0415 (the whole proxy, for this line)

    token = settings.admin_token.get_secret_value()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    events = f"{url}/inspector/events"
    async with session.get(events, headers=headers, raise_for_status=True) as response:
        told = json.loads(await response.content.readline())["hello"]
    own = facts_of(settings, "")
    names = [name for name in ("upstream", "store") if told[name] != own[name]]
    return [f"the {name} {told[name]}" for name in names]
