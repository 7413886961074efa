"""
What backends behind the same API do otherwise than api.openai.com, one attribute each.

Sources: wire facts, sections 5 to 7, and the issues behind them. Which backend is named first is
where it was reported, not the only place where it is so.
"""

from typing import Literal

from msgspec import Struct

__all__ = ["PLAIN", "Foreign", "NotFound", "Quirks", "RefusesBy"]

NotFound = Literal["api", "text", "azure"]
Foreign = Literal["organization", "item", "masked", "caller", "resource"]
RefusesBy = Literal["status", "error", "flat_error", "failed", "late"]


class Quirks(Struct, frozen=True, kw_only=True):
    """
    How one backend differs; the default differs in nothing.

    Attributes:
        account: Which of its accounts a pooled gateway answers as. Items and blobs of one mean
            nothing to another.
        foreign: How a blob of another account is refused: by its item, with a reason that is the
            organization or that it cannot be read; masked, without a reason; as a gateway's, or as
            another Azure resource's.
        keeps_nothing: Nothing is stored whatever `store` says (zero data retention).
        looks_up_all: The id of reasoning is looked up also where its blob is there (Azure).
        not_found: An id that leads nowhere is a 404, plain text (ChatGPT), or a 400 (Azure).
        blames_follower: Where two that belong together stand apart, the one that needed the
            reasoning is named, not the reasoning.
        grouped: Calls of one response stand together: no output comes between them.
        prompt_outputs: Outputs come before the next message.
        needs_reasoning_ids: Reasoning without its id is refused (Azure Foundry).
        takes_blobs: Whether it knows `encrypted_content` at all (vLLM does not).
        thinks_aloud: Reasoning is text in `content`, has no blob, and has to come back with it
            ahead of its calls (DeepSeek). Nothing is paired by id.
        refuses_by: Where a streamed request is refused: in the status, or after a 200 in a first
            event that is `error` (nested or flat) or `response.failed`; "late" begins with
            `response.created`.
    """

    account: str = ""
    foreign: Foreign = "organization"
    keeps_nothing: bool = False
    looks_up_all: bool = False
    not_found: NotFound = "api"
    blames_follower: bool = False
    grouped: bool = False
    prompt_outputs: bool = False
    needs_reasoning_ids: bool = False
    takes_blobs: bool = True
    thinks_aloud: bool = False
    refuses_by: RefusesBy = "status"


PLAIN = Quirks()
