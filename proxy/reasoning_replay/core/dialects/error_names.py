"""Error names: the code and the type of an upstream's error, which are words of its API."""

import re
from typing import Any

import msgspec

from reasoning_replay.core.dialects.captures import NO_NAMES, ErrorNames

__all__ = ["error_names"]

# A word without spaces. A text is left out, because it could quote the request.
_WORD = re.compile(r"[A-Za-z0-9][\w.:/-]{0,63}", re.ASCII)


def error_names(body: bytes | msgspec.Raw) -> ErrorNames:
    """
    Return the names of the error in a response body, or in the data of an event; never raises.

    Known forms: `{"error": {"code": …, "type": …}}`, `{"code": …, "error": "…"}` (xAI),
    `{"detail": {"code": …}}`, the event `error`, flat or nested, and a failed response.
    """
    try:
        error = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return NO_NAMES
    if isinstance(error, list):  # some gateways wrap it
        error = error[0] if error else None
    for member in ("response", "error", "detail"):
        inner = error.get(member) if isinstance(error, dict) else None
        if isinstance(inner, dict):
            error = inner
    if not isinstance(error, dict):
        return NO_NAMES
    kind = _word(error.get("type"))
    # A flat event has the type `error`, which names no error.
    return ErrorNames(_word(error.get("code")), "" if kind == "error" else kind)


def _word(value: Any) -> str:  # noqa: ANN401 (any JSON that an upstream sends)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""
