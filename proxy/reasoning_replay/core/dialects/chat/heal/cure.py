"""
Cure of a refused request to the Chat Completions API; see `cures`.

It applies the same edit to every affected message, because upstream names only the first one:

- A member is not accepted: it is taken out of every message.
- A signature is not accepted: those that the refusal quotes are taken out, else all that the proxy
  injected.

If the operator allows it, places that still lack reasoning get a filler (`fillers`).
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import NAMES, Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.heal.fillers import FILLERS, Filler, with_fillers
from reasoning_replay.core.dialects.chat.heal.message_editor import (
    edited,
    messages_of,
    without,
)
from reasoning_replay.core.dialects.chat.members import Part, reasoning_of
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.dialects.cures import RefusedRequest, SentReasoning
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.history.model_names import family

_Parts = Mapping[int, Sequence[Part]]
_FILLER = "filler"  # the kind under which a filler that was accepted is recorded


@dataclass(eq=False)
class RefusedChat(RefusedRequest[ChatRequest, Diagnosis]):
    """A refused request; `fills` says whether the operator allows fillers."""

    read = read_request

    fills: bool = field(default=False, kw_only=True)
    _filler: Filler | None = field(default=None, init=False)

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        self._theirs, self._ours = _parts_of(self.given), _parts_of(self.sent)

    @override
    def reasoning_in(self, request: ChatRequest) -> Mapping[Hashable, SentReasoning]:
        return {
            (index, part): SentReasoning(_blobs(part), len(part.name) + len(part.value) + 3)
            for index, parts in _parts_of(request).items()
            for part in parts
            if self._filler is None or part.value != self._filler.value
        }

    @override
    def is_concerned(self) -> bool:
        starts = {index: message.start for index, message in messages_of(self.given).items()}
        quoted = {
            starts.get(index)
            for index, parts in self._ours.items()
            if any(map(self._is_quoted, parts))
        }
        is_about = not quoted or not quoted.isdisjoint(self.completed)
        return super().is_concerned() and is_about

    @override
    def fulfilled(self) -> bytes:
        return self._filled(self.planned, FILLERS.get(self.diagnosis.wanted))

    @override
    def edited(self) -> bytes:
        if self.diagnosis.kind is RefusalKind.FIELD:
            return self._without(lambda _, part: part.name in self.diagnosis.refused)
        if self.diagnosis.kind is not RefusalKind.BLOB:
            return super().edited()
        if any(self._is_quoted(part) for parts in self._ours.values() for part in parts):
            body = self._without(lambda _, part: self._is_quoted(part))
        else:
            body = self._without(
                lambda index, part: part not in self._theirs.get(index, ()) and bool(_blobs(part))
            )
        left_out = _left_out(self._ours, _parts_of(read_request(body, {})))
        names = (part.name for part in left_out if part.name in FILLERS)
        return self._filled(body, FILLERS.get(next(names, "")))

    @override
    def bare(self) -> bytes:
        messages = messages_of(self.given)
        new = {n: without(one, one, lambda _: True) for n, one in messages.items()}
        return edited(self.given, new)

    @override
    def proven(self, lost: frozenset[bytes]) -> Collection[bytes]:
        parts = (part for parts in self._ours.values() for part in parts if self._is_quoted(part))
        return lost.intersection(blob for part in parts for blob in _blobs(part))

    def _filled(self, body: bytes, filler: Filler | None) -> bytes:
        if filler is None or not self.fills:
            return body
        body, filled_in = with_fillers(read_request(body, {}), filler)
        self.degraded = len(filled_in)
        self._filler = filler if filled_in else None
        return body

    def _without(self, is_refused: Callable[[int, Part], bool]) -> bytes:
        """Return the refused request without the parts that are refused."""
        given = messages_of(self.given)
        new = {
            index: without(message, given[index], partial(is_refused, index))
            for index, message in messages_of(self.sent).items()
            if index in given
        }
        return edited(self.sent, new)

    def _is_quoted(self, part: Part) -> bool:
        """Return whether the refusal quotes the beginning of a signature in this part."""
        return any(b'"' + quoted.encode() in part.value for quoted in self.diagnosis.quoted)


def _parts_of(request: ChatRequest) -> _Parts:
    return {index: message.parts for index, message in messages_of(request).items()}


def _left_out(before: _Parts, after: _Parts) -> list[Part]:
    """Return the parts of a request that another form of it does not have."""
    return [
        part
        for index, parts in before.items()
        for part in parts
        if part not in after.get(index, ())
    ]


def _blobs(part: Part) -> tuple[bytes, ...]:
    reasoning = reasoning_of(part.name, part.value, is_of_call=part.call is not None)
    return reasoning.blobs if reasoning is not None else ()


# Lessons: what upstream would refuse again from the same tenant and model


class Learnt(NamedTuple):
    """
    What is known of a model from its refusals within the last hour.

    Attributes:
        refused: Members that it does not accept.
        demands: Whether it refuses messages without their reasoning.
        fillers: Members whose fillers it accepted in place of reasoning.
    """

    refused: frozenset[str] = frozenset()
    demands: bool = False
    fillers: tuple[str, ...] = ()


_NOTHING = Learnt()


def lessons(refusal: Diagnosis, cure: Cure, model: str) -> Iterator[tuple[str, str]]:
    """Yield what an accepted cure teaches about a model; see `Dialect.lessons`."""
    of = family(model)
    for name in refusal.refused:
        yield RefusalKind.FIELD, f"{name} {of}"
    if refusal.kind is RefusalKind.LACKS_REASONING:
        yield RefusalKind.LACKS_REASONING, of
    if cure.degraded:
        name = refusal.wanted or "extra_content"  # the only filler in place of a signature
        yield _FILLER, f"{name} {of}"


def learnt_of(refused: KnownRefusals, model: str) -> Learnt:
    """Return what is known of a model; nothing, at the cost of one look, in the usual case."""
    if refused.is_empty:
        return _NOTHING
    of, has = family(model), refused.has
    return Learnt(
        frozenset(name for name in NAMES if has(RefusalKind.FIELD, f"{name} {of}")),
        has(RefusalKind.LACKS_REASONING, of),
        tuple(name for name in FILLERS if has(_FILLER, f"{name} {of}")),
    )
