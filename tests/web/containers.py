"""Containers that live as long as a proxy: all that it leads to, by the names of their owners."""

import functools
import gc
import types
import weakref
from abc import ABC
from collections import deque
from collections.abc import (
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Reversible,
    Sequence,
    Sized,
)
from typing import Any, Generic, Protocol

import msgspec

OURS = "reasoning_replay."
CONTAINERS = (
    dict,
    list,
    set,
    bytearray,
    deque,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
)
# Bases without attributes of their own.
_PLAIN = {object, Generic, Protocol, ABC, tuple, msgspec.Struct, Sequence, Mapping, Collection}
_PLAIN |= {Reversible, Iterable, Container, Sized}
_NOT_FOLLOWED = (
    type,
    types.ModuleType,
    types.FrameType,
    types.CodeType,
    types.CoroutineType,
    str,
    bytes,
    int,
    float,
)


def containers_of(root: object) -> dict[str, list[Any]]:
    """
    Return the containers that an object leads to, by `module.Class.attribute`.

    A container in a container has the name of the outer one with `[]`; one that a function of the
    product holds, the name of the function and of its variable. Those of other packages' objects
    have no name, but what they lead to is followed.
    """
    found: dict[str, list[Any]] = {}
    seen: dict[int, object] = {}
    todo: list[tuple[str, object]] = [("", root)]
    while todo:
        name, one = todo.pop()
        if id(one) in seen or isinstance(one, _NOT_FOLLOWED):
            continue
        seen[id(one)] = one  # kept, so that its id is not used again
        if name and isinstance(one, CONTAINERS):
            found.setdefault(name, []).append(one)
        todo += _led_to(name, one)
    return found


def _led_to(name: str, one: object) -> Iterator[tuple[str, object]]:
    kind = type(one)
    if isinstance(one, types.FunctionType):
        if one.__module__.startswith(OURS):
            for variable, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True):
                full = f"{one.__module__.removeprefix(OURS)}.{one.__qualname__}({variable})"
                yield from ((full, value) for value in gc.get_referents(cell))
    elif kind.__module__.startswith(OURS):
        within = f"{kind.__module__.removeprefix(OURS)}.{kind.__qualname__}"
        yield from ((f"{within}.{attribute}", value) for attribute, value in _attributes(one))
        if isinstance(one, (tuple, *CONTAINERS)):
            yield from ((within, value) for value in gc.get_referents(one))
    elif isinstance(one, (tuple, frozenset, types.MappingProxyType)):
        yield from ((name, value) for value in gc.get_referents(one))
    elif isinstance(one, CONTAINERS):
        yield from ((name and f"{name}[]", value) for value in gc.get_referents(one))
    elif isinstance(one, functools.partial):
        yield from ((name, value) for value in (one.func, *one.args, *one.keywords.values()))
    else:
        yield from (("", value) for value in gc.get_referents(one))


def _attributes(one: object) -> Iterator[tuple[str, object]]:
    kinds = type(one).__mro__
    names = dict.fromkeys(getattr(one, "__dict__", {}))
    for kind in kinds:
        slots = kind.__dict__.get("__slots__", ())
        names |= dict.fromkeys([slots] if isinstance(slots, str) else slots)
    if isinstance(one, msgspec.Struct):
        names |= dict.fromkeys(one.__struct_fields__)
    ours = [kind for kind in kinds if kind.__module__.startswith(OURS)]
    if not set(kinds) - {*ours} <= _PLAIN:  # of another package, which has attributes of its own
        names = {name: None for name in names if any(_mentions(kind, name) for kind in ours)}
    for name in names:
        if name not in ("__dict__", "__weakref__") and hasattr(one, name):
            yield name, getattr(one, name)


def _mentions(kind: type, name: str) -> bool:
    """Return whether the code of a class has an attribute of this name."""
    functions = (value for value in vars(kind).values() if isinstance(value, types.FunctionType))
    return any(name in function.__code__.co_names for function in functions)
