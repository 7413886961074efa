"""
Path faults: the likely mistakes in a base URL, by the path of a request that was not found.

A path may also be right for the API and wrong for the model: the refusal says so itself.
"""

import re
from enum import StrEnum

from reasoning_replay.core.dialects.error_texts import read_error
from reasoning_replay.core.dialects.registry import ENDPOINTS, KNOWN

__all__ = ["PathFault", "fault_in_refusal", "path_fault"]

_TWO_ENDPOINTS = re.compile(rf"(?:/(?:{'|'.join(ENDPOINTS)})){{2}}\Z")
# Maps to the upstream's URL; any other path goes to the same path of its host.
_V1 = "/v1"
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
    DOUBLE_V1 = "double_v1"  # /v1/v1/responses
    ENDPOINT = "endpoint"  # /v1/responses/responses: the base URL ends in an endpoint
    UPSTREAM_LACKS_V1 = "upstream_lacks_v1"  # the path is right, and upstream_url has none
    NEEDS_RESPONSES = "needs_responses"  # the model takes such requests on /responses only


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


def fault_in_refusal(body: bytes) -> PathFault | None:
    """Return the mistake that a refusal names; `body` is decoded, or cut to its beginning."""
    is_named = _NEEDS_RESPONSES.search(read_error(body).message) is not None
    return PathFault.NEEDS_RESPONSES if is_named else None
