"""Contents: one tenant's conversations with Gemini, through the dialect with a small store."""

import json
from dataclasses import dataclass, field
from typing import Any

from reasoning_replay.core.dialects.base import Caller, Cure, Decision, RefusedBodies
from reasoning_replay.core.dialects.gemini.capture import GeminiCapture
from reasoning_replay.core.dialects.gemini.dialect import FOREIGN, GeminiDialect
from reasoning_replay.core.dialects.gemini.heal.diagnosis import diagnose
from reasoning_replay.core.dialects.gemini.profiles import GENERIC
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.engines import engine_of
from tests.core.world import World

__all__ = [
    "MODEL",
    "SIG",
    "Client",
    "answer",
    "body_of",
    "call",
    "chunk",
    "model",
    "output",
    "said",
    "stream",
    "user",
]

MODEL = "gemini-3-pro-preview"
SIG = "EpwCCpkCAQ+/w=="
SCOPE = b"s" * 16
CALLER = Caller(SCOPE, NO_ACCOUNT)

Part = dict[str, Any]
Content = dict[str, Any]


def said(text: str, **more: Any) -> Part:
    """Return a text."""
    return {"text": text, **more}


def call(city: str = "Paris", *, call_id: str = "", **more: Any) -> Part:
    """Return a call of a tool."""
    function: Part = {"name": "get_weather", "args": {"city": city}}
    return {"functionCall": function | ({"id": call_id} if call_id else {}), **more}


def output(text: str = "sunny", *, call_id: str = "") -> Content:
    """Return the output of a call, as the client sends it."""
    function: Part = {"name": "get_weather", "response": {"result": text}}
    return user({"functionResponse": function | ({"id": call_id} if call_id else {})})


def user(*parts: Part | str) -> Content:
    """Return a content of the user."""
    return {"role": "user", "parts": [said(one) if isinstance(one, str) else one for one in parts]}


def model(*parts: Part) -> Content:
    """Return a content of the model."""
    return {"role": "model", "parts": [*parts]}


def chunk(*parts: Part, reason: str = "", name: str = MODEL) -> bytes:
    """Return one chunk of an answer, as Google spaces it."""
    candidate: Part = {"content": {"parts": [*parts], "role": "model"}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 5}
    top = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": name}
    return json.dumps(top | {"responseId": "r1"}, indent=2).encode()


def answer(*parts: Part, reason: str = "STOP", name: str = MODEL) -> bytes:
    """Return a whole answer."""
    return chunk(*parts, reason=reason, name=name)


def stream(*chunks: bytes) -> bytes:
    """Return chunks as server-sent events."""
    lines = [b"data: " + json.dumps(json.loads(one)).encode() + b"\r\n\r\n" for one in chunks]
    return b"".join(lines)


def body_of(contents: list[Content], **more: Any) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    top = {"contents": contents, **more}
    return json.dumps(top, separators=(" , ", " : "))[:-1].encode() + b' , "n" : 1.0e0}'


@dataclass
class Client:
    """The dialect, with a store that holds what it captures."""

    name: str = MODEL
    store: World = field(default_factory=World)
    clock: int = 0

    def __post_init__(self) -> None:
        """Make the engine."""
        self.engine = engine_of(GeminiDialect(GENERIC, (FOREIGN,)))

    def path(self, name: str = "") -> str:
        """Return the path of a request for a model."""
        return f"/v1beta/models/{name or self.name}:generateContent"

    def decide(self, body: bytes, name: str = "") -> Decision:
        """Return the decision about a request."""
        question = self.engine.ask(body, {}, SCOPE, self.path(name))
        found = self.store.recall(question.request)
        return self.engine.decide(CALLER, body, question, found, is_created=True)

    def send(self, *contents: Content, name: str = "") -> list[Content]:
        """Return the contents that upstream receives."""
        received: list[Content] = json.loads(self.decide(body_of([*contents]), name).body)[
            "contents"
        ]
        return received

    def outcomes(self, *contents: Content, name: str = "") -> dict[str, int]:
        """Return the outcomes of the decision about a request."""
        outcomes = self.decide(body_of([*contents]), name).outcomes
        return {str(outcome): count for outcome, count in outcomes.items()}

    def learn(self, contents: list[Content], response: bytes) -> Turn:
        """Answer a request, store the turn of the answer, and return it."""
        self.clock += 1
        decided = self.decide(body_of(contents))
        assert decided.origin is not None
        capture = GeminiCapture(decided.origin, 1 << 20)
        if response.startswith(b"data:"):
            capture.feed(response.replace(b"r1", b"r%d" % self.clock))
            capture.close()
        else:
            capture.read(response.replace(b"r1", b"r%d" % self.clock))
        turn = capture.snapshot(self.clock).turn
        assert turn is not None
        self.store.join(decided.joined)
        self.store.keep(turn)
        return turn

    def cure(
        self, contents: list[Content], message: str, status: int = 400, *, sent: bytes | None = None
    ) -> Cure | None:
        """Return the cure of a request that was refused with this message, as it was sent."""
        given = body_of(contents)
        bodies = RefusedBodies(given, self.decide(given).body if sent is None else sent)
        bodies.path = self.path()
        error = {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
        refusal = diagnose(status, json.dumps(error).encode())
        question = self.engine.ask_for_cure(bodies, refusal)
        found = self.store.recall(question.request)
        cure = self.engine.cure(SCOPE, bodies, question, refusal, found)
        if cure is not None:
            self.engine.learn(SCOPE, refusal, cure, self.name)
        return cure
