"""
Words of the Responses API: its refusals, each with the public report that quotes it.

Each is called with what its braces stand for.
"""

from http import HTTPStatus
from typing import Final

from reasoning_replay.strict_api.dialect import Rule

# An item, its type, and the reasoning that led to it.
MISSING: Final = Rule(
    "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{}'.",
    "github.com/cline/cline/issues/12242",
    "2026-07",
    param="input",
)
UNFOLLOWED: Final = Rule(
    "Item '{}' of type 'reasoning' was provided without its required following item.",
    "github.com/openai/openai-agents-python/issues/1660",
    "2025-09",
    param="input",
)
NOT_FOUND: Final = Rule(
    "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again"
    " with `store` set to true, or remove this item from your input.",
    "github.com/openai/openai-agents-python/issues/2063",
    "2025-11",
    status=HTTPStatus.NOT_FOUND,
    param="input",
)
DAMAGED: Final = Rule(
    "The encrypted content for item {} could not be verified. Reason: Encrypted content could not"
    " be decrypted or parsed.",
    "github.com/openai/codex/issues/8145",
    "2025-12",
    code="invalid_encrypted_content",
)
RENAMED: Final = Rule(
    "The encrypted content for item {} could not be verified. Reason: Encrypted content item_id did"
    " not match the target item id.",
    "github.com/openclaw/openclaw/issues/72602",
    "2026-04",
    code="invalid_encrypted_content",
)
DUPLICATE: Final = Rule(
    "Duplicate item found with id {}. Remove duplicate items from your input and try again.",
    "github.com/microsoft/vscode/issues/321977",
    "2026-06",
    param="input",
)
# The kind of call, as in "function call".
UNANSWERED: Final = Rule(
    "No tool output found for {} {}.",
    "github.com/microsoft/agent-framework/issues/3105",
    "2026-01",
    param="input",
)
ORPHAN: Final = Rule(
    "No tool call found for {} output with call_id {}.",
    "github.com/james-6-23/codex2api/issues/414",
    "2026-07",
    param="input",
)
UNKNOWN_PREVIOUS: Final = Rule(
    "Previous response with id '{}' not found.",
    "github.com/maximhq/bifrost/issues/2441",
    "2026-03",
    code="previous_response_not_found",
    param="previous_response_id",
)
NO_REASONING: Final = Rule(
    "Reasoning input items can only be provided to a reasoning or computer use model. Remove"
    " reasoning items from your input and try again.",
    "github.com/openai/openai-python/issues/2364",
    "2025-05",
    param="input",
)
NO_BLOBS: Final = Rule(
    "Encrypted content is not supported with this model.",
    "github.com/microsoft/agent-framework/issues/7483",
    "2026-11",
    param="include",
)

# Members; the first name is that of the member.
WRONG_PREFIX: Final = Rule(
    "Invalid '{0}': '{1}'. Expected an ID that begins with '{2}'.",
    "github.com/continuedev/continue/issues/11785",
    "2026-11",
    code="invalid_value",
    param="{0}",
)
BAD_CHARACTERS: Final = Rule(
    "Invalid '{}': '{}'. Expected an ID that contains letters, numbers, underscores, or dashes, but"
    " this value contained additional characters.",
    "github.com/anomalyco/opencode/issues/25065",
    "2026-11",
    code="invalid_value",
    param="{0}",
)
UNSUPPORTED: Final = Rule(
    "Invalid value: '{1}'. Supported values are: {2}.",
    "recorded by github.com/Mirascope/mirascope",
    "2026-08",
    code="invalid_value",
    param="{0}",
)
NOT_EMPTY: Final = Rule(
    "Invalid '{}': array too long. Expected an array with maximum length 0, but got an array with"
    " length {} instead.",
    "reported, see docs/healing.md",
    "2026-08",
    code="array_above_max_length",
    param="{0}",
)
UNKNOWN_PARAMETER: Final = Rule(
    "Unknown parameter: '{}'.",
    "reported, see docs/healing.md",
    "2026-08",
    code="unknown_parameter",
    param="{0}",
)
MISSING_PARAMETER: Final = Rule(
    "Missing required parameter: '{}'.",
    "not confirmed",
    "2026-08",
    code="missing_required_parameter",
    param="{0}",
)
TOO_LONG: Final = Rule(
    "Invalid '{}': string too long. Expected a string with maximum length {}, but got a string with"
    " length {} instead.",
    "not confirmed",
    "2026-08",
    code="string_above_max_length",
    param="{0}",
)
NULL_MEMBER: Final = Rule(
    "Invalid type for '{}': expected a string, but got null instead.",
    "not confirmed",
    "2026-08",
    code="invalid_type",
    param="{0}",
)
