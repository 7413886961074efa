"""
Path faults: the likely mistakes in a base URL, by the path of a request that was not found.

A path may also be right for the API and wrong for the model: the refusal says so itself.
"""

import re
from collections.abc import Collection, Container, Mapping
from enum import StrEnum
from urllib.parse import urlsplit

from reasoning_replay.core.dialects.error_texts import read_error
from reasoning_replay.core.dialects.registry import (
    DIALECTS,
    ENDPOINTS,
    KNOWN,
    REPLAYED_PATHS,
    base_url_at,
    dialect_of,
    route_of,
)
from reasoning_replay.core.dialects.routes import DialectEntry
from reasoning_replay.core.dialects.vendors import Upstream, upstream_at, version_in

_TWO_ENDPOINTS = re.compile(rf"(?:/(?:{'|'.join(ENDPOINTS)})){{2}}\Z")
# Maps to the upstream's URL; any other path goes to the same path of its host.
_V1 = "/v1"
_OTHER_VERSION = re.compile(r"/v(?!1/)\d[a-z0-9]{0,15}(?=/)")
_UPPER_VERSION = re.compile(r"/V\d")
_BEHIND = re.compile(r"(/(?!v\d).*?)(/v\d[a-z0-9]{0,15})/")
_OWN_VERSION = frozenset(entry.name for entry in DIALECTS if entry.has_own_version)
# How alike a misspelt path is, and how long a path is compared at all.
_ALIKE = 0.8
_LONGEST = 64
# OpenAI, of models that reason or call tools in its newer API only: openai/openai-openapi#541,
# BerriAI/litellm#34569, n8n-io/n8n#18352.
_NEEDS_RESPONSES = re.compile(
    r"not supported for \S+ in /v1/chat/completions\b.{0,80}\buse /v1/responses\b"
    r"|only supported in v1/responses and not in v1/chat/completions",
    re.DOTALL,
)


class PathFault(StrEnum):
    """Mistake in the base URL of a client, in `upstream_url`, or in the choice of the API."""

    LACKS_V1 = "lacks_v1"  # /responses
    DOUBLE_V1 = "double_v1"  # /v1/v1/responses; /v1/v1beta/models/x:generateContent
    ENDPOINT = "endpoint"  # /v1/responses/responses: the base URL ends in an endpoint
    DOUBLE_SLASH = "double_slash"  # //v1/responses: the base URL ends in a slash
    TRAILING_SLASH = "trailing_slash"  # /v1/responses/
    OTHER_VERSION = "other_version"  # /v2/responses: only /v1 stands for the upstream's URL
    LETTER_CASE = "letter_case"  # /V1/responses, /v1/Responses
    PREFIX = "prefix"  # /openai/v1/responses, where the upstream has no API at /openai
    MISSPELT = "misspelt"  # /v1/response
    LACKS_API = "lacks_api"  # the path is right, and the upstream has no such API there
    UPSTREAM_LACKS_V1 = "upstream_lacks_v1"  # the path is right, and upstream_url has none
    NEEDS_RESPONSES = "needs_responses"  # the model takes such requests on /responses only


_PATHS = ", ".join(REPLAYED_PATHS).replace("{", "{{").replace("}", "}}")
# What the log says of each: `{base}` is the right base URL, `{remedy}` a text of `lacking_apis`.
HINTS = {
    PathFault.LACKS_V1: "the base URL of the client lacks /v1: add it to the end. A path without "
    "/v1 goes to the root of the upstream's host",
    PathFault.DOUBLE_V1: "the path begins with /v1 twice: remove one from the base URL of the "
    "client, which is {base} unless the client adds less",
    PathFault.ENDPOINT: "the base URL of the client ends in an endpoint: it is {base}, and the "
    "client adds the rest",
    PathFault.DOUBLE_SLASH: "the path has an empty segment: remove the slash at the end of the "
    "base URL of the client, which is {base}",
    PathFault.TRAILING_SLASH: "the path ends in a slash: remove it in the client; its base URL is "
    "{base}",
    PathFault.OTHER_VERSION: "only /v1 stands for upstream_url, whatever version that has: the "
    "base URL of the client is {base}",
    PathFault.LETTER_CASE: "paths are case-sensitive, and this one has capital letters: the base "
    "URL of the client is {base}, and the client adds the rest in small letters",
    PathFault.PREFIX: "the path has a segment in front of the version, and goes to that path of "
    "the upstream's host: the base URL of the client is {base}, unless the upstream has an API "
    "there. Only with `upstreams` does a name in front choose an upstream",
    PathFault.MISSPELT: "the path looks misspelt: the base URL of the client is {base}, and "
    f"reasoning is injected on {_PATHS}",
    PathFault.LACKS_API: "{remedy}",
    PathFault.UPSTREAM_LACKS_V1: "upstream_url has no path, and most APIs are at /v1: is /v1 "
    "missing?",
    PathFault.NEEDS_RESPONSES: "this model reasons with tools on /responses only, and the proxy "
    "does not translate: switch the client to the Responses API, with the same base URL",
}


