"""
Refusals of Anthropic Messages, word for word.

Texts are those of public issue reports; the few that are not confirmed are marked. The functions
insert positions: of a message, and of a block in it.
"""

from collections.abc import Sequence

from tests.standin.common.server import ApiRefusal
from tests.standin.messages.seals import Flaw

__all__ = ["OVERLOADED"]

# An error inside a stream whose status was 200.
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
# The words for all but `system` are not confirmed.
_BOUND_TO = {
    "system": "The `system` prompt differs from the one this block was created with.",
    "tools": "The `tools` differ from the ones this block was created with.",
    "messages": "The `messages` before it differ from the ones this block was created with.",
    "thinking": "A `thinking` block before it was left out or moved.",
}


def missing(message: int, found: str) -> ApiRefusal:
    """Refuse a message of the current loop that does not start with its reasoning."""
    return _invalid(
        f"messages.{message}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
        f" `{found}`. When `thinking` is enabled, a final `assistant` message must start with a"
        " thinking block (preceeding"  # codespell:ignore preceeding
        " the lastmost set of `tool_use` and `tool_result` blocks)."
    )


def invalid_signature(message: int, block: int, kind: str) -> ApiRefusal:
    """Refuse a block that was not issued like this, or not to this model or account."""
    return _invalid(_of_signature(message, block, kind))


def unsigned(message: int, block: int) -> ApiRefusal:
    """Refuse a block without a signature."""
    return _invalid(f"messages.{message}.content.{block}.thinking.signature: Field required")


def bound_elsewhere(message: int, block: int, kind: str, flaws: Sequence[Flaw]) -> ApiRefusal:
    """Refuse a block after another history than its own."""
    differ = next(_BOUND_TO[flaw] for flaw in _BOUND_TO if flaw in flaws)
    return _invalid(
        f"{_of_signature(message, block, kind)}. The block is bound to a different conversation."
        " Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to"
        f' "drop_block". {differ}'
    )


def modified(message: int, block: int) -> ApiRefusal:
    """Refuse a latest message whose reasoning is not what was emitted."""
    return _invalid(
        f"messages.{message}.content.{block}: `thinking` or `redacted_thinking` blocks in the"
        " latest assistant message cannot be modified. These blocks must remain as they were in"
        " the original response."
    )


def blank(message: int, block: int) -> ApiRefusal:
    """Refuse a block without a text, which only newer models have."""
    return _invalid(
        f"messages.{message}.content.{block}.thinking: each thinking block must contain"
        " non-whitespace thinking"
    )


def deepseek_missing() -> ApiRefusal:
    """Refuse a message of the current round without its reasoning."""
    return _invalid("The `content[].thinking` in the thinking mode must be passed back to the API.")


def never_emitted(message: int, path: str) -> ApiRefusal:
    """Refuse reasoning that was not emitted for this message: in the words of this stand-in."""
    said = f"messages.{message}.{path} is not what was emitted for this message (stand-in)"
    return _invalid(said)


def unreadable(detail: str) -> ApiRefusal:
    """Refuse a body that is not a request; in the words of this stand-in."""
    return _invalid(f"messages: {detail}")


def _of_signature(message: int, block: int, kind: str) -> str:
    name = "data" if kind == "redacted_thinking" else "signature"
    return f"messages.{message}.content.{block}: Invalid `{name}` in `{kind}` block"


def _invalid(message: str) -> ApiRefusal:
    error = {"type": "invalid_request_error", "message": message}
    return ApiRefusal(400, {"type": "error", "error": error})
