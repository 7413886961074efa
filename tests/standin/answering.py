"""Response builder: turns an accepted request into a turn, and a turn into what its caller sees."""

import hashlib
import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tests.standin.events import Moment, Telling
from tests.standin.ledger import Turn, pair
from tests.standin.mint import LINEAGE_DIGITS, Ids, Mint, lineage_of
from tests.standin.quirks import PLAIN, Quirks
from tests.standin.rules import Continuity, Verdict, family, reasons
from tests.standin.sealing import Binding, Sealer
from tests.standin.shapes import (
    Answer,
    AnswerError,
    Body,
    ConversationRef,
    CustomToolCall,
    FunctionCall,
    IncompleteDetails,
    Message,
    OutputItem,
    Reasoning,
    ReasoningOptions,
    ReasoningTokens,
    Usage,
)
from tests.standin.variants import Variant, cue, perform

__all__ = ["Behaviour", "End", "Issue", "View", "estimate_tokens", "respond"]

End = Literal["completed", "incomplete", "failed"]

_MODEL_DATE = "-2026-03-05"
_HAS_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_BYTES_PER_TOKEN = 4
_TOKENS_PER_ITEM = 24
_TOKENS_PER_THOUGHT = 64


class Behaviour(Struct, kw_only=True):
    """
    Behaviour of the stand-in; may be changed between two requests.

    Attributes:
        variant: The scripted agent loop (variants.LOOPS).
        continuity: "strict" also refuses lost reasoning that the API would accept.
        end: How a response ends.
        always_encrypted: Send ciphertext without a request for it (`include`), as newer models do.
        empty_completed_output: `response.completed` has `output: []` (ChatGPT-login backend).
        rotate_ids: Ids in `added` and `completed` differ from those in `done` (GitHub Copilot).
        chunk_bytes: Size of one write of the stream, in bytes; None writes event by event.
        delay_s: Pause after every event, 5 s at most.
        quirks: Differences from api.openai.com.
    """

    variant: Variant = "one_call"
    continuity: Continuity = "normal"
    end: End = "completed"
    always_encrypted: bool = False
    empty_completed_output: bool = False
    rotate_ids: bool = False
    chunk_bytes: int | None = None
    delay_s: float = 0.0
    quirks: Quirks = PLAIN


class Issue(Struct, frozen=True):
    """Context of a new response: its caller, the source of ids, the unix time in seconds."""

    caller: str
    mint: Mint
    now_s: int


def respond(body: Body, verdict: Verdict, issue: Issue, behaviour: Behaviour) -> Turn:
    """
    Build the next response of the loop for an accepted request.

    Args:
        body: The request.
        verdict: The result of judging it.
        issue: The caller, the source of ids and the time.
        behaviour: The loop, and how the response ends.

    Raises:
        msgspec.ValidationError: `tools` is not a list of tools.

    Returns:
        The turn, to be recorded; its items carry no ciphertext yet (View adds it).
    """
    ids = Ids(issue.mint, _lineage(verdict) or issue.mint.digits(LINEAGE_DIGITS), issue.now_s)
    options = body.reasoning or ReasoningOptions()
    given = cue(
        body.items,
        body.declared_tools(),
        before=verdict.earlier[-1].answered if verdict.earlier else 0,
        summarises=options.summary is not None,
    )
    given = replace(given, thinks_aloud=behaviour.quirks.thinks_aloud)
    output = perform(behaviour.variant, given, ids, reasons=reasons(body.model))
    if behaviour.end == "incomplete":
        output = (*output[:-1], _cut_short(output[-1]))
    conversation = body.conversation_id
    answer = Answer(
        id=ids.item("resp"),
        created_at=issue.now_s,
        completed_at=issue.now_s,
        status=behaviour.end,
        background=bool(body.background),
        conversation=ConversationRef(conversation) if conversation is not None else None,
        error=AnswerError("server_error", "The stand-in is set to fail.")
        if behaviour.end == "failed"
        else None,
        incomplete_details=IncompleteDetails("max_output_tokens")
        if behaviour.end == "incomplete"
        else None,
        instructions=body.instructions,
        model=body.model if _HAS_DATE.search(body.model) else body.model + _MODEL_DATE,
        output=output,
        previous_response_id=body.previous_response_id,
        prompt_cache_key=body.prompt_cache_key,
        reasoning=options,
        store=body.stores,
        tool_choice=body.tool_choice,
        tools=body.tools,
        usage=_usage(body, output),
        metadata=body.metadata,
    )
    return Turn(
        answer=answer,
        caller=issue.caller,
        family=family(body.model),
        items=pair(answer.id, output),
        stored=body.stores and not behaviour.quirks.keeps_nothing,
        finished=behaviour.end == "completed",
        previous=body.previous_response_id,
        conversation=conversation,
        answered=given.answered,
    )


