"""Tenant: one tenant's conversations, sent through the dialect with a small store."""

import json
from dataclasses import dataclass, field
from typing import Any

from reasoning_replay.core.dialects.anthropic.dialect import FOREIGN, MessagesDialect
from reasoning_replay.core.dialects.anthropic.profiles import PROFILES, Profile
from reasoning_replay.core.dialects.base import Caller, Cure, Decision, Question, RefusedBodies
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.anthropic.streams import MODEL, Block, answer
from tests.core.engines import engine_of
from tests.core.world import World

__all__ = [
    "ANTHROPIC",
    "BOUND",
    "CALLER",
    "Message",
    "Tenant",
    "assistant",
    "body_of",
    "dialect_of",
    "dropped",
    "result",
    "user",
]

Message = dict[str, Any]
CALLER = Caller(b"s" * 16, NO_ACCOUNT)
ANTHROPIC = PROFILES["anthropic"]
BOUND = "claude-fable-5-1"
REASONING = ("thinking", "redacted_thinking")


def user(content: Any) -> Message:
    """Return a user's message."""
    return {"role": "user", "content": content}


def assistant(*blocks: Any) -> Message:
    """Return an assistant's message."""
    return {"role": "assistant", "content": list(blocks)}


def result(call_id: str, text: str = "sunny") -> Message:
    """Return the message with the result of a call."""
    return user([{"type": "tool_result", "tool_use_id": call_id, "content": text}])


def dropped(messages: list[Message]) -> list[Message]:
    """Return a history as a client keeps it that drops reasoning."""
    return [
        message
        if isinstance(message["content"], str)
        else message | {"content": [b for b in message["content"] if b["type"] not in REASONING]}
        for message in messages
    ]


def body_of(messages: list[Message], model: str = MODEL, **more: Any) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    top = {"model": model, **more, "messages": messages}
    return json.dumps(top, separators=(" , ", " : "))[:-1].encode() + b' , "temperature" : 1.0e0}'


def dialect_of(
    profile: Profile = ANTHROPIC, *, repairs: tuple[str, ...] = (FOREIGN,), drops: bool = False
) -> MessagesDialect:
    """Return a dialect with all repairs switched on."""
    return MessagesDialect(profile, repairs, drops)


@dataclass
class Tenant:
    """
    The dialect, with a store that holds what it captures.

    Attributes:
        clock: Number of responses; also the time of the refusal memory, in hours.
    """

    dialect: MessagesDialect = field(default_factory=dialect_of)
    store: World = field(default_factory=World)
    clock: int = 0
    hours: float = 0
    is_shadow: bool = False

    def __post_init__(self) -> None:
        """Make the engine."""
        self.engine = engine_of(self.dialect, lambda: 3600 * self.hours, is_shadow=self.is_shadow)

    def asked(self, body: bytes) -> tuple[Question, LookupResult]:
        """Return the question about a request, and what the store has for it."""
        question = self.engine.ask(body, {}, b"t")
        return question, self.store.recall(question.request)

    def decide(self, body: bytes, *, fails: bool = False) -> Decision:
        """Return the decision about a request; its lookup may fail."""
        question, found = self.asked(body)
        held = None if fails else found
        return self.engine.decide(CALLER, body, question, held, is_created=True)

    def send(self, messages: list[Message], model: str = MODEL, **more: Any) -> list[Message]:
        """Return the messages that upstream receives."""
        decided = self.decide(body_of(messages, model, **more))
        received: list[Message] = json.loads(decided.body)["messages"]
        return received

    def outcomes(self, messages: list[Message], **more: Any) -> dict[str, int]:
        """Return the outcomes of the decision about a request."""
        outcomes = self.decide(body_of(messages, **more)).outcomes
        return {str(outcome): count for outcome, count in outcomes.items()}

    def learn(
        self,
        messages: list[Message],
        *blocks: Block,
        reason: str = "end_turn",
        fails: bool = False,
        **more: Any,
    ) -> Message:
        """Answer a request with these blocks, store the turn, and return the message."""
        self.keep(
            self.decide(body_of(messages, **more), fails=fails), answer(*blocks, reason=reason)
        )
        return assistant(*blocks)

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
            captured.note_cure(cured.binding if cured is not None else b"")
        if b"data:" in response[:200] or response.startswith(b":"):
            captured.feed(response)
            captured.close()
        else:
            captured.read(response.replace(b'"msg_1"', b'"msg_%d"' % self.clock))
        self.store.join(decided.joined)
        turn = captured.snapshot(self.clock).turn
        if turn is not None:
            self.store.keep(turn)
        return turn

    def cure(self, given: bytes, sent: bytes, message: str, status: int = 400) -> Cure | None:
        """Return the cure of a refused request, and learn from it as if it was accepted."""
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        refusal = self.engine.readers.diagnose(status, json.dumps(error).encode())
        bodies = RefusedBodies(given, sent)
        question = self.engine.ask_for_cure(bodies, refusal)
        found = self.store.recall(question.request)
        cured = self.engine.cure(CALLER.scope, bodies, question, refusal, found)
        if cured is not None:
            self.engine.learn(CALLER.scope, refusal, cured, question.request.model)
        return cured
