"""
Upstream profiles: the known properties of each upstream's Chat Completions API, as data.

No other module decides by a vendor's name; each reads the fields of the active `Profile`. A profile
states what may be sent. It never decides to which message reasoning belongs. Whatever the profile,
only a member that the upstream itself emitted is injected.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from reasoning_replay.core.dialects.vendors import VENDORS, UpstreamProfile, by_name, chosen


class Rounds(StrEnum):
    """The messages that get reasoning."""

    ALL = "all"  # every message: what upstream saw once, it sees again
    CURRENT = "current"  # messages after the last one of the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(UpstreamProfile):
    """
    The properties of one upstream.

    Attributes:
        alone: Members of a message that are injected without the other ones, which say the same.
        takes: Members of a message that upstream accepts; None: whatever it emitted.
        demands_empty: Whether upstream demands an emitted member also if its text was empty, or is
            in the message in another form.
    """

    alone: tuple[str, ...] = ()
    takes: tuple[str, ...] | None = None
    demands_empty: bool = False


GENERIC = Profile(
    vendor=VENDORS["generic"],
    source="recorded traffic of Avian, Crusoe, doubleword, GPUStack, Hugging Face and Venice: a "
    "member that was emitted is accepted; LiteLLM 1.110.2, run as an upstream",
)

_ALL = (
    Profile(
        vendor=VENDORS["deepseek"],
        source="api-docs.deepseek.com (thinking mode: with tools, every message after the last one "
        "of the user needs `reasoning_content`, and older ones may have it); "
        "DeepSeek-Reasonix#6217; rig's and chatlas' recordings",
        demands_empty=True,
    ),
    Profile(
        vendor=VENDORS["moonshot"],
        source="platform.moonshot.ai (messages with tool calls keep `reasoning_content`); "
        "opencode's recording of kimi-k3, which sends it in every message",
        demands_empty=True,
    ),
    Profile(
        vendor=VENDORS["zai"],
        source="docs.z.ai (`clear_thinking`: the server itself drops older reasoning, unless it is "
        "false); fantasy's recordings of api.z.ai",
    ),
    Profile(
        vendor=VENDORS["minimax"],
        source="platform.minimax.io (with `reasoning_split`, the whole message goes back); "
        "opencode's recording of MiniMax-M3 sends both members",
    ),
    Profile(
        vendor=VENDORS["openrouter"],
        source="openrouter.ai/docs (`reasoning_details` in their exact sequence); fantasy's, rig's "
        "and ruby_llm's recordings, which send them alone",
        alone=("reasoning_details",),
    ),
    Profile(
        vendor=VENDORS["vercel"],
        source="vercel.com/docs/ai-gateway (`reasoning_details` as in OpenRouter's API); fantasy's "
        "recordings of ai-gateway.vercel.sh",
        alone=("reasoning_details",),
    ),
    Profile(
        vendor=VENDORS["gemini"],
        source="ai.google.dev/gemini-api/docs/thought-signatures (the first call of each step of "
        "the current turn is validated; older ones help); opencode's recording of the endpoint",
    ),
    Profile(
        vendor=VENDORS["xai"],
        source="fantasy's recordings of grok-3-mini and grok-code-fast-1 (`reasoning_content` goes "
        "back)",
    ),
    Profile(
        vendor=VENDORS["mistral"],
        source="crush#1590, litellm#30835 (422 `extra_forbidden` for any such member); its own "
        "reasoning is a part of `content`",
        takes=(),
    ),
    Profile(
        vendor=VENDORS["groq"],
        source="req_llm#772 (400 for `reasoning_content`), tensorzero#6353 (`reasoning` is "
        "accepted); console.groq.com/docs/reasoning",
        takes=("reasoning",),
    ),
    Profile(
        vendor=VENDORS["cerebras"],
        source="qwen-code#11045 (400 `wrong_api_format` for `reasoning_content`; `reasoning` is "
        "accepted); pydantic-ai's recordings",
        takes=("reasoning",),
    ),
    Profile(
        vendor=VENDORS["vllm"],
        source="qwen-code#4285 and vllm-project RFC #27755 (newer versions emit both names and "
        "read only `reasoning`); Crusoe's recordings",
        alone=("reasoning",),
    ),
    Profile(
        vendor=VENDORS["sglang"],
        source="docs.sglang.ai separate_reasoning (`reasoning_content` is emitted and passed to "
        "the chat template)",
    ),
    Profile(
        vendor=VENDORS["llamacpp"],
        source="ggml-org/llama.cpp#22615, #25887 (`reasoning_content` is passed to the chat "
        "template); fantasy's and rig's recordings",
    ),
    Profile(
        vendor=VENDORS["ollama"],
        source="ruby_llm's, pydantic-ai's and activeagent's recordings (`reasoning` is emitted and "
        "goes back)",
    ),
    Profile(
        vendor=VENDORS["lmstudio"],
        source="lmstudio.ai/docs, Chat Completions (`reasoning_content`, as of llama.cpp, whose "
        "engine it has)",
    ),
    Profile(
        vendor=VENDORS["azure"],
        source="req_llm's recordings of DeepSeek R1 on cognitiveservices.azure.com "
        "(`reasoning_content`)",
    ),
    Profile(
        vendor=VENDORS["copilot"],
        source="microsoft/vscode-copilot-chat (`reasoning_text` and `reasoning_opaque` go back "
        "with the tool calls of a message)",
    ),
    GENERIC,
)

PROFILES = by_name(_ALL)
profile_of = partial(chosen, PROFILES)


@dataclass(frozen=True, slots=True)
class Policy:
    """
    The limits that the operator and the upstream set for injection.

    Attributes:
        rounds: Set by the operator; None: all.
        refused: Members that the model has refused.
        demands: Whether the model has refused messages without their reasoning, so that every
            message must have it.
        restores_ids: Whether a call, and its result, may get the id back that reasoning names.
    """

    profile: Profile = GENERIC
    rounds: Rounds | None = None
    refused: frozenset[str] = frozenset()
    demands: bool = False
    restores_ids: bool = False

    @property
    def demands_all(self) -> bool:
        """Whether a message must have every member that was emitted."""
        return self.demands or self.profile.demands_empty

    @property
    def is_current_only(self) -> bool:
        """Whether only messages after the last one of the user get reasoning."""
        return not self.demands and self.rounds is Rounds.CURRENT
