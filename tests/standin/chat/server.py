"""
Stand-in server for Chat Completions: one family on a socket, judged by rules.py.

`behaviour` sets the loop, and the faults that a test needs.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.chat import Chat
from reasoning_replay.strict_api.dialect import Reading, Refused, canonical
from reasoning_replay.strict_api.ledger import Judgement, Part
from typing_extensions import override

from tests.standin.chat.answers import answer_of, cut_short, message_of, written
from tests.standin.chat.deltas import stream
from tests.standin.chat.families import FAMILIES, Family, FamilyName
from tests.standin.chat.messages import parts_of, reasoning_of, thoughts_of
from tests.standin.chat.model import ChatBehaviour, cue, perform
from tests.standin.chat.rules import error_of, refusals
from tests.standin.judging import JudgingServer, of_model
from tests.standin.script import Source

__all__ = ["ChatStandIn"]

BLANK_LINES = b"\n         \n\n         \n"


class ChatStandIn(JudgingServer, Chat):
    """
    A strict stand-in for one vendor's Chat Completions, serving while its context is open.

    Args:
        family: The vendor.
        behaviour: Attributes of ChatBehaviour, kept as `behaviour`.
    """

    routes = ("chat/completions",)
    behaviour: ChatBehaviour

    def __init__(self, family: FamilyName = "deepseek", **behaviour: Any) -> None:
        self.family = FAMILIES[family]
        self.behaviour = ChatBehaviour(**behaviour)
        super().__init__(self.family.path, self.family.profile or family)
        self._thoughts: defaultdict[str, set[str]] = defaultdict(set)  # of each caller
        self._wants_usage = False

    @override
    def read(self, body: Item) -> Reading:
        model, messages = body.get("model"), body["messages"]
        parts = [
            of_model(model, part)
            for at, message in enumerate(messages)
            for part in self._parts(message, f"messages[{at}]")
        ]
        return Reading(canonical([model, body.get("tools")]), messages, parts)

    def _parts(self, message: Item, path: str) -> Iterator[Part]:
        return parts_of(self.family, message, path, self._thoughts[self.caller])

    @override
    def rules(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        if self.family.name in {"deepseek", "kimi"}:
            yield from Chat.refusals(self, body, reading, judgement)
        yield from refusals(self.family, body, reading.items, judgement)

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        behaviour, family, model = self.behaviour, self.family, str(body.get("model"))
        source = Source(self.next_seed())
        turn = perform(cue(body), family, source, behaviour)
        if behaviour.end == "length":
            turn = cut_short(turn)
        made = message_of(family, model, turn)
        self._wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._thoughts[self.caller].update(thoughts_of(reasoning_of(made)))
        head = {
            "id": f"chatcmpl-{source.digits('id', 24)}",
            "created": int(time.time()),
            "model": model,
        }
        said = [] if behaviour.end == "error" else self._parts(made, "message")
        whole = answer_of(family, head, made, behaviour.end, judgement.tokens)
        return whole, [of_model(model, part) for part in said]

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        return stream(self._spelled(), answer, self.behaviour, wants_usage=self._wants_usage)

    @override
    def error(self, refused: Refused) -> Any:
        return error_of(self.family, refused)

    @override
    def written(self, value: object) -> bytes:
        is_answer = isinstance(value, dict) and "choices" in value
        blank = BLANK_LINES * (self.family.blank_lines and is_answer)
        return blank + written(self._spelled(), value)

    def _spelled(self) -> Family:
        """Return the family; half of a character can only be written as an escape."""
        return replace(self.family, spelling="ascii") if self.behaviour.halves else self.family
