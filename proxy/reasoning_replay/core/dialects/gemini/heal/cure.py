"""
Cure of a refused request to the Gemini API; see `cures`.

What a client makes of the parts of a response is undone (`arrangement`) if a signature is missing
although it is known, or if the words of the refusal are not known.

A signature that is not accepted is taken out if the refusal names it. If it names none: all that
the proxy injected, or if that is none, those of the client that are not known to be of this model.
A value of the client that asks the API not to check is never taken out.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.cures import RefusedRequest, SentReasoning, blobs_of_turns
from reasoning_replay.core.dialects.gemini.heal.diagnosis import Diagnosis
from reasoning_replay.core.dialects.gemini.items import ModelContent
from reasoning_replay.core.dialects.gemini.parts import Part, blob_of, is_sentinel
from reasoning_replay.core.dialects.gemini.request import GeminiRequest, read_request
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Lesson
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

ARRANGED: Final = "arranged"  # the lesson that upstream needs the parts of a response as emitted


class Signature(NamedTuple):
    """A signature in a request: the content and the part that hold it, and its digest."""

    content: int
    number: int
    part: Part
    holder: ModelContent
    blob: bytes


class RefusedGemini(RefusedRequest[GeminiRequest, Diagnosis]):
    """A refused request."""

    read = read_request
    about_order: ClassVar[frozenset[str]] = frozenset({"lacks_reasoning", "form"})

    @override
    def reasoning_in(self, request: GeminiRequest) -> Mapping[Hashable, SentReasoning]:
        return {
            one.blob: SentReasoning((one.blob,), len(one.part.signature))
            for one in signatures_in(request)
        }

    @override
    def due_in(self, request: GeminiRequest) -> AbstractSet[Hashable]:
        # A value that asks the API not to check counts as `unchecked`.
        signed = signatures_in(request)
        return {one.blob for one in signed if not is_sentinel(one.part.signature)}

    @override
    def is_concerned(self) -> bool:
        starts = [start for start, _ in self.given.contents]
        named = self._named
        is_about = not named or any(starts[one.content] in self.completed for one in named)
        return super().is_concerned() and is_about

    @override
    def edited(self) -> bytes:
        if self._is_arranged and self.diagnosis.kind in self.about_order:
            return self.planned
        is_about_blobs = self.diagnosis.kind in self.about_blobs
        if is_about_blobs and self._named:
            return without(self.sent, self._named)
        if not is_about_blobs or self.sent is not self.given:
            return super().edited()
        known = blobs_of_turns(self.turns, family(self.sent.model))
        return without(
            self.sent, [one for one in signatures_in(self.sent) if one.blob not in known]
        )

    @override
    def bare(self) -> bytes:
        return without(self.given, list(signatures_in(self.given)))

    @override
    def finished(self, cure: Cure, cured: GeminiRequest) -> Cure:
        if self.without_reasoning or not self._is_arranged or cure.body != self.planned:
            return cure
        return replace(cure, lessons=(*cure.lessons, Lesson(ARRANGED)))

    @property
    def _is_arranged(self) -> bool:
        return self.asked is not None and self.asked is not self.given

    @override
    def proven(self, lost: frozenset[bytes]) -> Collection[bytes]:
        return lost.intersection(one.blob for one in self._named)

    @cached_property
    def _named(self) -> Sequence[Signature]:
        """The signatures that the refusal names: by their place, or by their beginning."""
        said = self.diagnosis
        quoted = tuple(text.encode() for text in said.quoted)
        return [
            one
            for one in signatures_in(self.sent)
            if not is_sentinel(one.part.signature)
            and (
                one.part.signature[1:].startswith(quoted)
                or (one.content, one.number) == (said.content, said.part)
            )
        ]


def signatures_in(request: GeminiRequest) -> Iterator[Signature]:
    """Yield the signatures of the contents that have items, in order."""
    index_of = {start: index for index, (start, _) in enumerate(request.contents)}
    seen: set[int] = set()
    for place in request.places:
        holder = place.item.holder
        if holder.start in seen:
            continue
        seen.add(holder.start)
        for number, part in enumerate(holder.parts):
            if part.signed:
                blob = blob_of(part.signature)
                yield Signature(index_of[holder.start], number, part, holder, blob)


def without(request: GeminiRequest, gone: Sequence[Signature]) -> bytes:
    """
    Return a request without some signatures.

    A part that says nothing else goes as a whole, unless nothing would be left of its content.
    """
    edits: list[Edit] = []
    empty: dict[int, tuple[ModelContent, set[int]]] = {}
    for one in gone:
        if is_sentinel(one.part.signature):
            continue
        start, end = one.holder.spans[one.number]
        if one.part.is_silent and not one.part.is_thought:
            empty.setdefault(one.content, (one.holder, set()))[1].add(one.number)
            continue
        members = json_spans.members(request.body, start, end)
        edits.append(json_spans.remove(request.body, members, one.part.signed))
    for holder, numbers in empty.values():
        if len(numbers) < len(holder.spans):
            edits += json_spans.removals(holder.spans, numbers)
    return json_spans.apply(request.body, edits)
