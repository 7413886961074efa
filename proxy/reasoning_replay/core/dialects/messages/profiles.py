"""
Upstream profiles: the known properties of each upstream's Messages API, as data.

No other module decides by a vendor's name; each reads the fields of the active `Profile`. A profile
states what may be sent. It never decides to which message reasoning belongs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reasoning_replay.core.dialects.upstreams import AUTO, Upstream, upstream_at

__all__ = ["GENERIC", "PROFILES", "Profile", "profile_of"]

# Models of this series up to 5.0, by all names that they have: they bind no block to a prefix. The
# check is documented for Fable and Mythos 5.1 and 5.2, and Opus, Sonnet and Haiku 5.5
# (platform.claude.com, prefix checks on thinking blocks), so a name that is not known yet counts as
# bound. A refusal may teach otherwise: `binds`.
_SERIES = "claude"
_UNBOUND = re.compile(
    r"claude-(?:instant|v?[123](?!\d)|[a-z]+-(?:[1-4](?!\d)|5(?![-.][1-9]\d?(?!\d))))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Upstream):
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

    def may_bind(self, model: str) -> bool:
        """Return whether the response may show that the model binds: a gateway's own name."""
        return self.is_bound(model) or _SERIES not in model.lower()


_VERSION = (("anthropic-version", "2023-06-01"),)
_ALL = (
    Profile(
        name="anthropic",
        provider="anthropic",
        source="platform.claude.com (extended thinking, preserved thinking); recordings of "
        "pydantic-ai, fantasy, mirascope, langchain, rig, crewai and Claude Code",
        hosts=("api.anthropic.com",),
        base_path="/v1",
        key_names=("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        headers=_VERSION,
        is_signed=True,
    ),
    Profile(
        name="bedrock",
        provider="aws.bedrock",
        source="docs.aws.amazon.com (claude-messages-thinking-block-binding); opencode's recording "
        "of bedrock-mantle",
        hosts=("bedrock-runtime*.amazonaws.com", "bedrock-mantle.*.api.aws"),
        key_names=("AWS_BEARER_TOKEN_BEDROCK",),
        is_signed=True,
    ),
    Profile(
        name="vertex",
        provider="gcp.vertex_ai",
        source="docs.cloud.google.com (Claude partner models: rawPredict, streamRawPredict); "
        "Kilo-Org/kilocode#5219",
        hosts=("aiplatform.googleapis.com", "*-aiplatform.googleapis.com"),
        key_names=(),
        is_signed=True,
    ),
    Profile(
        name="azure",
        provider="azure.ai.openai",
        source="platform.claude.com (Microsoft Foundry has the same prefix checks)",
        hosts=("*.services.ai.azure.com",),
        base_path="/anthropic/v1",
        key_names=("AZURE_OPENAI_API_KEY",),
        key_header="x-api-key",
        headers=_VERSION,
        is_signed=True,
    ),
    Profile(
        name="deepseek",
        provider="deepseek",
        source="openclaw#71998, decolua/9router#2397 (`content[].thinking` must be passed back; "
        "there is no signature, or a placeholder)",
        hosts=("api.deepseek.com",),
        base_path="/anthropic/v1",
        key_names=("DEEPSEEK_API_KEY",),
        key_header="x-api-key",
    ),
    Profile(
        name="moonshot",
        source="QuantumNous/new-api#3121 (missing reasoning is refused, as in its other API)",
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
        key_names=("MOONSHOT_API_KEY",),
    ),
    Profile(
        name="minimax",
        source="NousResearch/hermes-agent#75725 (thinking blocks are accepted)",
        hosts=("api.minimax.io", "api.minimaxi.com"),
        base_path="/anthropic/v1",
        key_names=("MINIMAX_API_KEY",),
    ),
    Profile(
        name="vercel",
        source="opencode's recording of ai-gateway.vercel.sh (models of other vendors, with their "
        "signatures)",
        hosts=("ai-gateway.vercel.sh",),
        base_path="/v1",
        key_names=("AI_GATEWAY_API_KEY",),
    ),
)

GENERIC = Profile(
    name="generic",
    source="gateways and local servers with this API: a block that was emitted is accepted",
    key_names=("ANTHROPIC_API_KEY",),
    key_header="x-api-key",
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {profile.name: profile for profile in (*_ALL, GENERIC)}
)


def profile_of(name: str, upstream_url: str) -> Profile:
    """
    Return the active profile; `generic` if this dialect knows nothing of the upstream.

    Args:
        name: Value of the setting `upstream_profile`; `auto`: the profile of the host.
        upstream_url: A valid URL; only its host and port are used.
    """
    if name != AUTO:
        return PROFILES.get(name, GENERIC)
    return upstream_at(upstream_url, _ALL) or GENERIC
