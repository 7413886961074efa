"""World: a stand-in without a socket. It emits turns and judges requests, for tables of rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.standin.answering import Behaviour, Issue, View, respond
from tests.standin.ledger import Ledger
from tests.standin.mint import Mint
from tests.standin.refusals import Refusal
from tests.standin.rules import Verdict, judge
from tests.standin.sealing import Sealer
from tests.standin.shapes import Body
from tests.standin.variants import Variant

Item = dict[str, Any]

ASK: Item = {"role": "user", "content": "What is the weather in Oslo?"}
MODEL = "gpt-5.4"
NOW_S = 1_763_600_000


class World:
    """One ledger, one key, and any number of callers; `more` are members of a request."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._sealer = Sealer(b"world")
        self._mint = Mint(b"world")

    def refusal(self, items: Sequence[Item], caller: str = "a", **more: Any) -> Refusal | None:
        """Judge a request; return its refusal, if any."""
        return self._verdict(_body(items, more), caller).refusal

    def message(self, items: Sequence[Item], caller: str = "a", **more: Any) -> str:
        """Judge a request, and return the text of the refusal; "" if it is accepted."""
        refusal = self.refusal(items, caller, **more)
        return "" if refusal is None else refusal.message

    def emit(self, variant: Variant = "one_call", **more: Any) -> list[Item]:
        """Answer a first request; return the items as in `done` events."""
        body = _body([ASK], more)
        verdict = self._verdict(body, "a")
        assert verdict.refusal is None, verdict.refusal
        turn = respond(body, verdict, Issue("a", self._mint, NOW_S), Behaviour(variant=variant))
        self._ledger.record(turn)
        view = View(turn=turn, sealer=self._sealer, encrypted=True)
        shown = [view.show(item, "done") for item in turn.answer.output]
        items: list[Item] = msgspec.to_builtins(shown)
        return items

    def _verdict(self, body: Body, caller: str) -> Verdict:
        return judge(body, caller, self._ledger, self._sealer)


def _body(items: Sequence[Item], more: Mapping[str, Any]) -> Body:
    """Decode a request as the server would."""
    raw = msgspec.json.encode({"model": MODEL, "input": items, **more})
    return msgspec.json.decode(raw, type=Body)


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
