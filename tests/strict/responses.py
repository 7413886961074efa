"""
Responses with a fault switch: the strict API, with the accounts, backends and loops that tests set.

Each event that shows reasoning has another blob, and on some backends another id (recorded).
"""

import hashlib
from collections.abc import Container, Iterator, Sequence
from http import HTTPMethod
from typing import Any, Literal, NamedTuple

from aiohttp import hdrs, web
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import Reading, Refused, Rule, sse
from reasoning_replay.strict_api.ledger import Finding, Judgement, Part
from reasoning_replay.strict_api.responses import Responses, keep, response_of
from reasoning_replay.strict_api.responses_rules import BLOB, INCLUDE, Emitted
from reasoning_replay.strict_api.responses_words import MISSING, UNKNOWN_PREVIOUS
from reasoning_replay.strict_api.scenarios import Script, tokens_of
from typing_extensions import override

from tests.strict.backends import BackendRules, Quirks, family, is_reasoning_model
from tests.strict.scripts import LOOPS, Marked, Repeating
from tests.strict.upstream import Api, Behaviour, Received, Upstream
from tests.strict.websocket import Socket

__all__ = ["Continuity", "Issued", "ResponsesApi", "ResponsesBehaviour", "StrictResponses"]

Continuity = Literal["normal", "strict"]
Moment = Literal["added", "done", "completed"]
"""The event that shows an item."""

TURNS_KEPT = 10_000
# Tools of a request that declares none.
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}}
TOOLS: list[Item] = [
    {"type": "function", "name": "lookup", "parameters": QUERY},
    {"type": "custom", "name": "run"},
]
_DOCS = "the API's documentation"
TWO_HISTORIES = Rule(
    "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only"
    " providing one of them.",
    "not confirmed",
    "2026-11",
    param="previous_response_id",
    code="mutually_exclusive_parameters",
)
UNKNOWN_RESPONSE = Rule("Response with id '{}' not found.", "not confirmed", "2026-11", status=404)
WRONG_METHOD = Rule(
    "Not allowed to {} on this URL. (HINT: Perhaps you meant to use a different HTTP method?)",
    _DOCS,
    "2026-11",
    status=405,
    code="method_not_supported",
)


class ResponsesBehaviour(Behaviour, kw_only=True):
    """
    Behaviour of the upstream.

    Attributes:
        continuity: "strict" also refuses lost reasoning that the API would accept.
        always_encrypted: Send ciphertext without a request for it (`include`), as newer models do.
        empty_completed_output: `response.completed` has `output: []` (ChatGPT-login backend).
        rotate_ids: Ids in `added` and `completed` differ from those in `done` (GitHub Copilot).
        quirks: Differences from api.openai.com.
    """

    continuity: Continuity = "normal"
    always_encrypted: bool = False
    empty_completed_output: bool = False
    rotate_ids: bool = False
    quirks: Quirks = Quirks()


class Issued(NamedTuple):
    """The account, the model family and the item that one blob is valid for."""

    account: str
    family: str
    item_id: str


