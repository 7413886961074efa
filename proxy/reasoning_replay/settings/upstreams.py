"""
Upstreams: several APIs in one process, each with a name and with settings of its own.

    upstreams:
      openai:    {url: https://api.openai.com/v1}
      anthropic: {url: https://api.anthropic.com/v1, heal: off}

What an upstream does not set holds for all of them, as written outside.
"""

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from reasoning_replay.core.wire.hosts import check_host
from reasoning_replay.settings.groups import ReplaySettings, Upstream

FIELD: Final = "upstreams"
URL: Final = "url"
HOSTS: Final = "hosts"
UPSTREAMS_MAX: Final = 20
NAME_MAX: Final = 32
# The settings of one API, by their names in `upstreams`: all but `hosts` exist outside, too.
OWN: Final[Mapping[str, str]] = {
    name.removeprefix("upstream_"): name
    for name in (
        *(name for name in Upstream.model_fields if name != FIELD),
        *ReplaySettings.model_fields,
        "connect_timeout_s",
        "first_byte_timeout_s",
        "read_timeout_s",
    )
}

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?")
_VERSION = re.compile(r"v\d.*")
_SHORTENED = re.compile(r"\bupstream_(?=(?:url|profile|ca_file|proxy)\b)")
_EXAMPLE = "{url: https://api.openai.com/v1}"

Own = Mapping[str, Any]


def in_words_of(name: str, text: str) -> str:
    """Return a text about the settings of one upstream, with their names in `upstreams`."""
    return f"{FIELD}.{name}: {_SHORTENED.sub('', text)}" if name else text


def path_of(name: str) -> str:
    """Return the path of the proxy at which an upstream is; "" for the only one."""
    return f"/{name}" if name else ""


def faults(
    upstreams: Mapping[str, Own], outside: Container[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """
    Yield what is wrong with the names in a map: the place, as names in it, and the reason.

    Args:
        upstreams: Name -> name of a setting -> its value, which is not checked, except for hosts.
        outside: Names of all settings.
    """
    if len(upstreams) > UPSTREAMS_MAX:
        reason = f"{len(upstreams)} upstreams; name at most {UPSTREAMS_MAX}: each adds time series"
        yield (), reason
    hosts: dict[str, str] = {}
    for name, own in upstreams.items():
        if reason := _why_no_name(name):
            yield (name,), reason
        if not own.get(URL):
            yield (name,), f"has no url; write {name}: {_EXAMPLE}"
        for key in own:
            if key not in OWN and key != HOSTS:
                yield (name, key), f"unknown setting; {_remedy(key, outside)}"
        try:
            named = read_hosts(own.get(HOSTS, ""))
        except ValueError as error:
            yield (name, HOSTS), str(error)
            continue
        for host in named:
            if hosts.setdefault(host, name) != name:
                yield (name, HOSTS), f"{host} is also a host of {hosts[host]}; keep one"


def _why_no_name(name: str) -> str:
    """Return why a text cannot name an upstream; "" if it can."""
    if not _NAME.fullmatch(name) or len(name) > NAME_MAX:
        characters = "a-z, 0-9, - and _, such as openai"
        return f"not a name of an upstream; use 1 to {NAME_MAX} characters of {characters}"
    if _VERSION.fullmatch(name):
        return "reads as a version in a path; use the name of the API, such as openai"
    return ""


def read_hosts(written: str) -> list[str]:
    """
    Return the host names in a list that is separated by commas, in lower case.

    Raises:
        ValueError: One of them is no name; the message has the way out.
    """
    hosts = [host.strip().lower() for host in written.split(",")] if written.strip() else []
    for host in hosts:
        if not host or re.search(r"[\s:/@\[\]*]", host):
            reason = "not host names, separated by commas and without ports"
            raise ValueError(f"{reason}; use anthropic.example.com")
        check_host(host)
    return hosts


def _remedy(key: str, outside: Container[str]) -> str:
    import difflib  # noqa: PLC0415 (only this hint needs it)

    if (short := key.removeprefix("upstream_")) in OWN:
        return f"here it is {short}"
    if key in outside:
        return f"it holds for all upstreams: write it outside of {FIELD}"
    near = difflib.get_close_matches(key, (*OWN, HOSTS), n=1)
    return f"did you mean {near[0]}?" if near else f"use any of {', '.join((*OWN, HOSTS))}"