class View(Struct, frozen=True, kw_only=True):
    """View of one turn: its items as the caller sees them in each event."""

    turn: Turn
    sealer: Sealer
    encrypted: bool
    rotate_ids: bool = False

    def show(self, item: OutputItem, moment: Moment) -> OutputItem:
        """Return the item with its blob, if it has one, and with the id that this event shows."""
        if isinstance(item, Reasoning) and self.encrypted:
            item = replace(item, encrypted_content=self._blob(item.id, moment))
        if self.rotate_ids and moment != "done":
            item = replace(item, id=_rotated(item.id, moment))
        return item

    def answer(self) -> Answer:
        """Return the whole response, as sent without streaming; ids do not rotate there."""
        still = replace(self, rotate_ids=False)
        output = tuple(still.show(item, "completed") for item in self.turn.answer.output)
        return replace(self.turn.answer, output=output)

    def telling(self, behaviour: Behaviour, *, obfuscates: bool) -> Telling:
        """Return the options for streaming this turn."""
        return Telling(
            show=self.show,
            obfuscates=obfuscates,
            empty_completed_output=behaviour.empty_completed_output,
            rotate_ids=self.rotate_ids,
        )

    def _blob(self, item_id: str, moment: Moment) -> str:
        issued_s = self.turn.answer.created_at
        if moment == "added":
            return self.sealer.snapshot(item_id, issued_s)
        binding = Binding(self.turn.caller, self.turn.family, item_id)
        return self.sealer.seal(binding, moment, issued_s)


def estimate_tokens(body: Body) -> int:
    """Estimate the tokens of the input: a number that grows with it, nothing more exact."""
    return 1 + sum(
        _TOKENS_PER_ITEM
        + (len(item.arguments) + len(item.encrypted_content or "")) // _BYTES_PER_TOKEN
        for item in body.items
    )


def _usage(body: Body, output: tuple[OutputItem, ...]) -> Usage:
    thought = _TOKENS_PER_THOUGHT * sum(isinstance(item, Reasoning) for item in output)
    said = thought + _TOKENS_PER_ITEM * len(output)
    heard = estimate_tokens(body)
    return Usage(
        input_tokens=heard,
        output_tokens=said,
        output_tokens_details=ReasoningTokens(thought),
        total_tokens=heard + said,
    )


def _lineage(verdict: Verdict) -> str | None:
    """Find the lineage that the request continues: by response, or by the ids it replays."""
    if verdict.earlier:
        return lineage_of(verdict.earlier[-1].answer.id)
    return next((lineage_of(one.emitted.id) for one in verdict.seen if one.emitted), None)


def _cut_short(item: OutputItem) -> OutputItem:
    """Cut an item in half, as a token limit does; no loop ends with any other item type."""
    if isinstance(item, Message):
        half = tuple(replace(part, text=part.text[: len(part.text) // 2]) for part in item.content)
        return replace(item, status="incomplete", content=half)
    if isinstance(item, FunctionCall):
        half_said = item.arguments[: len(item.arguments) // 2]
        return replace(item, status="incomplete", arguments=half_said)
    if isinstance(item, CustomToolCall):
        return replace(item, status="incomplete", input=item.input[: len(item.input) // 2])
    return item


def _rotated(item_id: str, moment: Moment) -> str:
    """Return another id of the same type, always the same one for an item and a moment."""
    prefix, _, rest = item_id.partition("_")
    return f"{prefix}_{hashlib.sha256(f'{moment}/{rest}'.encode()).hexdigest()[: len(rest)]}"
