"""
Quirks: the differences of backends with the same API from api.openai.com, one attribute each.

Sources: recorded errors and public issue reports. The backend named with a quirk is the one it was
first reported for; others may have it too.
"""

from typing import Literal

from msgspec import Struct

from tests.standin.variants import Variant

__all__ = [
    "Behaviour",
    "Continuity",
    "End",
    "Foreign",
    "NotFound",
    "OtherModel",
    "Quirks",
    "RefusesBy",
]

Continuity = Literal["normal", "strict"]
End = Literal["completed", "incomplete", "failed"]
NotFound = Literal["api", "text", "azure"]
Foreign = Literal["organization", "item", "masked", "caller", "resource"]
OtherModel = Literal["masked", "item"]
RefusesBy = Literal["status", "error", "flat_error", "failed", "late"]


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
    quirks: Quirks = Quirks()
