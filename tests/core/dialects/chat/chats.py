"""Chats: one tenant's conversations, sent through the dialect with a small store."""

import json
from dataclasses import dataclass, field
from typing import Any

from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC
from reasoning_replay.core.history.turns import Turn

from tests.core.dialects.chat.streams import MODEL, answer
from tests.core.engines import StoredEngine

Message = dict[str, Any]


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
class Chats(StoredEngine):
    """The dialect, with a store that holds what it captures."""

    response_id = b'"chatcmpl-1"'
    dialect: ChatDialect = field(default_factory=lambda: ChatDialect(GENERIC))

    def send(self, messages: list[Message], model: str = MODEL, **more: Any) -> list[Message]:
        """Return the messages that upstream receives."""
        return self.received(body_of(messages, model, **more))

    def outcomes(self, messages: list[Message], **more: Any) -> dict[str, int]:
        """Return the outcomes of the decision about a request."""
        return self.counts(body_of(messages, **more))

    def learn(
        self, messages: list[Message], message: Message, reason: str = "stop", **more: Any
    ) -> Message:
        """Answer a request with a message, store its turn, and return the message."""
        self.take(body_of(messages, **more), answer(message, reason))
        return message

    def take(self, body: bytes, response: bytes) -> Turn | None:
        """Store the turn of a response, and return it."""
        return self.keep(self.decide(body), response)


def body_of(messages: list[Message], model: str = MODEL, **more: Any) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    top = {"model": model, "messages": messages, **more}
    return json.dumps(top, separators=(" , ", " : "))[:-1].encode() + b' , "temperature" : 1.0e0}'
