"""
Upstream profiles: the known properties of each upstream's Responses API, as data.

No other module decides by a vendor's name; each reads the fields of the active `Profile`.
A profile states what may be sent. It never decides to which item reasoning belongs.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from reasoning_replay.core.dialects.vendors import VENDORS, UpstreamProfile, by_name, chosen

# Shapes of `encrypted_content`. Formats change, so a shape only identifies foreign blobs after a
# refusal that names none. It is never a reason to leave a blob out before the first attempt.
_ANY = re.compile(r".+", re.DOTALL)
_NONE = re.compile(r"(?!)")
_FERNET = re.compile(r"gAAAA[A-Za-z0-9_-]+={0,2}")
# Unpadded standard base64; the output of xAI's own tools has the item's id as a prefix (recorded).
_XAI = re.compile(r"(?!gAAAA)(?:tco_[0-9a-f-]+_call-[0-9a-f-]+_)?[A-Za-z0-9+/]+")
_BEDROCK = re.compile(r"rsn_[A-Za-z0-9+/_-]+={0,2}")
_PLAIN = re.compile(r"(?!gAAAA|rsn_).+", re.DOTALL)


class Ids(StrEnum):
    """How the ids of reasoning and of the items that it led to are sent."""

    TOGETHER = "together"  # pairs are checked by id: both ids or neither; a lost id is added
    KEPT = "kept"  # reasoning keeps its id; the items that it led to stay as they are
    DROPPED = "dropped"  # no ids, wherever the API accepts the items without them
    REQUIRED = "required"  # reasoning without an id is refused, and stored pairs are checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(UpstreamProfile):
    """
    The properties of one upstream.

    Attributes:
        ids: See Ids.
        omits: Members of a reasoning item that are refused on input.
        needs: Member without which reasoning is useless there; "" if any form is useful.
        takes_include: Whether `include: ["reasoning.encrypted_content"]` has an effect.
        takes_reasoning: Whether it takes reasoning at all.
        keeps_items: Whether it can store items at all. If not, a bare id means nothing to it,
            whatever the request's `store` is.
        takes_phase: Whether a message may get its `phase` back, if upstream emitted it with one.
        drops_unanswered: Whether a refused call without an output may be left out.
        blob: Shape of its `encrypted_content`.
    """

    ids: Ids = Ids.TOGETHER
    omits: tuple[str, ...] = ()
    needs: str = ""
    takes_include: bool = True
    takes_reasoning: bool = True
    keeps_items: bool = True
    takes_phase: bool = True
    drops_unanswered: bool = False
    blob: re.Pattern[str] = _ANY

    @property
    def checks_pairs(self) -> bool:
        """Whether an item's id may require the reasoning that was emitted before the item."""
        return self.ids is not Ids.KEPT

    def is_own_blob(self, blob: str) -> bool:
        """Return whether an `encrypted_content` has the shape of this upstream's own."""
        return self.blob.fullmatch(blob) is not None


GENERIC = Profile(
    vendor=VENDORS["generic"],
    source="OpenAI's documentation; gateways to several vendors (opencode zen, LiteLLM)",
)

