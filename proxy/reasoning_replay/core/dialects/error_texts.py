"""
Error texts: what an upstream says about a failure, in any of the known structures.

Every dialect looks for its own errors in the texts: one table of each decides, and nothing is
guessed from a status alone. The names, which are words of an API, are for logs and metrics.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from reasoning_replay.core.dialects.lenient import value_of

ValueT = TypeVar("ValueT")
Table = tuple[tuple[re.Pattern[str], ValueT], ...]

# Statuses with which the APIs refuse bad input; 429 and 5xx responses are never healed.
_STATUSES = frozenset({400, 404, 409, 422})
# The error is at the start of a message; the rest may quote any text.
MESSAGE_MAX_CHARS = 4096
# Depth to which an error is searched. A gateway adds four levels around the error of a vendor:
# {"error": {"metadata": {"raw": "{\"error\": {\"message\": …}}"}}}.
_DEPTH_MAX = 8
_MEMBERS = (
    *("error", "detail", "message", "msg", "param", "code", "response"),
    *("metadata", "raw", "upstream_error"),  # of gateways: the error of the vendor
)
# A word without spaces. A text is no name, because it could quote the request.
_WORD = re.compile(r"[A-Za-z0-9][\w.:/-]{0,63}", re.ASCII)


class ErrorNames(NamedTuple):
    """
    Words of an API that name one of its errors; they never quote a request.

    Attributes:
        code: Such as `rate_limit_exceeded`; "" if it has none.
        type: Such as `invalid_request_error`; "" if it has none.
    """

    code: str = ""
    type: str = ""


NO_NAMES = ErrorNames()


class ErrorText(NamedTuple):
    """
    The texts of an error.

    Attributes:
        message: All messages in it, cut to a few thousand characters. A validation error has its
            path and type in front: "body.messages.1.x: extra_forbidden".
        params, codes: Its values of `param` and `code`.
    """

    message: str
    params: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def is_refusal(status: int) -> bool:
    """Return whether a response with this status is worth diagnosing."""
    return status in _STATUSES


def read_error(body: bytes) -> ErrorText:
    """
    Return the texts of an error.

    Args:
        body: Whole response body after content decoding: JSON, or plain text; or the data of an
            event.

    The structures are `{"error": {"message": …}}`, `{"error": "…", "code": …}` (xAI),
    `{"detail": "…"}`, a list of one of them (Google), two events, `{"type": "error", …}`, flat or
    nested, and a failed response, and any of these inside the error of a gateway.
    """
    said = list(_sayings(value_of(body)))
    if not said:
        return ErrorText(body.decode("utf-8", "replace")[:MESSAGE_MAX_CHARS])
    message = " ".join(text for name, text in said if name not in ("param", "code"))
    return ErrorText(
        message[:MESSAGE_MAX_CHARS],
        tuple(text for name, text in said if name == "param"),
        tuple(text for name, text in said if name == "code"),
    )


def _sayings(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every (member, text) that may belong to an error."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, str):
        inner = value_of(value) if value[:1] in ("{", "[") else None
        if inner is None:
            yield name, value
        else:
            yield from _sayings(inner, name, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _sayings(each, name, depth + 1)
    elif isinstance(value, dict):
        yield from _in_members(value, depth + 1)


def _in_members(value: dict[str, object], depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(path := value.get("loc"), list):  # Pydantic's
        yield "path", f"{'.'.join(map(str, path))}: {value.get('type')}"
    for key in _MEMBERS:
        inner = value.get(key)
        if key == "response" and isinstance(inner, dict):
            yield from _sayings(inner.get("error"), "error", depth)
        else:
            yield from _sayings(inner, key, depth)


_UNSURE = frozenset({"form", "input"})
_NEVER_OF_EDITS = frozenset({"lacks_output", "lacks_call"})
# Refusals that no reasoning causes.
_NEVER_REASONING = frozenset(
    {"lacks_output", "lacks_text", "lacks_call", "include", "cache_key", "cache_diagnosis", "other"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal and the reason for it, as far as it may concern the proxy."""

    kind: StrEnum

    @property
    def is_understood(self) -> bool:
        """Whether the refusal was classified, so that a cure can be tried."""
        return self.kind != "other"

    @property
    def is_unsure(self) -> bool:
        """Whether it is only known to be about the history, or that it may be."""
        return self.kind in _UNSURE

    @property
    def may_be_of_edits(self) -> bool:
        """Whether an edit of the proxy may be the cause: none removes a call or an output."""
        return self.kind not in _NEVER_OF_EDITS

    @property
    def may_be_ours(self) -> bool:
        """Whether a request without reasoning may be accepted in place of the refused one."""
        return self.kind not in _NEVER_REASONING

    @property
    def incurable(self) -> str:
        """Its name, with whose fault it is, if no edit can cure it; "" if one may."""
        return ""

    @property
    def hint(self) -> str:
        """What an operator can do about it if it is not cured; "" if there is nothing to say."""
        return ""


def table_of(rows: Iterable[tuple[str, ValueT]]) -> Table[ValueT]:
    """Return a table of what texts mean; they are found in any case."""
    return tuple((re.compile(text, re.IGNORECASE), meaning) for text, meaning in rows)


def first_in(table: Table[ValueT], text: str) -> ValueT | None:
    """Return what the first matching row means; None if no row matches."""
    return next((meaning for said, meaning in table if said.search(text) is not None), None)


def error_names(body: bytes | msgspec.Raw) -> ErrorNames:
    """
    Return the code and the type of the error in a body, or in the data of an event; never raises.

    Known forms: `{"error": {"code": …, "type": …}}`, `{"code": …, "error": "…"}` (xAI),
    `{"detail": {"code": …}}`, the event `error`, flat or nested, and a failed response.
    """
    error = value_of(body)
    if isinstance(error, list):  # some gateways wrap it
        error = error[0] if error else None
    for member in ("response", "error", "detail"):
        inner = error.get(member) if isinstance(error, dict) else None
        error = inner if isinstance(inner, dict) else error
    members = error if isinstance(error, dict) else {}
    kind = _word(members.get("type"))
    # A flat event has the type `error`, which names no error.
    return ErrorNames(_word(members.get("code")), "" if kind == "error" else kind)


def _word(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""