def lacking_apis(upstream_url: str) -> Mapping[str, str]:
    """
    Return the dialects that the API at a URL certainly does not have, and the remedy of each.

    Args:
        upstream_url: A valid URL. Only a known host is certain; any other may have all of them.
    """
    parts = urlsplit(upstream_url)
    found = {entry.name: upstream_at(upstream_url, entry.vendors.values()) for entry in DIALECTS}
    remedies = {}
    for entry in DIALECTS:
        own = found[entry.name]
        other = next((one for one in found.values() if one not in (own, None)), None)
        if any(one is not None and entry.name in one.lacks for one in found.values()):
            home = entry.vendors[entry.home]
            remedies[entry.name] = (
                f"{parts.hostname} has no {entry.title}: for that, name another upstream in "
                f"`upstreams`, with the url https://{home.hosts[0]}{home.base_path} for example"
            )
        elif (
            own is not None
            and other is not None
            and not entry.has_own_version
            and _is_of_other(parts.path, own, other)
        ):
            # Any path but /v1 goes to the same path of the host.
            base = own.base_path if entry.base_path else own.base_path.removesuffix(_V1)
            remedies[entry.name] = f"the {entry.title} of {parts.hostname} has another path: " + (
                f"set upstream_url to {parts.scheme}://{parts.hostname}{own.base_path}"
                if own.base_path == _V1
                else f"set {entry.base_variable} to http://<this proxy>{base}"
            )
    return remedies


def api_paths(upstream_url: str) -> frozenset[str]:
    """Return the paths of an upstream's host at which APIs are known to be, that of its URL too."""
    found = (upstream_at(upstream_url, entry.vendors.values()) for entry in DIALECTS)
    return frozenset({urlsplit(upstream_url).path, *(one.base_path for one in found if one)})


def client_settings(url: str, upstream_url: str) -> dict[str, list[DialectEntry]]:
    """
    Return the variable of each sort of client, with its base URL -> the dialects that it is for.

    Args:
        url: The proxy's own URL, without a path.
        upstream_url: As for `lacking_apis`.
    """
    lacking = lacking_apis(upstream_url)
    found: dict[str, list[DialectEntry]] = {}
    for entry in DIALECTS:
        if entry.name not in lacking:
            place = f"{entry.base_variable}={base_url_at(url, entry.name)}"
            found.setdefault(place, []).append(entry)
    return found


def base_path(upstream_url: str, dialect: str) -> str:
    """Return the path of the proxy at which a dialect of an upstream begins."""
    entry = next(entry for entry in DIALECTS if entry.name == dialect)
    if not entry.has_own_version:
        return _V1
    own = upstream_at(upstream_url, entry.vendors.values())
    return (own.base_path if own is not None else "") or version_in(upstream_url) or _V1


def _is_of_other(path: str, own: Upstream, other: Upstream) -> bool:
    """Return whether a vendor has another API at a path, and this one elsewhere."""
    if own.name != other.name or own.base_path in ("", path):
        return False
    return path == other.base_path or (not other.base_path and path == _V1)


def path_fault(
    path: str, upstream_path: str, lacking: Container[str] = (), apis: Collection[str] = ()
) -> PathFault | None:
    """
    Return the likely mistake that led to a path; None if there is none.

    Args:
        path: Path of the client's request, without the query. The upstream did not find it.
        upstream_path: Path of the upstream's URL.
        lacking: Names of the dialects that the upstream does not have there.
        apis: Result of `api_paths`.
    """
    is_mapped = path.startswith(f"{_V1}/")
    rest = path.removeprefix(_V1) if is_mapped else path
    dialect, is_known = dialect_of(route_of("POST", path)), _is_known(rest[1:])
    is_handled, names_version = dialect != "", dialect in _OWN_VERSION
    other = _OTHER_VERSION.match(rest if names_version else path)
    behind = _BEHIND.match(path)
    # Of several, the first one.
    shows = {
        PathFault.ENDPOINT: _TWO_ENDPOINTS.search(rest),
        PathFault.DOUBLE_V1: rest.startswith(f"{_V1}/")
        or (other and names_version and rest != path),
        PathFault.DOUBLE_SLASH: "//" in path and _is_handled(re.sub("/+", "/", path)),
        PathFault.TRAILING_SLASH: path.endswith("/") and _is_handled(path.rstrip("/")),
        PathFault.OTHER_VERSION: other and is_handled and not names_version,
        PathFault.LETTER_CASE: _is_handled(path.lower())
        and (not is_handled or _UPPER_VERSION.match(path)),
        PathFault.PREFIX: behind
        and _is_known(path[behind.end() :])
        and not {behind[1], behind[1] + behind[2]}.intersection((upstream_path, *apis)),
        PathFault.LACKS_API: dialect in lacking and (is_mapped or names_version),
        PathFault.MISSPELT: not is_known and _is_like_an_endpoint(rest[1:]),
        PathFault.UPSTREAM_LACKS_V1: is_known and not upstream_path,
        PathFault.LACKS_V1: is_known and not is_mapped,
    }
    return next((fault for fault, is_shown in shows.items() if is_shown), None)


def _is_known(rest: str) -> bool:
    """Return whether a path, without its version and the slash after that, is of a known API."""
    first, _, second = rest.partition("/")
    known = (first, f"{first}/{second.partition('/')[0]}")
    return any(name in KNOWN for name in known)


def _is_handled(path: str) -> bool:
    """Return whether the proxy would act on a request to this path."""
    return dialect_of(route_of("POST", path)) != ""


def _is_like_an_endpoint(name: str) -> bool:
    if len(name) > _LONGEST:
        return False
    import difflib  # noqa: PLC0415 (only this advice needs it)

    return bool(difflib.get_close_matches(name, ENDPOINTS, n=1, cutoff=_ALIKE))


def fault_in_refusal(body: bytes) -> PathFault | None:
    """Return the mistake that a refusal names; `body` is decoded, or cut to its beginning."""
    is_named = _NEEDS_RESPONSES.search(read_error(body).message) is not None
    return PathFault.NEEDS_RESPONSES if is_named else None
