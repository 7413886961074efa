"""
Strict continuity: refuses lost reasoning also where dropped ids hide the loss from the API.

The API accepts a call without id and without reasoning; only the quality of the response suffers. A
replaying proxy repairs exactly this damage, so the judge of the proxy must detect it: every call
and message that was emitted to this caller after reasoning is recognised, by id, `call_id` or text.
It must come with that reasoning, by id or by any of its blobs, directly before its group.

Not demanded: reasoning of an unfinished turn, or of a model of another family; neither may be
replayed. If several emitted items fit one input item (a `call_id` used twice, a text emitted
twice), each is taken once, and the request has the benefit of the doubt.
"""

from collections.abc import Iterator, Sequence

import msgspec

from tests.standin import refusals
from tests.standin.ledger import Emitted
from tests.standin.pairing import Bench, Seen
from tests.standin.refusals import Refusal
from tests.standin.shapes import plain_text

__all__ = ["losses"]


def losses(seen: Sequence[Seen], bench: Bench) -> Iterator[Refusal]:
    """Yield one refusal for each item that lacks its reasoning in the emitted place."""
    run: list[str] = []
    restored: set[tuple[str, ...]] = {()}
    taken: set[str] = set()
    for one in seen:
        if one.kind == "reasoning":
            run.append(_reasoning_id(one, bench))
            continue
        candidates = [item for item in _candidates(one, bench) if item.id not in taken]
        if candidates:
            fit = next((item for item in candidates if _ahead(item, run)), None)
            fit = fit or next((item for item in candidates if item.required in restored), None)
            fit = fit or next((item for item in candidates if _excused(item, bench)), None)
            if fit is None:
                lost = candidates[0]
                yield refusals.missing_reasoning(lost.id, lost.type, _first_missing(lost, run))
            else:
                restored.add(fit.required)
            taken.add((fit or candidates[0]).id)
        run = []


def _reasoning_id(one: Seen, bench: Bench) -> str:
    if one.id is not None:
        return one.id
    binding = bench.sealer.maybe_open(one.item.encrypted_content or "")
    return "" if binding is None else binding.item_id


def _ahead(item: Emitted, run: Sequence[str]) -> bool:
    return bool(item.required) and tuple(run[-len(item.required) :]) == item.required


def _excused(item: Emitted, bench: Bench) -> bool:
    turn = bench.ledger.maybe_turn(item.response_id, bench.caller)
    if turn is None or not turn.finished or turn.family != bench.family:
        return True
    return set(item.required) <= bench.known


def _first_missing(item: Emitted, run: Sequence[str]) -> str:
    return next((one for one in item.required if one not in run), item.required[0])


def _candidates(one: Seen, bench: Bench) -> Sequence[Emitted]:
    """Return the emitted items that this one may be: by its id, else its call, else its text."""
    if one.emitted is not None:
        return (one.emitted,)
    if one.kind == "message" and one.item.role == "assistant":
        return bench.ledger.by_text(plain_text(one.item.content), bench.caller)
    if one.item.call_id is None or not one.by_model:
        return ()
    calls = [
        item
        for item in bench.ledger.by_call(one.item.call_id, bench.caller)
        if (item.type, item.name) == (one.kind, one.item.name)
    ]
    said = _canonical(msgspec.json.decode(one.item.arguments))
    exact = [item for item in calls if _canonical(item.arguments) == said]
    return exact or calls


def _canonical(arguments: object) -> object:
    """Decode arguments to a value: clients re-serialise them, so spacing and key order change."""
    try:
        return msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    except msgspec.DecodeError:
        return arguments
