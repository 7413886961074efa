"""
Routes: the requests that belong to the Gemini API, by method and path.

The path names the model, and a method after a colon. Google Cloud has more before it, and tuned
models have other words in front.
"""

import re
from urllib.parse import unquote

from reasoning_replay.core.dialects.routes import RoutePath

GENERATE_CONTENT = "generate_content"
COUNT_TOKENS = "gemini_count_tokens"

# Of tuned models: AI Studio's, and Google Cloud's. The last path of a route is the one that people
# read.
_HOLDERS = ("endpoints", "tunedModels", "models")
ROUTES = tuple(
    RoutePath(route, "POST", f"/{holder}/{{model}}:{method}", creates=route == GENERATE_CONTENT)
    for holder in _HOLDERS
    for route, method in (
        (COUNT_TOKENS, "countTokens"),
        (GENERATE_CONTENT, "streamGenerateContent"),
        (GENERATE_CONTENT, "generateContent"),
    )
)
# Another API of Gemini, with other shapes.
OTHERS = {"interactions": "interactions"}
_MODEL = re.compile(rf"/(?:{'|'.join(_HOLDERS)})/([^/:]+?)(?::|%3[Aa])\w+\Z")


def model_in(path: str) -> str:
    """Return the model that the path of one of these routes names; "" if it names none."""
    found = _MODEL.search(path)
    return unquote(found.group(1)) if found is not None else ""
