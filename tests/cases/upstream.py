"""Upstreams of the cases: the strict API with the rules of the vendor that a report quotes."""

from collections.abc import Iterator
from typing import ClassVar, Final

from reasoning_replay.strict_api import Item, Script
from reasoning_replay.strict_api.dialect import Exchange, Reading, Refused, Rule
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.responses import Responses, keep, response_of
from reasoning_replay.strict_api.responses_rules import BLOB, INCLUDE, InputRules, Seen
from typing_extensions import override

from tests.cases.reading import Case

__all__ = ["VENDORS", "Vendor", "made"]

ALOUD: Final = {"type": "reasoning_text", "text": "It may rain."}

# Words that the reports quote.
NO_SUMMARY = Rule(
    "Input[{}] missing required field `summary`", "microsoft/agent-framework-go#783", ""
)
EXPIRED = Rule(
    "Referenced reasoning item '{}' was not found or has expired.", "agentscope#2420", ""
)
NOT_DECODED = Rule(
    "Could not decode the compaction blob. Ensure it is unmodified from the compact response.",
    "chenyme/grok2api#688",
    "",
    code="invalid-argument",
)
UNTAGGED = Rule(
    "Failed to deserialize the JSON body into the target type: data did not match any variant of"
    " untagged enum ModelInput",
    "Wei-Shaw/sub2api#4237",
    "",
    status=422,
)
NO_ARRAY = Rule("item['content'] is not an array", "ggml-org/llama.cpp#29159", "")
NO_REASONING = Rule(
    '{}.type "reasoning" is not a valid input item type', "looplj/axonhub#1657", "", param="input"
)
OTHER_ACCOUNT = Rule(
    "The encrypted content for item {} could not be verified. Reason: Encrypted content"
    " organization_id did not match the target organization.",
    "lidge-jun/opencodex#2247",
    "",
    code="invalid_encrypted_content",
)
TWICE = Rule("Duplicate item found with id {}.", "openai/openai-agents-python#4322", "")


class OpenAi(InputRules):
    """The strict rules; it takes what agents send each other, and no blob twice."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind != "agent_message":
            yield from super().shape(one)

    @override
    def reasoning(self) -> Iterator[Refused]:
        blobs = [one.blob for one in self.seen if one.blob]
        for blob in blobs:
            if blobs.count(blob) > 1:
                yield TWICE(blob)
        yield from super().reasoning()

    @override
    def damaged(self, one: Seen) -> Refused:
        return OTHER_ACCOUNT(one.id)


class Unpaired(OpenAi):
    """A vendor that reads reasoning, and demands none."""

    @override
    def pairs(self) -> Iterator[Refused]:
        yield from ()

    @override
    def is_looked_up(self, one: Seen) -> bool:
        return False


class Meta(Unpaired):
    """An item without a blob is looked up; it keeps nothing."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning" and "summary" not in one.item:
            yield NO_SUMMARY(one.at.removeprefix("input[").removesuffix("]"))
        if one.kind == "reasoning" and one.id and (not one.blob or self.looks_up(one)):
            yield EXPIRED(one.id)

    def looks_up(self, _one: Seen) -> bool:
        """Return whether an item with id and blob is looked up."""
        return False


class Unresolvable(Meta):
    """An item with an id is looked up even if its blob is there."""

    @override
    def looks_up(self, _one: Seen) -> bool:
        return True


class Codex(Unpaired):
    """Each item of reasoning with an id is looked up, and none is kept."""

    @override
    def is_looked_up(self, one: Seen) -> bool:
        return one.kind == "reasoning" or one.is_reference


class Xai(Unpaired):
    """Its reader is typed."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning" and one.item.get("content", []) is None:
            yield UNTAGGED()
        if one.kind == "reasoning" and "summary" not in one.item:
            yield NOT_DECODED()


class LlamaCpp(Unpaired):
    """It reads the text of reasoning."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning" and not isinstance(one.item.get("content"), list):
            yield NO_ARRAY()

    @override
    def reasoning(self) -> Iterator[Refused]:
        yield from ()


