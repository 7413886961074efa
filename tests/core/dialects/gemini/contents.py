"""Contents: one tenant's conversations with Gemini, through the dialect with a small store."""

import json
from dataclasses import dataclass, field
from typing import Any

from reasoning_replay.core.dialects.base import Bodies, Cure, Question
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.gemini.capture import GeminiCapture
from reasoning_replay.core.dialects.gemini.dialect import FOREIGN, GeminiDialect
from reasoning_replay.core.dialects.gemini.profiles import GENERIC
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Context, Turn

from tests.core.dialects.tenant import AnyTenant, counted

MODEL = "gemini-3-pro-preview"
SIG = "EpwCCpkCAQ+/w=="

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


def capture(max_bytes: int = 1 << 20, **more: Any) -> GeminiCapture:
    """Return the capture for a response to a request without history."""
    return GeminiCapture(Origin(Context(is_known=True), MODEL, **more), max_bytes)


def body_of(contents: list[Content], **more: Any) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    top = {"contents": contents, **more}
    return json.dumps(top, separators=(" , ", " : "))[:-1].encode() + b' , "n" : 1.0e0}'


def path_of(name: str = MODEL) -> str:
    """Return the path of a request for a model."""
    return f"/v1beta/models/{name}:generateContent"


@dataclass
class Client(AnyTenant):
    """The dialect, with a store that holds what it captures."""

    RESPONSE_ID = b"r1"

    dialect: GeminiDialect = field(default_factory=lambda: GeminiDialect(GENERIC, (FOREIGN,)))

    def asked(self, body: bytes, path: str = "") -> tuple[Question, LookupResult]:
        """Return the question about a request, and what the store has for it."""
        return super().asked(body, path or path_of())

    def send(self, *contents: Content, name: str = MODEL) -> list[Content]:
        """Return the contents that upstream receives."""
        body = self.decide(body_of([*contents]), path_of(name)).body
        received: list[Content] = json.loads(body)["contents"]
        return received

    def outcomes(self, *contents: Content, name: str = MODEL) -> dict[str, int]:
        """Return the outcomes of the decision about a request."""
        return counted(self.decide(body_of([*contents]), path_of(name)))

    def learn(self, contents: list[Content], response: bytes) -> Turn:
        """Answer a request, store the turn of the answer, and return it."""
        turn = self.keep(self.decide(body_of(contents)), response)
        assert turn is not None
        return turn

    def cure(self, contents: list[Content], message: str, sent: bytes | None = None) -> Cure:
        """Return the cure of a request that was refused with this message, as it was sent."""
        cure = self.maybe_cure(contents, message, sent)
        assert cure is not None
        return cure

    def maybe_cure(
        self, contents: list[Content], message: str, sent: bytes | None = None
    ) -> Cure | None:
        """Return the same; None if the refusal is passed on."""
        given = body_of(contents)
        bodies = Bodies(given, self.decide(given).body if sent is None else sent)
        bodies.path = path_of()
        error = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        refusal = self.engine.diagnose(400, json.dumps(error).encode())
        return self.cure_of(bodies, refusal, MODEL)
