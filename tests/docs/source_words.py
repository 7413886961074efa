"""Fixed words of the source that no enum has: log events, and codes of error responses."""

import ast
import functools
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

from tests.docs.page_tables import PACKAGE

# Calls that write an event: the start of a pattern of the called name -> levels, further fields.
_WRITERS = {
    r".*\.(fail_open|warn)": ({"warning"}, {"request_id", "reason"}),
    r"FailOpen": ({"warning"}, {"reason"}),
    r".*\blog\.write": ({"info", "warning", "error"}, set[str]()),
}
_LEVEL = re.compile(r"\b_?log\.(debug|info|warning|error)\b")


class Event(NamedTuple):
    """
    One place in the source that writes an event.

    Attributes:
        levels: Levels that the event may have there.
        fields: Names of its fields, as far as the call shows them.
    """

    name: str
    levels: frozenset[str]
    fields: frozenset[str]


class ErrorCode(NamedTuple):
    """Code of one error response; the status is None if it is known only at run time."""

    code: str
    status: int | None


@functools.cache
def events() -> list[Event]:
    """Return every place that writes an event; its name is the first literal of the call."""
    found = [Event("log_lines_lost", frozenset({"warning"}), frozenset({"lines"}))]  # by the log
    for call in _calls():
        called = ast.unparse(call.func)
        levels, fields = set(_LEVEL.findall(called)), {word.arg for word in call.keywords}
        for pattern, (more_levels, more_fields) in _WRITERS.items():
            if re.fullmatch(pattern, called):
                levels, fields = more_levels, fields | more_fields
        names = _texts(call)
        if levels and names:
            known = frozenset(field for field in fields if field)
            found.append(Event(names[0], frozenset(levels), known))
    return found


@functools.cache
def error_codes() -> list[ErrorCode]:
    """Return the code and the status of every error response in the source."""
    found = []
    for call in _calls():
        made = re.search(r"\b(ErrorResponse|_bad)\b", ast.unparse(call.func))
        if made and (codes := _texts(call)):
            written = "400" if made[1] == "_bad" else ast.unparse(call.args[0])
            name = written.removeprefix("HTTPStatus.")
            known = HTTPStatus[name].value if name in HTTPStatus.__members__ else None
            found.append(ErrorCode(codes[0], int(name) if name.isdigit() else known))
    return found


def _calls() -> Iterator[ast.Call]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield node


def _texts(call: ast.Call) -> list[str]:
    """Return the string literals among the arguments of a call."""
    given = (one.value for one in call.args if isinstance(one, ast.Constant))
    return [value for value in given if isinstance(value, str)]