class OldCopilot(Unpaired):
    """It takes no reasoning."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning":
            yield NO_REASONING(one.at)


class Vendor(Responses):
    """
    The upstream of one case: it emits what the client's later requests hold.

    Attributes:
        asked: How many requests it has accepted.
    """

    rules: ClassVar[type[InputRules]] = OpenAi

    def __init__(self, case: Case) -> None:
        super().__init__(Script(is_marked=True))
        self.case, self.asked = case, 0

    @override
    def serve(self, body: Item, client: str) -> tuple[Exchange, Item]:
        exchange, answer = super().serve(body, client)
        if exchange.refused is None or not (
            self.case.upstream.get("sse_errors") and body["stream"]
        ):
            return exchange, answer
        begun = response_of(body, [], exchange.judgement) if exchange.judgement else {}
        return exchange._replace(refused=None), {**begun, "refused": exchange.refused}

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        given = {**body, "store": body.get("store", True) and self.case.upstream.get("keeps", True)}
        yield from self.rules(given, self.held(body), self.emitted, self.stored).refusals()

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        upstream, asked = self.case.upstream, self.asked
        self.asked += 1
        output = self.emits(asked)
        self.keep_pairs(output)
        if self.rules is LlamaCpp:
            output = [
                {**one, BLOB: "", "content": [ALOUD]} if one["type"] == "reasoning" else one
                for one in output
            ]
        is_foreign = upstream["account"] != "A" and asked == 0
        is_cut = self.is_cut(asked)
        shows = upstream.get("enc_default") or INCLUDE in (body.get("include") or ())
        shown = [{name: one[name] for name in one if shows or name != BLOB} for one in output]
        response = response_of(body, shown, judgement)
        if asked < len(self.case.names):
            response["id"] = self.case.names[asked]
        if is_foreign:  # of another account
            for one in output:
                self.emitted.pop(one.get(BLOB, ""), None)
        if body.get("store") is not False and upstream.get("keeps") and not is_cut:
            for one in shown:
                keep(self.stored, one["id"], one)
            keep(self.histories, response["id"], [*reading.items, *shown])
        said = [self.part_of(one, f"output[{at}]") for at, one in enumerate(output)]
        return {**response, "is_cut": is_cut}, said

    def emits(self, asked: int) -> list[Item]:
        """Return the output of the response to a request."""
        if asked < len(self.case.outputs):
            return self.case.outputs[asked]
        name = f"{asked:048x}"
        text = {"type": "output_text", "text": f"Answer {asked} of many.", "annotations": []}
        said = {"type": "message", "status": "completed", "role": "assistant", "content": [text]}
        thought = {"type": "reasoning", "summary": [], BLOB: f"gAAAA{name * 9}"}
        return [{"id": f"rs_{name}", **thought}, {"id": f"msg_{name}", **said}]

    def is_cut(self, asked: int) -> bool:
        """Return whether the response breaks off before its end, and is never stored."""
        return asked == 0 and self.case.name.startswith("f8_")

    @override
    def steps(self, answer: Item) -> Iterator[Item]:
        if refused := answer.pop("refused", None):
            yield {"type": "response.created", "response": {**answer, "status": "in_progress"}}
            yield {"type": "response.in_progress", "response": {**answer, "status": "in_progress"}}
            yield {"type": "error", **self.error(refused)}
            return
        is_cut = answer.pop("is_cut")
        for event in super().steps(answer):
            if is_cut and event["type"] == "response.completed":
                return
            if self.case.upstream.get("late_blob") and event["type"] == "response.output_item.done":
                item = event["item"]
                event["item"] = {name: item[name] for name in item if name != BLOB}
            yield event

    @override
    def error(self, refused: Refused) -> Item:
        if self.rules is Xai:
            return {"code": refused.code, "error": refused.message}
        return super().error(refused)


VENDORS: Final[dict[str, type[InputRules]]] = {
    "openai": OpenAi,
    "meta": Meta,
    "codex": Codex,
    "xai": Xai,
    "llamacpp": LlamaCpp,
    "copilot_old": OldCopilot,
}


def made(case: Case) -> Vendor:
    """Return the upstream of a case."""
    vendor = Vendor(case)
    rules = VENDORS[case.upstream["vendor"]]
    vendor.rules = Unresolvable if case.upstream.get("id_unresolvable") else rules  # type: ignore[misc]
    return vendor
