"""Tenant: one tenant's conversations, sent through the dialect with a small store."""

import json
from dataclasses import dataclass, field
from typing import Any

from reasoning_replay.core.dialects.anthropic.dialect import FOREIGN, MessagesDialect
from reasoning_replay.core.dialects.anthropic.profiles import PROFILES, Profile
from reasoning_replay.core.dialects.base import Bodies, Cure

from tests.core.dialects.anthropic.streams import MODEL, Block, answer
from tests.core.dialects.tenant import AnyTenant, counted

Message = dict[str, Any]
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
class Tenant(AnyTenant):
    """The dialect, with a store that holds what it captures."""

    RESPONSE_ID = b"msg_1"

    dialect: MessagesDialect = field(default_factory=dialect_of)

    def send(self, messages: list[Message], model: str = MODEL, **more: Any) -> list[Message]:
        """Return the messages that upstream receives."""
        decided = self.decide(body_of(messages, model, **more))
        received: list[Message] = json.loads(decided.body)["messages"]
        return received

    def outcomes(self, messages: list[Message], **more: Any) -> dict[str, int]:
        """Return the outcomes of the decision about a request."""
        return counted(self.decide(body_of(messages, **more)))

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

    def cure(self, given: bytes, sent: bytes, message: str) -> Cure:
        """Return the cure of a refused request, and learn from it as if it was accepted."""
        cured = self.maybe_cure(given, sent, message)
        assert cured is not None
        return cured

    def maybe_cure(self, given: bytes, sent: bytes, message: str) -> Cure | None:
        """Return the same; None if the refusal is passed on."""
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        refusal = self.engine.readers.diagnose(400, json.dumps(error).encode())
        return self.cure_of(Bodies(given, sent), refusal)
