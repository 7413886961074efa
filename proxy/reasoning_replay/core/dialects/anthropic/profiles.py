"""
Upstream profiles: the known properties of each upstream's Messages API, as data.

No other module decides by a vendor's name; each reads the fields of the active `Profile`. A profile
states what may be sent. It never decides to which message reasoning belongs.
"""

import re
from dataclasses import dataclass
from functools import partial

from reasoning_replay.core.dialects.vendors import (
    MESSAGES_VENDORS,
    UpstreamProfile,
    by_name,
    chosen,
)

# Models of this series up to 5.0, by all names that they have: they bind no block to a prefix. The
# check is documented for Fable and Mythos 5.1 and 5.2, and Opus, Sonnet and Haiku 5.5
# (platform.claude.com, prefix checks on thinking blocks), so a name that is not known yet counts as
# bound. A refusal may teach otherwise: `binds`.
_SERIES = "claude"
_UNBOUND = re.compile(
    r"claude-(?:instant|v?[123](?!\d)|[a-z]+-(?:[1-4](?!\d)|5(?![-.][1-9]\d?(?!\d))))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(UpstreamProfile):
    """
    The properties of one upstream.

    Attributes:
        is_signed: Whether it signs every block, and refuses one without a signature.
        binds: Whether a refusal has shown that the requested model binds its reasoning.
    """

    is_signed: bool = False
    binds: bool = False

    def is_bound(self, model: str) -> bool:
        """Return whether a model binds its reasoning to the history before it."""
        name = model.lower()
        if self.binds:
            return True
        if _SERIES in name:
            return _UNBOUND.search(name) is None
        return self.is_signed  # a name that only the account knows

    def signs(self, model: str) -> bool:
        """Return whether the API of a model refuses a block whose signature does not fit."""
        return self.is_signed or _SERIES in model.lower()

    def may_bind(self, model: str) -> bool:
        """Return whether the response may show that the model binds: a gateway's own name."""
        return self.is_bound(model) or _SERIES not in model.lower()


_ALL = (
    Profile(
        vendor=MESSAGES_VENDORS["anthropic"],
        source="platform.claude.com (extended thinking, preserved thinking); recordings of "
        "pydantic-ai, fantasy, mirascope, langchain, rig, crewai and Claude Code",
        is_signed=True,
    ),
    Profile(
        vendor=MESSAGES_VENDORS["bedrock"],
        source="docs.aws.amazon.com (claude-messages-thinking-block-binding); opencode's recording "
        "of bedrock-mantle",
        is_signed=True,
    ),
    Profile(
        vendor=MESSAGES_VENDORS["vertex"],
        source="docs.cloud.google.com (Claude partner models: rawPredict, streamRawPredict); "
        "Kilo-Org/kilocode#5219",
        is_signed=True,
    ),
    Profile(
        vendor=MESSAGES_VENDORS["azure"],
        source="platform.claude.com (Microsoft Foundry has the same prefix checks)",
        is_signed=True,
    ),
    Profile(
        vendor=MESSAGES_VENDORS["deepseek"],
        source="openclaw#71998, decolua/9router#2397 (`content[].thinking` must be passed back; "
        "there is no signature, or a placeholder)",
    ),
    Profile(
        vendor=MESSAGES_VENDORS["moonshot"],
        source="QuantumNous/new-api#3121 (missing reasoning is refused, as in its other API)",
    ),
    Profile(
        vendor=MESSAGES_VENDORS["minimax"],
        source="NousResearch/hermes-agent#75725 (thinking blocks are accepted)",
    ),
    Profile(
        vendor=MESSAGES_VENDORS["vercel"],
        source="opencode's recording of ai-gateway.vercel.sh (models of other vendors, with their "
        "signatures)",
    ),
)

GENERIC = Profile(
    vendor=MESSAGES_VENDORS["generic"],
    source="gateways and local servers with this API: a block that was emitted is accepted",
)

PROFILES = by_name((*_ALL, GENERIC))
profile_of = partial(chosen, PROFILES)