class ResponsesApi(Api, Responses):
    """
    The API of one account.

    Args:
        account: Its name.
        upstream: The server.

    Attributes:
        cached: Responses that may be continued although they are not stored.
        answers: Its responses, by id.
    """

    upstream: "StrictResponses"

    def __init__(self, account: str, upstream: "StrictResponses") -> None:
        super().__init__(Script())
        self.account, self.upstream, self.blobs = account, upstream, upstream.blobs
        self.cached: Container[str] = ()
        self.answers: dict[str, Item] = {}
        self._outputs: dict[str, list[Item]] = {}  # of each item's response

    @property
    def behaviour(self) -> ResponsesBehaviour:
        """What the test has set."""
        behaviour: ResponsesBehaviour = self.upstream.behaviour
        return behaviour

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
        self.answers.clear()

    # What it reads and refuses...

    @override
    def held(self, body: Item) -> list[Item]:
        previous, conversation = body.get("previous_response_id"), _conversation_of(body)
        if previous and conversation:
            raise TWO_HISTORIES(previous)
        if previous and previous not in self.answers and previous not in self.cached:
            raise UNKNOWN_PREVIOUS(previous)
        return self.histories.get(previous or conversation, [])

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        yield from self.queued()
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
    def stores(self, body: Item) -> bool:
        return super().stores(body) and not self.behaviour.quirks.keeps_nothing

    @override
    def hides(self, body: Item) -> bool:
        return not self.behaviour.always_encrypted and INCLUDE not in (body.get("include") or ())

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        kind = Repeating if self.behaviour.repeats else Marked
        self.script = kind(LOOPS[self.behaviour.loop])
        answer, said = super().answer({"tools": TOOLS, **body}, reading, judgement)
        if self.stores(body):
            keep(self.answers, answer["id"], answer, TURNS_KEPT)
        output = [self.emitted[item["id"]].item for item in answer["output"]]
        for item in output:
            keep(self._outputs, item["id"], output)
            if blob := item.get(BLOB):
                issued = Issued(self.account, family(str(body.get("model"))), item["id"])
                for one in (blob, _other(blob)):
                    keep(self.emitted, one, self.emitted[item["id"]])
                    keep(self.blobs, one, issued)
        name = _conversation_of(body) or answer["id"]
        keep(self.histories, name, [*reading.items, *output], TURNS_KEPT)
        return answer, said

    @override
    def output_for(self, body: Item, items: Sequence[Item]) -> list[Item]:
        output = super().output_for(body, items)
        if not is_reasoning_model(str(body.get("model"))):
            output = [item for item in output if item["type"] != "reasoning"]
        for at, item in enumerate(output):
            if item["type"] == "message":
                ends = not any("call_id" in one for one in output[at:])
                item["phase"] = "final_answer" if ends and item["content"] else "commentary"
            elif "call_id" in item and self.behaviour.loop == "call_zero":
                item["call_id"] = "call_0"
        return output

    @override
    def reasoning(self, body: Item, words: str) -> Item:
        made, quirks = super().reasoning(body, words), self.behaviour.quirks
        if quirks.thinks_aloud:
            made["content"] = [{"type": "reasoning_text", "text": words}]
        if quirks.thinks_aloud or not quirks.takes_blobs:
            del made[BLOB]
        return made

    @override
    def steps(self, answer: Item) -> Iterator[Item]:
        rotates = self.behaviour.rotate_ids
        for event in super().steps(answer):
            kind = event["type"]
            if kind == "response.completed":
                output = [shown(item, "completed", rotates=rotates) for item in answer["output"]]
                output = [] if self.behaviour.empty_completed_output else output
                event["response"] = {**answer, "output": output}
            if "item" in event:
                moment: Moment = "added" if kind.endswith("added") else "done"
                event["item"] = shown(event["item"], moment, rotates=rotates)
            elif "item_id" in event and rotates:
                event["item_id"] = _rotated(event["item_id"], "added")
            yield event

    @override
    def ended(self, answer: Item) -> tuple[int, Item]:
        return 200, {**answer, "output": [shown(one, "completed") for one in answer["output"]]}

    @override
    def error(self, refused: Refused) -> Item:
        error = super().error(refused)
        kind = getattr(refused, "type", error["error"]["type"])
        return {"error": error["error"] | {"type": kind}}


class StrictResponses(Upstream):
    """
    The Responses API on a socket, one API for each account.

    Args:
        loop, continuity, behaviour: Attributes of ResponsesBehaviour, kept as `behaviour`.

    Attributes:
        blobs: What each blob is valid for.
    """

    routes = ("/v1/responses",)
    behaviour: ResponsesBehaviour

    def __init__(
        self, loop: str = "one_call", continuity: Continuity = "normal", **behaviour: Any
    ) -> None:
        super().__init__(ResponsesBehaviour(loop=loop, continuity=continuity, **behaviour))
        self.blobs: dict[str, Issued] = {}

    @override
    def made_for(self, caller: str) -> ResponsesApi:
        return ResponsesApi(caller, self)

    @override
    def api_of(self, caller: str) -> ResponsesApi:
        own = self.behaviour.quirks.account
        api: ResponsesApi = super().api_of(f"{own}/{caller}" if own else caller)
        return api

    def expire(self) -> None:
        """Delete all that is stored."""
        for api in self.apis.values():
            api.expire()

    @override
    async def route(self, request: web.Request, received: Received, api: Any) -> web.StreamResponse:
        _, _, name = request.path.partition("/v1/responses/")
        if name == "input_tokens":
            body = self.read(received, api)
            tokens = 1 + tokens_of(body["input"])
            return self._whole(received, api, {"input_tokens": tokens})
        if name:
            return await self._stored(request, received, api, name)
        if request.path in self.routes and request.method != HTTPMethod.POST:
            if "websocket" not in request.headers.get(hdrs.UPGRADE, "").lower():
                raise WRONG_METHOD(request.method)
            if self.queue:
                raise self.queue.popleft()
            return await Socket(self, request, received, api).serve()
        return await super().route(request, received, api)

    def _whole(self, received: Received, api: ResponsesApi, body: Item) -> web.Response:
        return self.whole(received, api.written(body))

    async def _stored(
        self, request: web.Request, received: Received, api: ResponsesApi, name: str
    ) -> web.StreamResponse:
        """Show or delete a stored response."""
        stored = api.answers.get(name)
        if stored is None:
            raise UNKNOWN_RESPONSE(name)
        if request.method == HTTPMethod.DELETE:
            del api.answers[name]
            return self._whole(received, api, {"id": name, "deleted": True})
        if request.query.get("stream") != "true":
            return self._whole(received, api, stored)
        return await self.tell(request, received, api.events(stored))

    @override
    def refused_in_stream(self, api: Any, body: Item, refused: Refused) -> list[bytes]:
        form = self.behaviour.quirks.refuses_by
        if form == "status":
            return super().refused_in_stream(api, body, refused)
        error = api.error(refused)["error"]
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
        return [sse({**event, "sequence_number": number}) for number, event in enumerate(told)]


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
