"""
Backends: how others with the same API as api.openai.com differ, and what they refuse.

Sources: recorded errors and public issue reports. The backend named with a quirk is the one it was
first reported for; others may have it too. Each quirk is one override of a rule of the strict API.
Blobs are bound to the account, to the item and to the model family.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import Refused, Rule
from reasoning_replay.strict_api.responses_rules import Emitted, InputRules, Seen, reasons
from reasoning_replay.strict_api.responses_words import (
    MISSING,
    MISSING_PARAMETER,
    NOT_FOUND,
    RENAMED,
    UNSUPPORTED,
)
from typing_extensions import override

from tests.strict.upstream import Refusal

if TYPE_CHECKING:
    from tests.strict.responses import ResponsesApi

__all__ = ["BackendRules", "OtherModel", "Quirks", "family", "is_reasoning_model"]

NotFound = Literal["api", "text", "azure"]
Foreign = Literal["organization", "item", "masked", "caller", "resource"]
OtherModel = Literal["masked", "item"]
RefusesBy = Literal["status", "error", "flat_error", "failed", "late"]

INCLUDES = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")

NOT_KEPT = Rule(  # the text after its second sentence is not confirmed
    "Item with id '{}' not found. Items are not persisted for Zero Data Retention organizations."
    " Remove this item from your input and try again.",
    "github.com/openai/codex/issues/35739",
    "2026-11",
    status=404,
    param="input",
)
# The first and the last four characters of a blob, and why.
MASKED = Rule(
    "The encrypted content {}...{} could not be verified.{}",
    "github.com/openai/codex/issues/8145",
    "2025-12",
    code="invalid_encrypted_content",
)
UNREADABLE = " Reason: Encrypted content could not be decrypted or parsed."
OF_ITEM = Rule(
    "The encrypted content for item {} could not be verified. Reason: {}",
    "github.com/openai/codex/issues/13724",
    "2026-11",
    code="invalid_encrypted_content",
)
OF_CALLER = Rule(
    "reasoning `encrypted_content` was not issued to this caller",
    "github.com/anomalyco/opencode/issues/48773",
    "2026-11",
)
OF_RESOURCE = Rule(
    "The requested item was created under a different Azure OpenAI resource. Use the same resource"
    " that created the item to access it.",
    "public code",
    "2026-11",
)
BLOBS_UNSUPPORTED = Rule(
    "Encrypted content is not supported.", "github.com/openai/codex/issues/12230", "2026-11"
)
MISSING_TEXT = Rule(
    "The `reasoning_text` in the thinking mode must be passed back to the API.",
    "github.com/rikkahub/rikkahub/issues/1629",
    "2026-11",
    code="invalid_request_error",
)
BAD_MESSAGE_ID = Rule(
    "Invalid 'id': message id must be a string starting with 'msg_'",
    "github.com/rikkahub/rikkahub/issues/1629",
    "2026-11",
)


class Quirks(Struct, frozen=True, kw_only=True):
    """
    Differences of one backend; the default has none.

    Attributes:
        account: The account as which a pooled gateway responds. Items and blobs of one account are
            unknown to another.
        foreign: How a blob of another account is refused: by its item, with the reason that the
            organization differs or that the blob cannot be read; masked, without a reason; in the
            words of a gateway; or as a blob of another Azure resource.
        other_model: How a blob of another model is refused: masked, or by its item.
        keeps_nothing: Nothing is stored, whatever `store` is (zero data retention).
        looks_up_all: The id of reasoning is looked up even if its blob is present (Azure).
        not_found: The refusal of an unknown id: a 404, plain text (ChatGPT), or a 400 (Azure).
        blames_follower: If reasoning and its item are separated, the error names the item, not the
            reasoning.
        grouped: Calls of one response stand together: no output comes between them.
        prompt_outputs: Outputs come before the next message.
        reads_blobs: Reasoning without an id is known by its blob, so it needs the item it led to as
            well: by the id of that item, or without one by its type, and by its `call_id`.
        needs_reasoning_ids: Reasoning without its id is refused (Azure Foundry).
        takes_blobs: Whether it supports `encrypted_content` at all (vLLM does not).
        thinks_aloud: Reasoning is text in `content`, has no blob, and must be sent with its calls,
            before them (DeepSeek). Nothing is paired by id.
        refuses_by: Where a streamed request is refused: in the status, or after a 200 in a first
            event that is `error` (nested or flat) or `response.failed`; "late" begins with
            `response.created`.
    """

    account: str = ""
    foreign: Foreign = "organization"
    other_model: OtherModel = "masked"
    keeps_nothing: bool = False
    looks_up_all: bool = False
    not_found: NotFound = "api"
    blames_follower: bool = False
    grouped: bool = False
    prompt_outputs: bool = False
    reads_blobs: bool = False
    needs_reasoning_ids: bool = False
    takes_blobs: bool = True
    thinks_aloud: bool = False
    refuses_by: RefusesBy = "status"


class BackendRules(InputRules):
    """The rules for one request to one account."""

    def __init__(self, api: "ResponsesApi", body: Item) -> None:
        self.api = api
        self.quirks = api.behaviour.quirks
        super().__init__(body, api.held(body), api.emitted, api.stored)

    @override
    def _see(self, at: int, item: Item) -> Seen:
        seen = super()._see(at, item)
        if self.quirks.reads_blobs and seen.kind == "reasoning" and not seen.id:
            return seen._replace(emitted=self.emitted.get(seen.blob))
        return seen

    @property
    @override
    def reasons(self) -> bool:
        return is_reasoning_model(str(self.body.get("model")))

    @property
    @override
    def stores(self) -> bool:
        return super().stores and not self.quirks.keeps_nothing

    @override
    def refusals(self) -> Iterator[Refused]:
        *before, last = (f"'{one}'" for one in INCLUDES)
        for index, value in enumerate(self.body.get("include") or ()):
            if value not in INCLUDES:
                supported = ", ".join([*before, f"and {last}"])
                yield UNSUPPORTED(f"include[{index}]", value, supported)
        yield from super().refusals()

    @override
    def id_shape(self, one: Seen) -> Iterator[Refused]:
        if not (self.quirks.thinks_aloud and one.kind == "message"):  # it has its own refusal
            yield from super().id_shape(one)

    @override
    def content_shape(self, one: Seen) -> Iterator[Refused]:
        if self.quirks.needs_reasoning_ids and not one.id:
            yield MISSING_PARAMETER(f"{one.at}.id")
        if not self.quirks.thinks_aloud:
            yield from super().content_shape(one)

    @override
    def is_looked_up(self, one: Seen) -> bool:
        if one.kind != "reasoning" or one.is_reference:
            return one.is_reference
        if self.quirks.thinks_aloud or not self.quirks.takes_blobs:
            return False
        return self.quirks.looks_up_all or super().is_looked_up(one)

    @override
    def not_found(self, one: Seen) -> Refused:
        rule = NOT_KEPT if self.quirks.keeps_nothing else NOT_FOUND
        form, words = self.quirks.not_found, rule(one.id).message
        status = 400 if form == "azure" else 404
        return Refusal(status, words, param="input", is_text=form == "text")

    @override
    def reasoning(self) -> Iterator[Refused]:
        if not self.quirks.takes_blobs:
            if any(one.kind == "reasoning" and one.blob for one in self.seen):
                yield BLOBS_UNSUPPORTED()
        elif self.quirks.thinks_aloud:
            yield from self._aloud()
        else:
            yield from super().reasoning()
            if self.quirks.grouped:
                yield from self._parted_groups()

    @override
    def blob(self, one: Seen) -> Iterator[Refused]:
        issued = self.api.blobs.get(one.blob)
        ends = one.blob[:4], one.blob[-4:]
        if issued is None:
            yield MASKED(*ends, UNREADABLE)
        elif issued.account != self.api.account:
            yield self._foreign(one.id or issued.item_id, *ends)
        elif one.id not in {"", issued.item_id}:
            yield RENAMED(one.id)
        elif issued.family != family(str(self.body.get("model"))):
            is_named = self.quirks.other_model == "item"
            why = UNREADABLE.removeprefix(" Reason: ")
            yield OF_ITEM(issued.item_id, why) if is_named else MASKED(*ends, "")

    def _foreign(self, item_id: str, *ends: str) -> Refused:
        why = "organization_id did not match the target organization."
        match self.quirks.foreign:
            case "organization":
                return OF_ITEM(item_id, f"Encrypted content {why}")
            case "item":
                return OF_ITEM(item_id, UNREADABLE.removeprefix(" Reason: "))
            case "masked":
                return MASKED(*ends, "")
            case "caller":
                return OF_CALLER()
            case "resource":
                return OF_RESOURCE()

    @override
    def is_blamed_elsewhere(self, one: Seen) -> bool:
        if not self.quirks.blames_follower or one.emitted is None:
            return False
        return one.emitted.follower in {other.id for other in self.seen if other.id}

    @override
    def is_blamed(self, emitted: Emitted) -> bool:
        """The first item after its reasoning is blamed, unless the API holds that."""
        if not self.quirks.blames_follower or self.known.issuperset(emitted.required):
            return False
        led_by = [self.emitted.get(one) for one in emitted.required]
        return any(one is not None and one.follower == emitted.item["id"] for one in led_by)

    @override
    def is_followed(self, one: Seen, after: Seen | None) -> bool:
        if not self.quirks.reads_blobs or one.emitted is None or after is None:
            return super().is_followed(one, after)
        wanted = one.emitted.follower
        return after.id in {wanted, ""} and self.is_like(after, wanted)

    @override
    def ends_outputs(self, one: Seen) -> bool:
        return self.quirks.prompt_outputs and one.kind == "message"

    def _parted_groups(self) -> Iterator[Refused]:
        """Yield a refusal for each item that an output separates from those it was made with."""
        open_groups: set[tuple[str, ...]] = set()
        parted: set[tuple[str, ...]] = set()
        for one in self.seen:
            if one.kind.endswith("_output"):
                parted |= open_groups
            elif one.emitted is not None and one.emitted.required:
                group = one.emitted.required
                if group in parted:
                    yield MISSING(one.id, one.emitted.item["type"], group[0])
                open_groups.add(group)

    def _aloud(self) -> Iterator[Refused]:
        """
        Reasoning as plain text is sent with the calls it led to, before them.

        The rule of DeepSeek's own Responses API, which is stateless. Calls of one run share the
        reasoning before the first; a call that was emitted without any needs none.
        """
        is_led_to = False
        for one in self.seen:
            if one.kind == "reasoning":
                parts = one.item.get("content") or ()
                is_led_to = any(it["type"] == "reasoning_text" and it["text"] for it in parts)
            elif one.kind == "message":
                if one.id and not one.id.startswith("msg_"):
                    yield BAD_MESSAGE_ID()
                is_led_to = is_led_to and one.by_model
            elif one.by_model:
                emitted = self.api.by_call(one.item.get("call_id"))
                if not is_led_to and (not emitted or any(it.required for it in emitted)):
                    yield MISSING_TEXT()
            else:
                is_led_to = False


def family(model: str) -> str:
    """Return the name that blobs of a model are bound to: the model without its date."""
    return _DATED.sub("", model)


def is_reasoning_model(model: str) -> bool:
    """Return whether a model reasons; a name that ends in "-plain" stands for all unknown ones."""
    return reasons(model) and not model.endswith("-plain")
