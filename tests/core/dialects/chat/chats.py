"""Chats: one tenant's conversations, sent through the dialect with a small store."""

import json
from dataclasses import dataclass, field
from typing import Any

from reasoning_replay.core.dialects.base import Caller, Decision, Question
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.chat.streams import MODEL, answer
from tests.core.engines import engine_of
from tests.core.world import World

__all__ = ["CALLER", "Chats", "Message", "assistant", "body_of", "tool", "user"]

Message = dict[str, Any]
CALLER = Caller(b"s" * 16, NO_ACCOUNT)


def user(text: str) -> Message:
    """Return a user's message."""
    return {"role": "user", "content": text}


def assistant(content: Any = None, **more: Any) -> Message:
    """Return an assistant's message."""
    return {"role": "assistant", "content": content, **more}


def tool(text: str, call_id: str) -> Message:
    """Return the output of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@dataclass
class Chats:
    """The dialect, with a store that holds what it captures."""

    dialect: ChatDialect = field(default_factory=lambda: ChatDialect(GENERIC))
    store: World = field(default_factory=World)
    clock: int = 0
    is_shadow: bool = False

    def __post_init__(self) -> None:
        """Make the engine."""
        self.engine = engine_of(self.dialect, is_shadow=self.is_shadow)

    def asked(self, body: bytes) -> tuple[Question, LookupResult]:
        """Return the question about a request, and what the store has for it."""
        question = self.engine.ask(body, {}, b"t")
        return question, self.store.recall(question.request)

    def decide(self, body: bytes) -> Decision:
        """Return the decision about a request."""
        question, found = self.asked(body)
        return self.engine.decide(CALLER, body, question, found, is_created=True)

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
        self, messages: list[Message], message: Message, reason: str = "stop", **more: Any
    ) -> Message:
        """Answer a request with a message, store its turn, and return the message."""
        self.take(body_of(messages, **more), answer(message, reason))
        return message

    def take(self, body: bytes, response: bytes) -> Turn | None:
        """Store the turn of a response, and return it."""
        named = response.replace(b"chatcmpl-1", b"chatcmpl-%d" % (self.clock + 1))
        return self.keep(self.decide(body), named)

    def keep(self, decided: Decision, response: bytes) -> Turn | None:
        """Store the turn of the response to a request that was decided on, and return it."""
        self.clock += 1
        captured = self.engine.capture(decided.origin)
        if b"data:" in response[:200] or response.startswith(b":"):
            captured.feed(response)
            captured.close()
        else:
            captured.read(response)
        self.store.join(decided.joined)
        turn = captured.snapshot(self.clock).turn
        if turn is not None:
            self.store.keep(turn)
        return turn


def body_of(messages: list[Message], model: str = MODEL, **more: Any) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    top = {"model": model, "messages": messages, **more}
    return json.dumps(top, separators=(" , ", " : "))[:-1].encode() + b' , "temperature" : 1.0e0}'