_ALL = (
    Profile(
        vendor=VENDORS["openai"],
        source="pydantic-ai cassette test_openai_responses_thinking_with_modified_history (a pair "
        "is checked by its ids); Vercel AI SDK packages/openai/src/responses; openai/codex#8128; "
        "litellm#34569 (reasoning models refuse tools in Chat Completions)",
        remark="its newer models reason with tools on /responses only",
        blob=_FERNET,
    ),
    Profile(
        vendor=VENDORS["azure"],
        source="LiteLLM llms/azure/responses/transformation.py (no `status`, litellm#13484); "
        "fantasy's recordings (store false: reasoning with its id, call without). Reports disagree "
        "over time: openai/codex#3528 (id demanded), openai/codex#35739 (id and blob not found)",
        ids=Ids.REQUIRED,
        omits=("status",),
        blob=_FERNET,
    ),
    Profile(
        vendor=VENDORS["codex"],
        source="CLIProxyAPI codex_reasoning_replay_cache.go and codex_executor_reasoning.go (ids "
        "are stripped; without a blob they are not found), LiteLLM llms/chatgpt (no store); "
        "opencode's recording native-openai-oauth-tool-loop (neither id)",
        ids=Ids.DROPPED,
        keeps_items=False,
        blob=_FERNET,
    ),
    Profile(
        vendor=VENDORS["copilot"],
        source="microsoft/vscode-copilot-chat responsesApi.ts (reasoning with its id, calls and "
        "messages without), openclaw#71448 (the blob is bound to that id), LiteLLM "
        "llms/github_copilot/responses (ids rotate; no null `status`)",
        ids=Ids.KEPT,
        omits=("status",),
        keeps_items=False,
    ),
    Profile(
        vendor=VENDORS["openrouter"],
        source="@openrouter/sdk models OpenResponsesReasoning and OpenResponsesFunctionToolCall "
        "(`id` is required); pydantic-ai cassettes (`store: false` whatever was asked); LiteLLM",
        ids=Ids.KEPT,
        keeps_items=False,
    ),
    Profile(
        vendor=VENDORS["xai"],
        source="docs.x.ai best-practices (30 days of storage; blobs are sent every turn), "
        "CLIProxyAPI internal/signature/grok_validation.go (unpadded base64); ruby_llm's "
        "recordings (with all ids, and with none); codex-router#888 (nothing is refused, but Grok "
        "4.7 stops reasoning after two rounds without its items)",
        blob=_XAI,
    ),
    Profile(
        vendor=VENDORS["bedrock"],
        source="LiteLLM llms/bedrock/responses; pydantic-ai cassettes test_bedrock_mantle "
        "(blobs `rsn_…`, both ids)",
        blob=_BEDROCK,
    ),
    Profile(
        vendor=VENDORS["deepseek"],
        source="rikkahub/rikkahub#1629 (`reasoning_text` must be passed back); pydantic-ai "
        "cassettes test_deepseek_responses (id and text, call without id, `store: false`)",
        ids=Ids.KEPT,
        needs="content",
        takes_include=False,
        keeps_items=False,
        blob=_NONE,
    ),
    Profile(
        vendor=VENDORS["vllm"],
        source="vLLM vllm/entrypoints/openai/responses/utils.py (`Encrypted content is not "
        "supported.`; the text is read from `content`), protocol.py (reasoning has an `id`)",
        ids=Ids.KEPT,
        omits=("encrypted_content",),
        needs="content",
        takes_include=False,
        keeps_items=False,
        blob=_NONE,
    ),
    Profile(
        vendor=VENDORS["ollama"],
        source="Ollama openai/responses.go (`encrypted_content` is the plain thinking, and all "
        "that is read of reasoning; nothing is kept)",
        ids=Ids.KEPT,
        needs="encrypted_content",
        takes_include=False,
        keeps_items=False,
        blob=_PLAIN,
    ),
    Profile(
        vendor=VENDORS["llamacpp"],
        source="llama.cpp tools/server/server-chat.cpp (`item['content'] is not an array`; "
        "previous_response_id is refused)",
        ids=Ids.KEPT,
        needs="content",
        takes_include=False,
        keeps_items=False,
        blob=_NONE,
    ),
    Profile(
        vendor=VENDORS["mistral"],
        source="docs.mistral.ai/api/endpoint/responses, 2026-11, a preview (stateless: `store` is "
        "absent, null or false, `previous_response_id` absent or null; reasoning is plain text)",
        ids=Ids.KEPT,
        needs="content",
        takes_include=False,
        keeps_items=False,
        blob=_NONE,
    ),
    Profile(
        vendor=VENDORS["meta"],
        source="deepnoodle-ai/dive#279 (`include` brings encrypted content, which goes back in a "
        "tool loop, run with a key); agentscope#2420, oh-my-pi#10966 and #11791 (an id that it "
        "does not know is refused as `Referenced reasoning item`, none is not)",
    ),
    Profile(
        vendor=VENDORS["alibaba"],
        source="alibabacloud.com/help/model-studio, 2026-11: openai-compatible-responses (path, "
        "`previous_response_id`), cot-summary (qwen4-max emits `encrypted_content` if "
        "`reasoning.summary` is `auto`, and takes it back unchanged)",
        takes_include=False,
    ),
    Profile(
        vendor=VENDORS["minimax"],
        source="platform.minimax.io/docs/api-reference/responses-create, 2026-11 (`store: false` "
        "in every response; MiniMax-M3 emits reasoning only if the request has `reasoning`)",
        ids=Ids.KEPT,
        takes_include=False,
        keeps_items=False,
    ),
    GENERIC,
)

PROFILES = by_name(_ALL)
profile_of = partial(chosen, PROFILES)
