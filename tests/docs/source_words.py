"""Fixed words of the source that no enum has: log events, and codes of error responses."""

import ast
import functools
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from tests.docs.page_tables import PACKAGE

__all__ = ["ErrorCode", "Event", "error_codes", "events"]

_LEVELS = ("debug", "info", "warning", "error")
# The module of the log passes on the events of its callers, and writes one itself.
_LOG_MODULE = PACKAGE / "adapters/telemetry/log.py"
_RESPONSE = "ErrorResponse"


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
    """Return every place that writes an event; fail if the name is not a literal."""
    found: list[Event] = []
    for path, tree in _modules():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if path == _LOG_MODULE:
            found += [
                Event(_text(call.args[2]), frozenset({_text(call.args[1])}), _keys(call.args[3]))
                for call in calls
                if _names(call.func) == ["_line"] and isinstance(call.args[2], ast.Constant)
            ]
            continue
        helpers = [one for one in ast.walk(tree) if getattr(one, "name", "") == "warn"]
        passing_on = {call for one in helpers for call in ast.walk(one)}
        for call in calls:
            levels = _levels(call)
            if not levels or call in passing_on:
                continue
            at = 1 if _names(call.func) == ["write"] else 0
            name = _text(call.args[at])
            assert name, f"{path}:{call.lineno}: name the event with a literal"
            fields = frozenset(word.arg for word in call.keywords if word.arg)
            if _names(call.func) == ["warn"]:
                fields = frozenset({"request_id", "reason"})
            found.append(Event(name, levels, fields))
    return found


@functools.cache
def error_codes() -> list[ErrorCode]:
    """Return the code and the status of every error response in the source."""
    found: list[ErrorCode] = []
    for path, tree in _modules():
        helpers: dict[str, tuple[int, int | None]] = {}  # functions with the code as an argument
        for scope in [tree, *(one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS))]:
            for call in _calls_of(scope):
                if _names(call.func) != [_RESPONSE]:
                    continue
                status, code = call.args[:2]
                if isinstance(code, ast.Name) and isinstance(scope, _FUNCTIONS):
                    parameters = [one.arg for one in scope.args.args]
                    helpers[scope.name] = parameters.index(code.id), _status(status)
                    continue
                assert _text(code), f"{path}:{call.lineno}: name the code with a literal"
                found.append(ErrorCode(_text(code), _status(status)))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for name in helpers.keys() & set(_names(call.func)):
                at, known = helpers[name]
                assert _text(call.args[at]), f"{path}:{call.lineno}: name the code with a literal"
                found.append(ErrorCode(_text(call.args[at]), known))
    return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def _calls_of(scope: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a function or a module, without those in functions inside it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, _FUNCTIONS):
            yield from _calls_of(node)


def _names(function: ast.expr) -> list[str]:
    """Return the last part of the called name; several if the call chooses between functions."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.IfExp(body=one, orelse=other):
            return _names(one) + _names(other)
    return []


def _levels(call: ast.Call) -> frozenset[str]:
    """Return the levels at which a call writes an event; none if it writes no event."""
    choices = [call.func]
    if isinstance(call.func, ast.IfExp):
        choices = [call.func.body, call.func.orelse]
    found: set[str] = set()
    for choice in choices:
        match choice:
            case ast.Attribute(attr="warn"):
                found.add("warning")
            case ast.Attribute(value=owner, attr="write") if _is_log(owner):
                found |= {"info", "warning", "error"}
            case ast.Attribute(value=owner, attr=level) if level in _LEVELS and _is_log(owner):
                found.add(level)
    return frozenset(found)


def _is_log(owner: ast.expr) -> bool:
    return _names(owner) in (["log"], ["_log"])


def _keys(fields: ast.expr) -> frozenset[str]:
    assert isinstance(fields, ast.Dict)
    return frozenset(_text(key) for key in fields.keys if key is not None)


def _text(value: ast.expr) -> str:
    """Return the text of a string literal; "" for any other expression."""
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return str(value.value) if is_text and isinstance(value, ast.Constant) else ""


def _status(value: ast.expr) -> int | None:
    match value:
        case ast.Constant(value=int(number)):
            return number
        case ast.Attribute(value=ast.Name(id="HTTPStatus"), attr=name):
            return int(HTTPStatus[name])
    return None
