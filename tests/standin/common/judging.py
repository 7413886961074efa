"""
Judging: what reasoning each message of a request should have, and what it has.

It reports facts, and refuses nothing; the rules of each API (rules.py) decide what is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tests.standin.common.ledger import Emission, Ledger, Visible

__all__ = ["Finding", "Message", "Reading", "State", "judge"]

Message = Mapping[str, Any]

State = Literal["equal", "missing", "renamed", "wrong", "other_model", "filler", "foreign"]
"""
equal: exactly as emitted for this message. missing: emitted, and not sent.
renamed: emitted for this message under another name; an API reads no name but its own.
wrong: emitted, but not for this message; or not what was emitted for it.
other_model: as emitted, but by a model that is not the one asked now.
filler: "" or a value that a vendor documents, where other or no reasoning was emitted.
foreign: never emitted here, in a message that was not emitted here; the client brought it along.
"""


class Finding(Struct, frozen=True):
    """One piece of reasoning of one assistant message: its index, its path, and its state."""

    index: int
    path: str
    state: State


class Reading(Struct, frozen=True):
    """
    The way in which the messages of one API are read.

    Attributes:
        visible: Returns what is visible of a message.
        reasoning_of: Returns the reasoning of a message, by its path.
        places: Yields the place of each message of a caller, and that of a next one.
        fillers: Values that the API documents for reasoning that is lost.
    """

    visible: Callable[[Message], Visible]
    reasoning_of: Callable[[Message], dict[str, Any]]
    places: Callable[[str, Sequence[Message]], Iterable[str]]
    fillers: tuple[str, ...] = ()


def judge(
    reading: Reading, caller: str, model: str, messages: Sequence[Message], ledger: Ledger
) -> list[Finding]:
    """Return a finding for each piece of reasoning that is sent or due."""
    where = reading.places(caller, messages)
    return [
        finding
        for index, (message, place) in enumerate(zip(messages, where, strict=False))
        if message.get("role") == "assistant"
        for finding in _judged(reading, index, message, place, caller, model, ledger)
    ]


def _judged(  # noqa: PLR0917 - a message, its place, who sent it, and what it is judged against
    reading: Reading,
    index: int,
    message: Message,
    place: str,
    caller: str,
    model: str,
    ledger: Ledger,
) -> Iterator[Finding]:
    sent, seen = reading.reasoning_of(message), reading.visible(message)
    fillers = reading.fillers
    candidates = ledger.at(place, seen) or ledger.alike(caller, seen)
    found = _best(candidates, sent, seen)
    if found is None:
        for path, value in sent.items():
            yield Finding(index, path, _without_origin(value, ledger, fillers))
        return
    emission, emitted = found
    is_same_model = emission.model == model
    for path, value in sent.items():
        if path in emitted and emitted[path] == value:
            yield Finding(index, path, "equal" if is_same_model else "other_model")
        elif path not in emitted and value in _strings([*emitted.values()]):
            yield Finding(index, path, "renamed")
        else:
            yield Finding(index, path, "filler" if _is_filler(value, fillers) else "wrong")
    for path in emitted:
        if path in emission.due and path not in sent:
            yield Finding(index, path, "missing")


def _strings(value: object) -> Iterator[str]:
    """Yield all strings in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _best(
    candidates: Sequence[Emission], sent: dict[str, Any], seen: Visible
) -> tuple[Emission, dict[str, Any]] | None:
    """Return the newest of the emissions that share most with what was sent."""
    best = None
    most = -1
    for one in reversed(candidates):
        emitted = _moved(one, seen)
        shared = sum(sent.get(path) == value for path, value in emitted.items())
        if shared > most:
            best, most = (one, emitted), shared
    return best


def _moved(emission: Emission, seen: Visible) -> dict[str, Any]:
    """Return the reasoning with the paths that it has in a message with other calls."""
    if emission.visible.calls == seen.calls:
        return dict(emission.reasoning)
    moved = {}
    for path, value in emission.reasoning.items():
        head, _, rest = path.partition(".")
        if head != "tool_calls":
            moved[path] = value
            continue
        number, _, member = rest.partition(".")
        call = emission.visible.calls[int(number)]
        if call in seen.calls:
            moved[f"tool_calls.{seen.calls.index(call)}.{member}"] = value
    return moved


def _without_origin(value: object, ledger: Ledger, fillers: tuple[str, ...]) -> State:
    if _is_filler(value, fillers):
        return "filler"
    return "wrong" if ledger.has_emitted(value) else "foreign"


def _is_filler(value: object, fillers: tuple[str, ...]) -> bool:
    if isinstance(value, dict):  # extra_content: {"google": {"thought_signature": "..."}}
        return all(_is_filler(inner, fillers) for inner in value.values())
    return value == "" or value in fillers
