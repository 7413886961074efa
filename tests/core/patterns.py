"""Patterns: every regular expression of the package, and the texts that are the worst for it."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import reasoning_replay

# Characters of every kind. The first ones that a class accepts stand for it.
_KINDS = "a Z1\n.-_/:,'\"\\[]{}()<>&;=@\u00e9\u0301"
_OF_A_CLASS = 3
_PAIRED_MAX = 24
_APPENDED_MAX = 12
# Alternatives of a branch that are tried, each in all branches of the pattern at once.
_ALTERNATIVES_MAX = 40
_COPIES_MAX = 8


class Found(NamedTuple):
    """
    A pattern of the package.

    Attributes:
        name: Where it is: the module and its global variable.
        methods: The methods of it that are called; `findall` if that cannot be seen, which does as
            much work as any other.
    """

    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def patterns() -> list[Found]:
    """Return every pattern that a module of the package holds or writes out."""
    found: dict[re.Pattern[Any], Found] = {}
    visited: dict[int, object] = {}  # keeps the objects alive, so that no id is used twice
    for module in _modules():
        for name, value in vars(module).items():
            for pattern in _held(value, visited):
                methods = _called(module, name) if value is pattern else frozenset()
                known = Found(f"{module.__name__}.{name}", pattern, methods or _ANY_METHOD)
                found.setdefault(pattern, known)
    for name, pattern in _written():
        found.setdefault(pattern, Found(name, pattern, _ANY_METHOD))
    return list(found.values())


_ANY_METHOD = frozenset({"findall"})


def _modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(reasoning_replay.__path__, "reasoning_replay."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def _called(module: Any, name: str) -> frozenset[str]:
    """Return what a module calls of its own pattern; no other module uses a private name."""
    if not name.startswith("_"):
        return _ANY_METHOD
    called = set(re.findall(rf"\b{name}\.(\w+)", inspect.getsource(module)))
    return frozenset(called) if called <= {"match", "fullmatch"} else _ANY_METHOD


def _held(value: Any, visited: dict[int, object]) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in an object of a module: in containers, defaults and attributes, too."""
    if id(value) in visited:
        return
    visited[id(value)] = value
    inner: list[Any] = []
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        inner = [*value, *value.values()]
    elif isinstance(value, tuple | list | set | frozenset):
        inner = list(value)
    elif inspect.isfunction(value):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        inner = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *cells]
    elif inspect.ismethod(value) or inspect.isbuiltin(value):
        inner = [value.__self__]
    else:
        kind = value if isinstance(value, type) else type(value)
        if kind.__module__.startswith("reasoning_replay"):
            slots = [getattr(value, slot, None) for slot in getattr(kind, "__slots__", ())]
            inner = [*getattr(value, "__dict__", {}).values(), *slots]
    for each in inner:
        yield from _held(each, visited)


def _written() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the patterns that are written out in a call of a function of `re`."""
    root = Path(reasoning_replay.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=function),
                    args=[ast.Constant(value=str() | bytes() as written), *_],
                ) if function != "compile":
                    module = path.relative_to(root.parent).with_suffix("").parts
                    yield ".".join(module), re.compile(written)


def texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """
    Yield functions that return a text of a given size that repeats what a pattern looks for.

    That is each character of it, each pair, what it begins with up to each place where more than
    one character fits, and that with another character.
    """
    tree = _parser.parse(pattern.pattern, pattern.flags)
    leaves = [_leaves(tree, tree, nth) for nth in range(_ALTERNATIVES_MAX)]
    runs = dict.fromkeys(run for each in leaves for run in _prefixes(each) if run)
    chars = [char for each in leaves for leaf in each for char in leaf]
    atoms = [*dict.fromkeys([*chars, *" a1."])]
    pairs = ["".join(pair) for pair in product(atoms[:_PAIRED_MAX], repeat=2)]
    longer = [run + atom for run in runs for atom in atoms[:_APPENDED_MAX]]
    for unit in dict.fromkeys([*atoms, *runs, *pairs, *longer, "".join(atoms)]):
        yield _repeated(unit if isinstance(pattern.pattern, str) else unit.encode())


def _repeated(unit: Any) -> Callable[[int], Any]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def _prefixes(leaves: list[str]) -> Iterator[str]:
    run = ""
    for leaf in leaves:
        if len(leaf) != 1:
            yield run
        run += leaf[:1]
        if len(leaf) != 1:
            yield run
    yield run


def _leaves(tree: Any, nodes: Any, nth: int) -> list[str]:
    """Return the characters that fit at each place of a text that the pattern matches."""
    return [leaf for node in nodes for leaf in _leaves_of(tree, node, nth)]


def _leaves_of(tree: Any, node: Any, nth: int) -> list[str]:
    kind, given = str(node[0]), node[1]
    match kind:
        case "LITERAL":
            return [chr(given)]
        case "NOT_LITERAL" | "ANY" | "IN":
            return [_fitting(tree, node)]
        case "BRANCH":
            inner = given[1][nth % len(given[1])]
        case "SUBPATTERN":
            inner = given[-1]
        case "ATOMIC_GROUP":
            inner = given
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            inner = given[2]
        case _:  # a place, or a group that stood before
            inner = []
    copies = min(max(1, given[0]), _COPIES_MAX) if kind.endswith("REPEAT") else 1
    return _leaves(tree, inner, nth) * copies


def _fitting(tree: Any, node: Any) -> str:
    kind, given = str(node[0]), node[1]
    own = [chr(item[1]) for item in given if str(item[0]) == "LITERAL"] if kind == "IN" else []
    pattern = _compiler.compile(_parser.SubPattern(tree.state, [node]))
    fits = [char for char in (*_KINDS, *own) if pattern.fullmatch(char)]
    return "".join(dict.fromkeys([*fits[:_OF_A_CLASS], *fits[len(fits) - _OF_A_CLASS :]]))
