"""Tenant: one tenant's conversations, sent through a dialect with a small store."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from reasoning_replay.core.dialects.base import (
    Bodies,
    Caller,
    Cure,
    Decision,
    Dialect,
    Question,
)
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Lesson, Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.engines import answered, asked, engine_of
from tests.core.streams import heard
from tests.core.world import World

CALLER = Caller(b"s" * 16, NO_ACCOUNT)


@dataclass
class AnyTenant:
    """
    A dialect, with a store that holds what it captures.

    Attributes:
        clock: Number of responses; each gets an id of its own, made from RESPONSE_ID.
        hours: Time of the refusal memory.
        lessons: What the last cure taught.
    """

    RESPONSE_ID: ClassVar[bytes]

    dialect: Dialect[Any, Any]
    store: World = field(default_factory=World)
    clock: int = 0
    hours: float = 0
    is_shadow: bool = False
    lessons: tuple[Lesson, ...] = ()

    def __post_init__(self) -> None:
        """Make the engine."""
        self.engine = engine_of(self.dialect, lambda: 3600 * self.hours, is_shadow=self.is_shadow)

    def asked(self, body: bytes, path: str = "") -> tuple[Question, LookupResult]:
        """Return the question about a request, and what the store has for it."""
        question = asked(self.engine, body, CALLER.scope, path)
        return question, self.store.recall(question.request)

    def decide(self, body: bytes, path: str = "", *, fails: bool = False) -> Decision:
        """Return the decision about a request; its lookup may fail."""
        question, found = self.asked(body, path)
        held = None if fails else found
        return answered(self.engine, CALLER, body, question, held, is_created=True)

    def keep(
        self,
        decided: Decision,
        response: bytes,
        *,
        is_cured: bool = False,
        cured: Cure | None = None,
    ) -> Turn | None:
        """Store the turn of the response to a request that was decided on, and return it."""
        self.clock += 1
        captured = self.engine.capture(decided.origin)
        if is_cured or cured is not None:
            binding, continues = (cured.binding, cured.origin) if cured is not None else (b"", None)
            is_decided = cured is not None and cured.matched is not None
            captured.note_cure(binding, self.lessons, continues, is_decided=is_decided)
        named = response.replace(self.RESPONSE_ID, self.RESPONSE_ID[:-1] + b"%d" % self.clock)
        heard(captured, named)
        turn = captured.snapshot(self.clock).turn
        if turn is not None:
            self.store.keep(turn)
        return turn

    def cure_of(self, bodies: Bodies, refusal: Refusal, model: str = "") -> Cure | None:
        """Return the cure of a request that was refused for this reason, after it was accepted."""
        question = self.engine.ask_for_cure(bodies, refusal)
        found = self.store.found_by(question.lookups)
        cured = self.engine.cure(CALLER.scope, bodies, question, refusal, found)
        if cured is not None:
            of = model or question.request.model
            self.lessons = self.engine.lessons(refusal, cured, of)
            self.engine.learn(CALLER.scope, refusal, cured, of)
        return cured


def counted(decided: Decision) -> dict[str, int]:
    """Return the outcomes of a decision."""
    return {str(outcome): count for outcome, count in decided.outcomes.items()}
