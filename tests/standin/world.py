"""World: a stand-in without a socket. It emits turns and judges requests, for tables of rules."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from tests.standin.answering import Behaviour, End, Issue, View, respond
from tests.standin.ledger import Ledger, Turn
from tests.standin.mint import Mint
from tests.standin.refusals import Refusal
from tests.standin.rules import Continuity, Verdict, judge
from tests.standin.sealing import Sealer
from tests.standin.shapes import Body
from tests.standin.variants import Variant

Item = dict[str, Any]

ASK: Item = {"role": "user", "content": "What is the weather in Oslo?"}
MODEL = "gpt-5.4"
NOW_S = 1_763_600_000


class More(TypedDict, total=False):
    """Members of a request in addition to its input; `model` replaces MODEL."""

    model: str
    store: bool
    include: list[str]
    background: bool
    previous_response_id: str
    conversation: str | dict[str, str]
    reasoning: dict[str, str]
    metadata: dict[str, str]
    tools: list[dict[str, str]]
    prompt_cache_key: str


class World:
    """One ledger, one key, and any number of callers."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.sealer = Sealer(b"world")
        self.mint = Mint(b"world")

    def body(self, items: Sequence[Item], **more: Unpack[More]) -> Body:
        """Decode a request as the server would."""
        raw = msgspec.json.encode({"model": MODEL, "input": items, **more})
        return msgspec.json.decode(raw, type=Body)

    def verdict(
        self,
        items: Sequence[Item],
        caller: str = "a",
        continuity: Continuity = "normal",
        **more: Unpack[More],
    ) -> Verdict:
        """Judge a request."""
        return judge(self.body(items, **more), caller, self.ledger, self.sealer, continuity)

    def refusal(
        self,
        items: Sequence[Item],
        caller: str = "a",
        continuity: Continuity = "normal",
        **more: Unpack[More],
    ) -> Refusal | None:
        """Judge a request, and return only its refusal."""
        return self.verdict(items, caller, continuity, **more).refusal

    def message(
        self,
        items: Sequence[Item],
        caller: str = "a",
        continuity: Continuity = "normal",
        **more: Unpack[More],
    ) -> str:
        """Judge a request, and return the text of the refusal; "" if it is accepted."""
        refusal = self.refusal(items, caller, continuity, **more)
        return "" if refusal is None else refusal.message

    def emit(
        self,
        variant: Variant = "one_call",
        items: Sequence[Item] = (ASK,),
        caller: str = "a",
        end: End = "completed",
        **more: Unpack[More],
    ) -> tuple[Turn, list[Item]]:
        """Answer an accepted request; return the turn and its items as in `done` events."""
        verdict = self.verdict(items, caller, **more)
        assert verdict.refusal is None, verdict.refusal
        turn = respond(
            self.body(items, **more),
            verdict,
            Issue(caller, self.mint, NOW_S),
            Behaviour(variant=variant, end=end),
        )
        self.ledger.record(turn)
        view = View(turn=turn, sealer=self.sealer, encrypted=True)
        shown = [view.show(item, "done") for item in turn.answer.output]
        return turn, msgspec.to_builtins(shown)


def without(item: Mapping[str, Any], *names: str) -> Item:
    """Return the item without the named members."""
    return {name: value for name, value in item.items() if name not in names}


def answers(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return one output for every call of a client's tool."""
    return [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "7 degrees"}
        for item in items
        if "call_id" in item
    ]


def as_input(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return the output as a client replays it: every item, and an output for every call."""
    return [*map(dict, items), *answers(items)]
