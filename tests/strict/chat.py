"""Chat Completions with a fault switch: one vendor of the strict API, with what tests set."""

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.chat import Chat, index_of
from reasoning_replay.strict_api.chat_vendors import VENDORS
from reasoning_replay.strict_api.dialect import Reading, Refused, Rule
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.scenarios import Script
from typing_extensions import override

from tests.strict.scripts import Marked, Repeating
from tests.strict.upstream import Api, Behaviour, Upstream

__all__ = ["FAMILIES", "LOOPS", "ChatBehaviour", "FamilyName", "StrictChat"]

FamilyName = Literal[
    "deepseek", "kimi", "gemini", "openrouter", "lenient", "litellm", "groq", "cerebras"
]
CallIndex = Literal["own", "zero", "none"]
"""The `index` of a streamed call: its own, always 0 with a new id, or missing (recorded)."""
PIECE_CHARS = 9
BLANK_LINES = b"\n         \n\n         \n"
LOOPS: Mapping[str, tuple[str, ...]] = {
    "one_call": ("RC", "RA"),
    "parallel": ("RCCC", "RA"),
    "chain": ("RC", "RC", "RA"),
    "gaps": ("RC", "C", "RC", "A"),
    "preamble": ("RTC", "RA"),
    "text": ("RA",),
    "plain": ("C", "A"),
}
# The vendors do not notice it, so the words are the test's own.
NEVER_EMITTED = Rule(
    "messages[{}] has reasoning that is not what was emitted for it (test)", "tests", "2026-11"
)


class Family(Struct, frozen=True):
    """A model of a vendor, the path of its base URL, and the profile of the proxy that fits."""

    model: str
    path: str = "/v1"
    profile: str = ""


FAMILIES: Mapping[FamilyName, Family] = {
    "deepseek": Family("deepseek-v4-flash"),
    "kimi": Family("kimi-k3", profile="moonshot"),
    "gemini": Family("gemini-3.8-flash", "/v1beta/openai"),
    "openrouter": Family("google/gemini-3.1-pro-preview", "/api/v1"),
    # Any local server: it reads what its chat template keeps, and refuses nothing.
    "lenient": Family("qwen3.6-27b", profile="generic"),
    "litellm": Family("claude-sonnet-4-5", profile="generic"),
    "groq": Family("openai/gpt-oss-120b", "/openai/v1"),
    "cerebras": Family("zai-glm-4.7"),
}


class ChatBehaviour(Behaviour, kw_only=True):
    """
    Behaviour of the upstream.

    Attributes:
        ids: The form of the ids of its calls: that of a vendor, or `counter`, `empty`; "" for its
            own. Those of `kimi`, `counter` and `empty` repeat in every turn.
        call_index: See CallIndex; None for that of its vendor.
        halves: Whether a delta may end inside a character, as an escaped half of it.
    """

    ids: str = ""
    call_index: CallIndex | None = None
    halves: bool = False


class ChatApi(Api, Chat):
    """The API of one caller."""

    upstream: "StrictChat"

    @property
    def behaviour(self) -> ChatBehaviour:
        """What the test has set."""
        behaviour: ChatBehaviour = self.upstream.behaviour
        return behaviour

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        yield from self.queued()
        if self.upstream.name == "lenient":
            return
        yield from super().refusals(body, reading, judgement)
        for one in judgement.lost if self.vendor in {"deepseek", "kimi", "openrouter"} else ():
            if one.state in {"damaged", "misplaced", "repeated"}:
                yield NEVER_EMITTED(index_of(one.path))

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        kind = Repeating if self.behaviour.repeats else Marked
        self.script = kind(LOOPS[self.behaviour.loop])
        return super().answer(body, reading, judgement)

    @override
    def call_id(self, name: str, at: int) -> str:
        match self.behaviour.ids:
            case "":
                return super().call_id(name, at)
            case "counter":
                return f"call_{at}"
            case "empty":
                return ""
            case "random":
                return f"call_{secrets.token_hex(12)}"
            case vendor:
                return VENDORS[vendor].call_id(name, at)

    @override
    def cut(self, text: str) -> Iterator[str]:
        if not self.behaviour.halves:
            for at in range(0, len(text), PIECE_CHARS):
                yield text[at : at + PIECE_CHARS]
            return
        units = text.encode("utf-16-le")
        for at in range(0, len(units), 2 * PIECE_CHARS):
            yield units[at : at + 2 * PIECE_CHARS].decode("utf-16-le", "surrogatepass")

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        for frame in super().events(answer):
            kind, _, data = frame.partition(b": ")
            if kind == b"data" and data[:1] == b"{":
                chunk = json.loads(data)
                for choice in chunk["choices"]:
                    self._renumber(choice["delta"].get("tool_calls") or ())
                frame = b"data: " + self._spelled(chunk) + b"\n\n"  # noqa: PLW2901
            yield frame

    def _renumber(self, calls: Any) -> None:
        for call in calls:
            if self.behaviour.call_index == "zero":
                call["index"] = 0
            elif self.behaviour.call_index == "none":
                call.pop("index", None)

    def _spelled(self, value: object) -> bytes:
        """Return JSON; half of a character can only be written as an escape."""
        if self.behaviour.halves or self.upstream.name == "lenient":
            return json.dumps(value).encode()
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    @override
    def written(self, value: object) -> bytes:
        is_answer = isinstance(value, dict) and "choices" in value
        return BLANK_LINES * (self.vendor == "openrouter" and is_answer) + self._spelled(value)


class StrictChat(Upstream):
    """
    One vendor's Chat Completions on a socket.

    Args:
        name: The vendor.
        behaviour: Attributes of ChatBehaviour, kept as `behaviour`.
    """

    routes = ("chat/completions",)
    behaviour: ChatBehaviour

    def __init__(self, name: FamilyName = "deepseek", **behaviour: Any) -> None:
        self.name, self.family = name, FAMILIES[name]
        profile = self.family.profile or name
        super().__init__(ChatBehaviour(**behaviour), self.family.path, profile)

    @property
    def model(self) -> str:
        """A model of this vendor that reasons."""
        return self.family.model

    @override
    def made_for(self, caller: str) -> ChatApi:
        return ChatApi(Script())
