"""
API of one account: the strict Responses API, with the loops, faults and quirks that tests set.

Each event that shows reasoning has another blob, and on some backends another id (recorded).
"""

import hashlib
import re
import secrets
from collections.abc import Container, Iterator
from typing import Literal, NamedTuple

from reasoning_replay.strict_api import Item, Script
from reasoning_replay.strict_api.dialect import Reading, Refused, Rule, sse
from reasoning_replay.strict_api.ledger import Finding, Judgement, Part
from reasoning_replay.strict_api.responses import Responses, keep, response_of
from reasoning_replay.strict_api.responses_rules import BLOB, INCLUDE, Emitted
from reasoning_replay.strict_api.responses_words import MISSING, UNKNOWN_PREVIOUS
from typing_extensions import override

from tests.standin.exchange import error_of
from tests.standin.quirks import Behaviour
from tests.standin.rules import BackendRules, family, is_reasoning_model
from tests.standin.variants import perform

__all__ = ["Api", "Issued", "shown", "veiled"]

Moment = Literal["added", "done", "completed"]
"""The event that shows an item."""

TURNS_KEPT = 10_000
_BLOB_BYTES = 745
_OBFUSCATION_BLOCK = 16
_MODEL_DATE = "-2026-03-05"
_HAS_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
TWO_HISTORIES = Rule(
    "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only"
    " providing one of them.",
    "not confirmed",
    "2026-11",
    param="previous_response_id",
    code="mutually_exclusive_parameters",
)


class Issued(NamedTuple):
    """The account, the model family and the item that one blob is valid for."""

    account: str
    family: str
    item_id: str


