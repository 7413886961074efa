"""Removals: the reasoning that an upstream reports it left out of its input, by reason."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Raw

from reasoning_replay.core.dialects.lenient import value_of

# Words of OpenAI's API (Python SDK 3.52, `response.py`). Anthropic's API has two of them in a
# longer form (`prefix_binding_mismatch`). Any other word counts as "other".
REMOVALS = (
    "organization_mismatch",
    "end_user_mismatch",
    "model_mismatch",
    "prefix_mismatch",
    "turn_boundary",
    "other",
)


def read_removals(transformations: Raw) -> Mapping[str, int] | None:
    """Return how many items upstream left out, by one of REMOVALS; None if not reported."""
    said = value_of(transformations)
    if not isinstance(said, list):
        return None
    reasons = (one.get("reason") for one in said if isinstance(one, dict))
    words = (str(reason).replace("_binding_", "_") for reason in reasons)
    return Counter(word if word in REMOVALS else "other" for word in words)
