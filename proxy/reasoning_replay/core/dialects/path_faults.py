"""Path faults: the likely mistakes in a base URL, by the path of a request that was not found."""

import re
from enum import StrEnum

from reasoning_replay.core.dialects.routes import KNOWN

__all__ = ["PathFault", "path_fault"]

_TWO_ENDPOINTS = re.compile(r"(?:/(?:responses|chat/completions|messages)){2}\Z")
# Maps to the upstream's URL; any other path goes to the same path of its host.
_V1 = "/v1"


class PathFault(StrEnum):
    """Mistake in the base URL of a client, or in `upstream_url`."""

    LACKS_V1 = "lacks_v1"  # /responses
    DOUBLE_V1 = "double_v1"  # /v1/v1/responses
    ENDPOINT = "endpoint"  # /v1/responses/responses: the base URL ends in an endpoint
    UPSTREAM_LACKS_V1 = "upstream_lacks_v1"  # the path is right, and upstream_url has none


def path_fault(path: str, upstream_path: str) -> PathFault | None:
    """
    Return the likely mistake that led to a path; None if there is none.

    Args:
        path: Path of the client's request, without the query. The upstream did not find it.
        upstream_path: Path of the upstream's URL.
    """
    is_mapped = path.startswith(f"{_V1}/")
    rest = path.removeprefix(_V1) if is_mapped else path
    if _TWO_ENDPOINTS.search(rest):
        return PathFault.ENDPOINT
    if rest.startswith(f"{_V1}/"):
        return PathFault.DOUBLE_V1
    first, _, second = rest[1:].partition("/")
    if first not in KNOWN and f"{first}/{second.partition('/')[0]}" not in KNOWN:
        return None
    if not upstream_path:
        return PathFault.UPSTREAM_LACKS_V1
    return None if is_mapped else PathFault.LACKS_V1
