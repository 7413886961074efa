"""
Upstream profiles: the known properties of each upstream's Chat Completions API, as data.

No other module decides by a vendor's name; each reads the fields of the active `Profile`. A profile
states what may be sent. It never decides to which message reasoning belongs. Whatever the profile,
only a member that the upstream itself emitted is injected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from reasoning_replay.core.dialects.responses import profiles as responses
from reasoning_replay.core.dialects.upstreams import AUTO, Upstream, upstream_at

__all__ = ["GENERIC", "PROFILES", "Policy", "Profile", "Rounds", "profile_of"]


class Rounds(StrEnum):
    """The messages that get reasoning."""

    ALL = "all"  # every message: what upstream saw once, it sees again
    CURRENT = "current"  # messages after the last one of the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Upstream):
    """
    The properties of one upstream.

    Attributes:
        alone: Members of a message that are injected without the other ones, which say the same.
        takes: Members of a message that upstream accepts; None: whatever it emitted.
        rounds: See Rounds.
        demands_empty: Whether upstream demands an emitted member also if its text was empty, or is
            in the message in another form.
    """

    alone: tuple[str, ...] = ()
    takes: tuple[str, ...] | None = None
    rounds: Rounds = Rounds.ALL
    demands_empty: bool = False


def _as_in_responses(
    name: str, source: str, alone: tuple[str, ...] = (), *, demands_empty: bool = False
) -> Profile:
    """Return the profile of an upstream that has both APIs on the same hosts."""
    same = responses.PROFILES[name]
    return Profile(
        name=name,
        source=source,
        hosts=same.hosts,
        provider=same.provider,
        base_path=same.base_path,
        key_names=same.key_names,
        key_header=same.key_header,
        wants_key=same.wants_key,
        alone=alone,
        demands_empty=demands_empty,
    )


GENERIC = _as_in_responses(
    "generic",
    "recorded traffic of Avian, Crusoe, doubleword, GPUStack, Hugging Face and Venice: a member "
    "that was emitted is accepted",
)

_ALL = (
    _as_in_responses(
        "deepseek",
        "api-docs.deepseek.com (thinking mode: with tools, every message after the last one of the "
        "user needs `reasoning_content`, and older ones may have it); DeepSeek-Reasonix#6217; "
        "rig's and chatlas' recordings",
        demands_empty=True,
    ),
    Profile(
        name="moonshot",
        source="platform.moonshot.ai (messages with tool calls keep `reasoning_content`); "
        "opencode's recording of kimi-k3, which sends it in every message",
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
        base_path="/v1",
        key_names=("MOONSHOT_API_KEY",),
        demands_empty=True,
    ),
    Profile(
        name="zai",
        source="docs.z.ai (`clear_thinking`: the server itself drops older reasoning, unless it is "
        "false); fantasy's recordings of api.z.ai",
        hosts=("api.z.ai", "open.bigmodel.cn"),
        key_names=("ZAI_API_KEY", "ZHIPU_API_KEY"),
    ),
    Profile(
        name="minimax",
        source="platform.minimax.io (with `reasoning_split`, the whole message goes back); "
        "opencode's recording of MiniMax-M3 sends both members",
        hosts=("api.minimax.io", "api.minimaxi.com"),
        base_path="/v1",
        key_names=("MINIMAX_API_KEY",),
    ),
    _as_in_responses(
        "openrouter",
        "openrouter.ai/docs (`reasoning_details` in their exact sequence); fantasy's, rig's and "
        "ruby_llm's recordings, which send them alone",
        alone=("reasoning_details",),
    ),
    Profile(
        name="vercel",
        source="vercel.com/docs/ai-gateway (`reasoning_details` as in OpenRouter's API); fantasy's "
        "recordings of ai-gateway.vercel.sh",
        hosts=("ai-gateway.vercel.sh",),
        base_path="/v1",
        key_names=("AI_GATEWAY_API_KEY",),
        alone=("reasoning_details",),
    ),
    Profile(
        name="gemini",
        provider="gcp.gemini",
        source="ai.google.dev/gemini-api/docs/thought-signatures (the first call of each step of "
        "the current turn is validated; older ones help); opencode's recording of the endpoint",
        hosts=(
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "*-aiplatform.googleapis.com",
        ),
        base_path="/v1beta/openai",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    _as_in_responses(
        "xai",
        "fantasy's recordings of grok-3-mini and grok-code-fast-1 (`reasoning_content` goes back)",
    ),
    Profile(
        name="mistral",
        provider="mistral_ai",
        source="crush#1590, litellm#30835 (422 `extra_forbidden` for any such member); its own "
        "reasoning is a part of `content`",
        hosts=("api.mistral.ai",),
        base_path="/v1",
        key_names=("MISTRAL_API_KEY",),
        takes=(),
    ),
    Profile(
        name="groq",
        provider="groq",
        source="req_llm#772 (400 for `reasoning_content`), tensorzero#6353 (`reasoning` is "
        "accepted); console.groq.com/docs/reasoning",
        hosts=("api.groq.com",),
        base_path="/openai/v1",
        key_names=("GROQ_API_KEY",),
        takes=("reasoning",),
    ),
    Profile(
        name="cerebras",
        source="qwen-code#11045 (400 `wrong_api_format` for `reasoning_content`; `reasoning` is "
        "accepted); pydantic-ai's recordings",
        hosts=("api.cerebras.ai",),
        base_path="/v1",
        key_names=("CEREBRAS_API_KEY",),
        takes=("reasoning",),
    ),
    _as_in_responses(
        "vllm",
        "qwen-code#4285 and vllm-project RFC #27755 (newer versions emit both names and read only "
        "`reasoning`); Crusoe's recordings",
        alone=("reasoning",),
    ),
    Profile(
        name="sglang",
        source="docs.sglang.ai separate_reasoning (`reasoning_content` is emitted and passed to "
        "the chat template)",
        hosts=("*:30000",),
        base_path="/v1",
        key_names=("SGLANG_API_KEY",),
        wants_key=False,
    ),
    _as_in_responses(
        "llamacpp",
        "ggml-org/llama.cpp#22615, #25887 (`reasoning_content` is passed to the chat template); "
        "fantasy's and rig's recordings",
    ),
    _as_in_responses(
        "ollama",
        "ruby_llm's, pydantic-ai's and activeagent's recordings (`reasoning` is emitted and goes "
        "back)",
    ),
    Profile(
        name="lmstudio",
        source="lmstudio.ai/docs, Chat Completions (`reasoning_content`, as of llama.cpp, whose "
        "engine it has)",
        hosts=("*:1234",),
        base_path="/v1",
        key_names=("LM_API_TOKEN",),
        wants_key=False,
    ),
    _as_in_responses(
        "azure",
        "req_llm's recordings of DeepSeek R1 on cognitiveservices.azure.com (`reasoning_content`)",
    ),
    _as_in_responses(
        "copilot",
        "microsoft/vscode-copilot-chat (`reasoning_text` and `reasoning_opaque` go back with the "
        "tool calls of a message)",
    ),
    GENERIC,
)

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in _ALL})


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


@dataclass(frozen=True, slots=True)
class Policy:
    """
    The limits that the operator and the upstream set for injection.

    Attributes:
        rounds: Set by the operator; None: as the profile says.
        refused: Members that the model has refused.
        demands: Whether the model has refused messages without their reasoning, so that every
            message must have it.
    """

    profile: Profile = GENERIC
    rounds: Rounds | None = None
    refused: frozenset[str] = frozenset()
    demands: bool = False

    @property
    def demands_all(self) -> bool:
        """Whether a message must have every member that was emitted."""
        return self.demands or self.profile.demands_empty

    @property
    def is_current_only(self) -> bool:
        """Whether only messages after the last one of the user get reasoning."""
        return not self.demands and (self.rounds or self.profile.rounds) is Rounds.CURRENT