class Api(Responses):
    """
    The API of one account.

    Args:
        account: Its name.
        behaviour: The behaviour of the stand-in.
        blobs: The blobs of all accounts.

    Attributes:
        cached: Responses that may be continued although they are not stored.
        answers: Its responses, by id.
    """

    def __init__(self, account: str, behaviour: Behaviour, blobs: dict[str, Issued]) -> None:
        super().__init__(Script())
        self.account, self.behaviour, self.blobs = account, behaviour, blobs
        self.cached: Container[str] = ()
        self.answers: dict[str, Item] = {}
        self._outputs: dict[str, list[Item]] = {}  # of each item's response

    # Facts for judges...

    def led_to(self, item_id: str) -> list[Item]:
        """Return the items that reasoning led to."""
        items = self._outputs.get(item_id, ())
        return [item for item in items if item_id in self.emitted[item["id"]].required]

    def by_call(self, call_id: object) -> list[Emitted]:
        """Return every call that was emitted under a `call_id`."""
        return [one for one in self.emitted.values() if one.item.get("call_id") == call_id]

    def expire(self) -> None:
        """Delete all that is stored: from now on its ids cannot be looked up."""
        self.stored.clear()
        for answer in self.answers.values():
            answer["store"] = False

    def maybe_stored(self, response_id: object) -> Item | None:
        """Return a response that may be looked up."""
        answer = self.answers.get(str(response_id))
        return answer if answer is not None and answer["store"] else None

    # What it reads and refuses...

    @override
    def held(self, body: Item) -> list[Item]:
        previous, conversation = body.get("previous_response_id"), _conversation_of(body)
        if previous and conversation:
            raise TWO_HISTORIES(previous)
        if previous and self.maybe_stored(previous) is None and previous not in self.cached:
            raise UNKNOWN_PREVIOUS(previous)
        return self.histories.get(previous or conversation, [])

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        yield from BackendRules(self, body).refusals()

    @override
    def losses(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        """
        Refuse lost reasoning also where dropped ids hide the loss from the API.

        Only the quality of a response suffers then. A replaying proxy repairs exactly this damage,
        so the judge of the proxy must detect it. Not demanded: reasoning of a model of another
        family, which may not be replayed.
        """
        model = str(body.get("model"))
        if self.behaviour.continuity == "strict" and is_reasoning_model(model):
            sent = {part.value for part in reading.parts if part.kind == "reasoning"}
            for one in judgement.lost:
                if one.state != "foreign":
                    yield from self._lost(one, sent, family(model))

    def _lost(self, one: Finding, sent: set[str], of: str) -> Iterator[Refused]:
        parts = [emitted.part for emitted in self.ledger.turns[one.turn].parts]
        for at, part in enumerate(parts):
            led = next((it for it in parts[at:] if it.kind == "said"), None)
            if part.kind == "reasoning" and led is not None:
                issued = self.blobs.get(part.value)
                is_lost = part.value not in sent or one.state != "missing"
                if is_lost and (issued is None or issued.family == of):
                    kind = self.emitted[led.names[0]].item["type"]
                    yield MISSING(led.names[0], kind, part.names[0])

    # What it answers...

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        behaviour, quirks = self.behaviour, self.behaviour.quirks
        model = str(body.get("model"))
        output = self._output(body, reading.items)
        if behaviour.end == "incomplete":
            output[-1] = _cut_short(output[-1])
        self.keep_pairs(output)
        for item in output:
            keep(self._outputs, item["id"], output)
            if blob := item.get(BLOB):
                issued = Issued(self.account, family(model), item["id"])
                for one in (blob, _other(blob)):
                    keep(self.emitted, one, self.emitted[item["id"]])
                    keep(self.blobs, one, issued)
        is_shown = behaviour.always_encrypted or INCLUDE in (body.get("include") or ())
        conversation = _conversation_of(body)
        response = response_of(body, output, judgement)
        response |= {
            "status": behaviour.end,
            "model": model if _HAS_DATE.search(model) else model + _MODEL_DATE,
            "store": body.get("store") is not False and not quirks.keeps_nothing,
            "conversation": {"id": conversation} if conversation else None,
            "instructions": body.get("instructions"),
            "metadata": body.get("metadata") or {},
            "reasoning": body.get("reasoning") or {"effort": "medium", "summary": None},
            "tool_choice": body.get("tool_choice") or "auto",
        }
        if behaviour.end == "failed":
            message = "The stand-in is set to fail."
            response["error"] = {"code": "server_error", "message": message}
        if behaviour.end == "incomplete":
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        keep(self.answers, response["id"], response, TURNS_KEPT)
        if response["store"]:
            for item in output:
                keep(self.stored, item["id"], item)
        history = [*reading.items, *output]
        keep(self.histories, conversation or response["id"], history, TURNS_KEPT)
        # What was not finished may not be replayed.
        said = output if behaviour.end == "completed" else []
        sent = response if is_shown else veiled(response)
        return sent, [self.part_of(item, f"output[{at}]") for at, item in enumerate(said)]

    def _output(self, body: Item, items: list[Item]) -> list[Item]:
        quirks, model = self.behaviour.quirks, str(body.get("model"))
        output = perform(self.behaviour.variant, body, items, reasons=is_reasoning_model(model))
        summarises = (body.get("reasoning") or {}).get("summary") is not None
        for item in output:
            words = item.pop("words", None)
            if words and summarises:
                item["summary"] = [{"type": "summary_text", "text": words}]
            if words and quirks.thinks_aloud:
                item["content"] = [{"type": "reasoning_text", "text": words}]
            elif words and quirks.takes_blobs:
                item[BLOB] = "gAAAA" + secrets.token_urlsafe(_BLOB_BYTES)
        return output

    @override
    def steps(self, answer: Item) -> Iterator[Item]:
        behaviour = self.behaviour
        rotates = behaviour.rotate_ids
        for event in super().steps(answer):
            kind = event["type"]
            if kind == "response.completed":
                yield from self._ends(answer)
                return
            is_last = event.get("output_index") == len(answer["output"]) - 1
            if kind == "response.output_item.done" and is_last and answer["error"]:
                continue  # a failed response stops before it, as recorded
            if "item" in event:
                moment: Moment = "added" if kind.endswith("added") else "done"
                event["item"] = shown(event["item"], moment, rotates=rotates)
            elif "item_id" in event and rotates:
                event["item_id"] = _rotated(event["item_id"], "added")
            yield event

    def _ends(self, answer: Item) -> Iterator[Item]:
        if answer["error"]:
            # Nested, as in real streams; the specification has it flat.
            error = {**answer["error"], "type": answer["error"]["code"], "param": None}
            yield {"type": "error", "error": error}
            yield {"type": "response.failed", "response": {**answer, "output": []}}
            return
        rotates = self.behaviour.rotate_ids
        output = [shown(item, "completed", rotates=rotates) for item in answer["output"]]
        output = [] if self.behaviour.empty_completed_output else output
        yield {"type": f"response.{answer['status']}", "response": {**answer, "output": output}}

    def told(self, answer: Item, *, obfuscates: bool) -> Iterator[Item]:
        """Yield the events of a response, numbered; the API hides the length of deltas."""
        for number, event in enumerate(self.steps(answer)):
            if obfuscates and "delta" in event:
                size = _OBFUSCATION_BLOCK - len(event["delta"]) % _OBFUSCATION_BLOCK
                event["obfuscation"] = secrets.token_hex(_OBFUSCATION_BLOCK)[:size]
            yield {**event, "sequence_number": number}

    def refused(self, body: Item, refused: Refused) -> Iterator[bytes]:
        """Yield a refusal as the events of a stream that was accepted."""
        form = self.behaviour.quirks.refuses_by
        error = error_of(refused)
        failed = response_of(body, [], Judgement((), "", 0, 0, 0)) | {"status": "failed"}
        failed["error"] = {"code": error["code"] or error["type"], "message": error["message"]}
        told: list[Item] = [{"type": "response.failed", "response": failed}]
        if form == "flat_error":
            told.insert(0, {**error, "type": "error"})
        elif form in {"error", "late"}:
            told.insert(0, {"type": "error", "error": error})
        if form == "late":
            begun = {**failed, "status": "in_progress", "error": None}
            told.insert(0, {"type": "response.created", "response": begun})
        for number, event in enumerate(told):
            yield sse({**event, "sequence_number": number})


def shown(item: Item, moment: Moment, *, rotates: bool = False) -> Item:
    """Return an item as an event shows it: with the blob and the id of that event."""
    seen = dict(item)
    if BLOB in seen and moment != "done":
        other = _other(seen[BLOB])
        # That of an item that has only begun is shorter, and never accepted.
        seen[BLOB] = other if moment == "completed" else other[:860]
    if rotates and moment != "done":
        seen["id"] = _rotated(seen["id"], moment)
    return seen


def veiled(response: Item) -> Item:
    """Return a response without blobs."""
    output = [{name: it[name] for name in it if name != BLOB} for it in response["output"]]
    return {**response, "output": output}


def _other(blob: str) -> str:
    """Return the second blob of an item: two events, two blobs of one length, both valid."""
    return blob[:5] + blob[5:][::-1]


def _rotated(item_id: str, moment: Moment) -> str:
    """Return another id of the same type, always the same one for an item and a moment."""
    prefix, _, rest = item_id.partition("_")
    return f"{prefix}_{hashlib.sha256(f'{moment}/{rest}'.encode()).hexdigest()[: len(rest)]}"


def _conversation_of(body: Item) -> str:
    named = body.get("conversation") or ""
    return str(named["id"] if isinstance(named, dict) else named)


def _cut_short(item: Item) -> Item:
    """Cut an item in half, as a token limit does; no loop ends with any other item type."""
    half = {**item, "status": "incomplete"}
    for name in ("arguments", "input"):
        if name in item:
            half[name] = item[name][: len(item[name]) // 2]
    if "content" in item:
        parts = item["content"]
        half["content"] = [{**one, "text": one["text"][: len(one["text"]) // 2]} for one in parts]
    return half
