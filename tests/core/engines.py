"""Engines of a dialect, as tests need them: alone, or with a store of what they capture."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

from reasoning_replay.core.dialects.base import (
    Caller,
    Cure,
    Decision,
    Dialect,
    Question,
    RefusedBodies,
)
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.world import World

CALLER = Caller(b"s" * 16, NO_ACCOUNT)


def engine_of(
    dialect: Dialect[Any, Any],
    clock: Callable[[], float] = lambda: 0.0,
    *,
    is_shadow: bool = False,
    adds_cache_keys: bool = False,
) -> Engine:
    """Return an engine that one thread uses, with a clock that stands still."""
    return Engine(
        dialect,
        clock,
        nullcontext(),
        1 << 20,
        is_shadow=is_shadow,
        adds_cache_keys=adds_cache_keys,
    )


@dataclass
class StoredEngine:
    """
    The engine of a dialect, with a store that holds what it captures.

    Attributes:
        key: Key of the history in a request.
        response_id: Id of the first response; each has another one.
        clock: Number of responses.
        hours: Time of the refusal memory.
    """

    key: ClassVar[str] = "messages"
    response_id: ClassVar[bytes]

    dialect: Dialect[Any, Any]
    store: World = field(default_factory=World)
    clock: int = 0
    hours: float = 0
    is_shadow: bool = False

    def __post_init__(self) -> None:
        """Make the engine."""
        self.engine = engine_of(self.dialect, lambda: 3600 * self.hours, is_shadow=self.is_shadow)

    def asked(self, body: bytes, path: str = "") -> tuple[Question, LookupResult]:
        """Return the question about a request, and what the store has for it."""
        question = self.engine.ask(body, {}, CALLER.scope, path)
        return question, self.store.recall(question.request)

    def decide(self, body: bytes, path: str = "", *, fails: bool = False) -> Decision:
        """Return the decision about a request; its lookup may fail."""
        question, found = self.asked(body, path)
        held = None if fails else found
        return self.engine.decide(CALLER, body, question, held, is_created=True)

    def received(self, body: bytes, path: str = "") -> list[dict[str, Any]]:
        """Return the history that upstream receives."""
        history: list[dict[str, Any]] = json.loads(self.decide(body, path).body)[self.key]
        return history

    def counts(self, body: bytes, path: str = "") -> dict[str, int]:
        """Return the outcomes of the decision about a request."""
        outcomes = self.decide(body, path).outcomes
        return {str(outcome): count for outcome, count in outcomes.items()}

    def keep(
        self,
        decided: Decision,
        response: bytes,
        *,
        is_cured: bool = False,
        cured: Cure | None = None,
    ) -> Turn | None:
        """Store the turn of the response to a request, which may have been cured; return it."""
        self.clock += 1
        captured = self.engine.capture(decided.origin)
        if is_cured or cured is not None:
            captured.note_cure(cured.binding if cured is not None else b"")
        name = self.response_id.replace(b"1", b"%d" % self.clock)
        named = response.replace(self.response_id, name)
        if b"data:" in response[:200] or response.startswith(b":"):
            captured.feed(named)
            captured.close()
        else:
            captured.read(named)
        self.store.join(decided.joined)
        turn = captured.snapshot(self.clock).turn
        if turn is not None:
            self.store.keep(turn)
        return turn

    def cured(self, bodies: RefusedBodies, status: int, error: Any, model: str = "") -> Cure | None:
        """Return the cure of a refused request, and learn from it as if it was accepted."""
        refusal = self.engine.readers.diagnose(status, json.dumps(error).encode())
        question = self.engine.ask_for_cure(bodies, refusal)
        found = self.store.recall(question.request)
        cure = self.engine.cure(CALLER.scope, bodies, question, refusal, found)
        if cure is not None:
            self.engine.learn(CALLER.scope, refusal, cure, model or question.request.model)
        return cure
