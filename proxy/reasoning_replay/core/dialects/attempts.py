"""
Attempts: what is sent after a refusal; never more than three requests for one of the client's.

1. The request as the proxy made it.
2. Its cure. If there is none, and the proxy had changed the request: the client's own bytes.
3. If the proxy had changed the request: the client's own bytes, so that no request is refused
   because of the proxy. Else the cure of the second refusal too, because a request may have two
   faults; or the request without any reasoning that the exchange can do without.

The client gets the refusal of its own bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from reasoning_replay.core.dialects.base import Bodies, Cure
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.lessons import lessons_of_form
from reasoning_replay.core.dialects.unknown_words import form_of

RETRIES_MAX = 2


class Wish(NamedTuple):
    """
    Something that may be sent next.

    Attributes:
        refusal: What it shall cure.
        bodies: The request that it cures; None: `cure` is known.
        without_reasoning: As in `Dialect.cure`.
    """

    refusal: Refusal
    bodies: Bodies | None
    without_reasoning: bool = False
    cure: Cure | None = None


@dataclass(slots=True)
class Attempts:
    """
    The retries of one refused request.

    Attributes:
        bodies: The request as it was first sent.
        tried: The retries, in order: what each shall cure, and what was sent.
    """

    bodies: Bodies
    tried: list[tuple[Refusal, Cure]] = field(default_factory=list)

    @property
    def has_tried_own(self) -> bool:
        """Whether upstream has got the client's own bytes."""
        return not self.bodies.is_edited or any(cure.is_clients_own for _, cure in self.tried)

    def wishes(self, refusal: Refusal) -> Iterator[Wish]:
        """Yield what may be sent after the newest refusal, best first; the first that exists is."""
        if refusal.incurable:
            return
        if not self.tried:
            if refusal.is_understood:
                yield Wish(refusal, self.bodies)
                yield from self._others(refusal, self.bodies)
        elif len(self.tried) < RETRIES_MAX:
            first, cure = self.tried[-1]
            if not self.has_tried_own:
                yield from self._others(first, self.bodies)
            elif refusal.is_understood:
                bodies = self._after(cure)
                if not refusal.is_unsure:
                    yield Wish(refusal, bodies)
                yield from self._others(refusal, bodies)

    def is_new(self, cure: Cure) -> bool:
        """Return whether upstream has not got these bytes yet."""
        return cure.body not in (self.bodies.sent, *(one.body for _, one in self.tried))

    def note(self, wish: Wish, cure: Cure) -> Cure:
        """Record that a wish is sent as this request, and return it with all that it teaches."""
        if self._is_built_on(wish, cure):
            cure = _with_first(cure, self.tried[-1][1])
        if self.tried and wish.bodies is not None and not self.tried[-1][1].is_clients_own:
            cure = replace(cure, present=self.tried[-1][1].present + cure.present)
        if wish.without_reasoning or (wish.refusal.is_unsure and cure.is_clients_own):
            more = lessons_of_form(
                without_reasoning=wish.without_reasoning, is_doubted=self.bodies.is_doubted
            )
            cure = replace(cure, lessons=(*cure.lessons, *more), withheld=())
        self.tried.append((wish.refusal, cure))
        return cure

    def _is_built_on(self, wish: Wish, cure: Cure) -> bool:
        """Return whether a cure edits the one before it, because a request has two faults."""
        is_own = wish.bodies is None or wish.without_reasoning or cure.is_clients_own
        return bool(self.tried) and not (is_own or self.tried[-1][1].is_clients_own)

    def _others(self, refusal: Refusal, bodies: Bodies) -> Iterator[Wish]:
        """Yield what is left if a refusal has no cure."""
        if not self.has_tried_own:
            if refusal.may_be_of_edits:
                yield Wish(refusal, None, cure=Cure(self.bodies.received, is_clients_own=True))
        elif refusal.may_be_ours:
            form = replace(refusal, kind=form_of(refusal))
            yield Wish(form, bodies, without_reasoning=True)

    def _after(self, cure: Cure) -> Bodies:
        """Return the request of a retry that was refused."""
        received, path = self.bodies.received, self.bodies.path
        if cure.is_clients_own:
            return Bodies(received, received, path)
        added = tuple([one for one in self.bodies.added if one.text in cure.body])
        return Bodies(received, cure.body, path, added=added)


def _with_first(cure: Cure, first: Cure) -> Cure:
    """Return a cure with what the cure that it edits teaches as well, if it is accepted."""
    return replace(
        cure,
        lessons=tuple(dict.fromkeys([*first.lessons, *cure.lessons])),
        lost=first.lost | cure.lost,
        completed=first.completed | cure.completed,
        withheld=(*first.withheld, *cure.withheld),
    )
