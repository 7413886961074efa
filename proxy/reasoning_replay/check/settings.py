"""Settings check: warnings about settings that are valid and may still be a mistake."""

from collections.abc import AsyncIterator

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.check.report import Finding
from reasoning_replay.core.dialects.path_faults import client_settings, lacking_apis
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import authority, dialled, host_and_port
from reasoning_replay.web.doubtful_settings import doubts
from reasoning_replay.web.wiring import certificate, connection_limits, profile


async def of_settings(settings: Settings) -> AsyncIterator[Finding]:
    """Check the settings, and the files that they name."""
    where = f"clients at {settings.listen}, health and metrics at {settings.admin_listen}"
    words = f"valid: mode {settings.mode}, upstream profile {profile(settings).name}, {where}"
    yield Finding("ok", "settings", words)
    log = Log("error", "text")
    try:
        certificate(settings, log)
    except OSError as error:
        yield Finding("problem", "settings", str(error))
    most = connection_limits(settings, log).max_connections
    if most < settings.max_connections:
        words = f"max_connections is {settings.max_connections}, but only {most} are possible"
        way_out = "each connection needs two open files: raise ulimit -n, or lower max_connections"
        yield Finding("warning", "settings", f"{words}; {way_out}")
    for words in doubts(settings):
        yield Finding("warning", "settings", words)


async def of_clients(settings: Settings) -> AsyncIterator[Finding]:
    """Name the base URLs for clients, with the requests into which reasoning is injected."""
    scheme = "https" if settings.tls_cert_file else "http"
    host, port = host_and_port(settings.listen)
    url = f"{scheme}://{authority(dialled(host), port or '<port>')}"
    elsewhere = "" if dialled(host) == host else " (or the name of this machine)"
    for place, entries in client_settings(url, settings.upstream_url).items():
        replayed = ", ".join(path for entry in entries for path in entry.replayed_paths)
        yield Finding("ok", "clients", f"{place}{elsewhere} for {replayed}")
    for way_out in lacking_apis(settings.upstream_url).values():
        yield Finding("ok", "clients", way_out)
    yield Finding("ok", "clients", "reasoning is injected there; all other paths pass through")
