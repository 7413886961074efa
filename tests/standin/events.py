"""
Event stream of one response, framed as OpenAI frames it.

`event:` line, `data:` line, blank line; LF; every event numbered; no comments and no `[DONE]`
(recorded). Pure: the same response gives the same bytes.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from tests.standin.quirks import RefusesBy
from tests.standin.refusals import ErrorBody, Refusal
from tests.standin.shapes import (
    Answer,
    CustomToolCall,
    FunctionCall,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    SummaryText,
    WebSearchCall,
)

__all__ = ["Event", "Moment", "Telling", "frame", "tell", "tell_refusal"]

Moment = Literal["added", "done", "completed"]
"""The event that shows an item: each shows another blob and, on some backends, another id."""

_PIECE_CHARS = 8
_OBFUSCATION_BLOCK = 16


class Event(Struct, kw_only=True):
    """One event. Members that its type does not have are UNSET and are left out."""

    type: str
    sequence_number: int = 0
    response: Answer | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET
    code: str | UnsetType | None = UNSET
    message: str | UnsetType = UNSET
    param: str | UnsetType | None = UNSET
    output_index: int | UnsetType = UNSET
    item: OutputItem | UnsetType = UNSET
    item_id: str | UnsetType = UNSET
    content_index: int | UnsetType = UNSET
    summary_index: int | UnsetType = UNSET
    part: OutputText | SummaryText | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    input: str | UnsetType = UNSET
    logprobs: tuple[()] | UnsetType = UNSET
    obfuscation: str | UnsetType = UNSET
    stream_id: str | UnsetType = UNSET


class Telling(Struct, frozen=True, kw_only=True):
    """
    Options of a stream.

    `show` returns an item as it looks in an event: with the blob and the id of that event.
    """

    show: Callable[[OutputItem, Moment], OutputItem]
    obfuscates: bool = True
    empty_completed_output: bool = False
    rotate_ids: bool = False


def tell(answer: Answer, telling: Telling) -> Iterator[Event]:
    """
    Yield the events of a response, from `response.created` to its terminal event.

    Args:
        answer: The finished response; its status decides the end. A failed one stops before the
            `done` of its last item, and its output is empty, as recorded.
        telling: The options of the stream.
    """
    for number, event in enumerate(_events(answer, telling)):
        event.sequence_number = number
        if event.delta is not UNSET and telling.obfuscates:
            # The API pads deltas to full blocks, to hide their length.
            event.obfuscation = _digits(answer.id, number)[
                : _OBFUSCATION_BLOCK - len(event.delta) % _OBFUSCATION_BLOCK
            ]
        yield event


def tell_refusal(refusal: Refusal, answer: Answer, form: RefusesBy) -> Iterator[Event]:
    """
    Yield a refusal as the events of a stream that was accepted.

    Args:
        refusal: The error.
        answer: The response object for the events; its status is `failed`.
        form: See Quirks; "status" is streamed like "failed".
    """
    told: list[Event] = []
    if form == "late":
        begun = replace(answer, status="in_progress", error=None)
        told.append(Event(type="response.created", response=begun))
    if form == "flat_error":
        flat = Event(type="error", code=refusal.code, message=refusal.message, param=refusal.param)
        told.append(flat)
    elif form in {"error", "late"}:
        told.append(Event(type="error", error=refusal.envelope.error))
    told.append(Event(type="response.failed", response=answer))
    for number, event in enumerate(told):
        event.sequence_number = number
        yield event


def frame(event: Event) -> bytes:
    """Encode one event for the wire."""
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), msgspec.json.encode(event))


def _events(answer: Answer, telling: Telling) -> Iterator[Event]:
    open_answer = replace(
        answer,
        status="in_progress",
        completed_at=None,
        error=None,
        incomplete_details=None,
        output=(),
        usage=None,
    )
    if answer.background:
        queued = replace(open_answer, status="queued")
        yield Event(type="response.created", response=queued)
        yield Event(type="response.queued", response=queued)
    else:
        yield Event(type="response.created", response=open_answer)
    yield Event(type="response.in_progress", response=open_answer)
    for index, item in enumerate(answer.output):
        item_id = telling.show(item, "added").id if telling.rotate_ids else item.id
        for event in _item(item, telling):
            event.output_index = index
            if event.item is UNSET:
                event.item_id = item_id
            if answer.status == "failed" and index == len(answer.output) - 1 and _is_done(event):
                break
            yield event
    yield from _end(answer, telling)


def _is_done(event: Event) -> bool:
    return event.type == "response.output_item.done"


def _end(answer: Answer, telling: Telling) -> Iterator[Event]:
    if answer.status == "failed":
        if answer.error is not None:
            # Nested, as in real streams; the specification has it flat.
            body = ErrorBody(answer.error.message, answer.error.code, None, answer.error.code)
            yield Event(type="error", error=body)
        yield Event(type="response.failed", response=replace(answer, output=()))
        return
    shown: Sequence[OutputItem] = [telling.show(item, "completed") for item in answer.output]
    output = () if telling.empty_completed_output else tuple(shown)
    yield Event(type=f"response.{answer.status}", response=replace(answer, output=output))


def _item(item: OutputItem, telling: Telling) -> Iterator[Event]:
    """Yield the events of one item; the caller fills in the members that all of them share."""
    yield Event(type="response.output_item.added", item=telling.show(_begun(item), "added"))
    if isinstance(item, Reasoning):
        yield from _summary(item)
        yield from _thoughts(item)
    elif isinstance(item, Message):
        yield from _text(item)
    elif isinstance(item, FunctionCall):
        for piece in _pieces(item.arguments):
            yield Event(type="response.function_call_arguments.delta", delta=piece)
        yield Event(
            type="response.function_call_arguments.done", arguments=item.arguments, name=item.name
        )
    elif isinstance(item, CustomToolCall):
        for piece in _pieces(item.input):
            yield Event(type="response.custom_tool_call_input.delta", delta=piece)
        yield Event(type="response.custom_tool_call_input.done", input=item.input)
    else:
        for stage in ("in_progress", "searching", "completed"):
            yield Event(type=f"response.web_search_call.{stage}")
    yield Event(type="response.output_item.done", item=telling.show(item, "done"))


def _begun(item: OutputItem) -> OutputItem:
    """Return the item as it is before its first delta."""
    if isinstance(item, Reasoning):
        return replace(item, summary=(), content=())
    if isinstance(item, Message):
        return replace(item, status="in_progress", content=())
    if isinstance(item, FunctionCall):
        return replace(item, status="in_progress", arguments="")
    if isinstance(item, CustomToolCall):
        return replace(item, status="in_progress", input="")
    return WebSearchCall(id=item.id, status="in_progress")


def _summary(item: Reasoning) -> Iterator[Event]:
    for index, part in enumerate(item.summary):
        stem = "response.reasoning_summary"
        empty = replace(part, text="")
        yield Event(type=f"{stem}_part.added", summary_index=index, part=empty)
        for piece in _pieces(part.text):
            yield Event(type=f"{stem}_text.delta", summary_index=index, delta=piece)
        yield Event(type=f"{stem}_text.done", summary_index=index, text=part.text)
        yield Event(type=f"{stem}_part.done", summary_index=index, part=part)


def _thoughts(item: Reasoning) -> Iterator[Event]:
    for index, part in enumerate(item.content):
        stem = "response.reasoning_text"
        for piece in _pieces(part.text):
            yield Event(type=f"{stem}.delta", content_index=index, delta=piece)
        yield Event(type=f"{stem}.done", content_index=index, text=part.text)


def _text(item: Message) -> Iterator[Event]:
    for index, part in enumerate(item.content):
        empty = replace(part, text="")
        stem = "response.output_text"
        yield Event(type="response.content_part.added", content_index=index, part=empty)
        for piece in _pieces(part.text):
            yield Event(type=f"{stem}.delta", content_index=index, delta=piece, logprobs=())
        yield Event(type=f"{stem}.done", content_index=index, text=part.text, logprobs=())
        yield Event(type="response.content_part.done", content_index=index, part=part)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def _digits(answer_id: str, number: int) -> str:
    return hashlib.sha256(f"{answer_id}/{number}".encode()).hexdigest()
