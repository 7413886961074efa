"""
Vendors: the hosts, paths and keys of each known upstream, as data.

What a vendor does with reasoning, and the evidence, is in the profiles of each dialect.
"""

from dataclasses import replace

from reasoning_replay.core.dialects.upstreams import Upstream, by_name

__all__ = ["MESSAGES_VENDORS", "VENDORS"]

_OPENAI = ("OPENAI_API_KEY",)
_AZURE_HOSTS = (
    "*.openai.azure.com",
    "*.openai.azure.us",
    "*.services.ai.azure.com",
    "*.cognitiveservices.azure.com",
)
_MOONSHOT_HOSTS = ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com")
_AWS_HOSTS = ("bedrock-runtime*.amazonaws.com", "bedrock-mantle.*.api.aws")
_GOOGLE_HOSTS = ("aiplatform.googleapis.com", "*-aiplatform.googleapis.com")

# With an API in the style of OpenAI's: Responses, Chat Completions or both.
# Columns: name, hosts, base path, names of keys.
# Sources of `cache_keys`: OpenAI's SDK; opencode, which sends one to OpenAI, Azure and xAI; Codex.
VENDORS = by_name(
    (
        Upstream(
            "openai",
            ("api.openai.com", "*.api.openai.com"),
            "/v1",
            _OPENAI,
            "openai",
            lacks=("messages", "gemini"),
            key_prefixes=("sk-proj-", "sk-svcacct-", "sk-admin-"),
            takes_only_own_keys=True,
            cache_keys=("responses", "chat"),
        ),
        Upstream(
            "azure",
            _AZURE_HOSTS,
            "/openai/v1",
            ("AZURE_OPENAI_API_KEY",),
            "azure.ai.openai",
            key_header="api-key",
            cache_keys=("responses", "chat"),
        ),
        Upstream(
            "codex",
            ("chatgpt.com", "*.chatgpt.com"),
            "/backend-api/codex",
            (),
            "openai",
            cache_keys=("responses",),
        ),
        Upstream("copilot", ("*.githubcopilot.com", "copilot-api.*.ghe.com"), "", ()),
        Upstream(
            "openrouter",
            ("openrouter.ai", "*.openrouter.ai"),
            "/api/v1",
            ("OPENROUTER_API_KEY",),
            key_prefixes=("sk-or-v1-",),
        ),
        Upstream(
            "xai",
            ("api.x.ai", "*.api.x.ai"),
            "/v1",
            ("XAI_API_KEY",),
            "x_ai",
            key_prefixes=("xai-",),
            lacks=("gemini",),
            takes_only_own_keys=True,
            cache_keys=("responses",),
        ),
        Upstream("bedrock", _AWS_HOSTS, "", ("AWS_BEARER_TOKEN_BEDROCK",), "aws.bedrock"),
        Upstream(
            "deepseek",
            ("api.deepseek.com",),
            "",
            ("DEEPSEEK_API_KEY",),
            lacks=("gemini",),
            takes_only_own_keys=True,
        ),
        Upstream("vllm", (), "/v1", ("VLLM_API_KEY",), wants_key=False),
        Upstream("ollama", ("*:11434", "ollama.com"), "/v1", ("OLLAMA_API_KEY",), wants_key=False),
        Upstream("llamacpp", (), "/v1", ("LLAMA_API_KEY",), wants_key=False),
        Upstream("moonshot", _MOONSHOT_HOSTS, "/v1", ("MOONSHOT_API_KEY",)),
        Upstream("zai", ("api.z.ai", "open.bigmodel.cn"), "", ("ZAI_API_KEY", "ZHIPU_API_KEY")),
        Upstream("minimax", ("api.minimax.io", "api.minimaxi.com"), "/v1", ("MINIMAX_API_KEY",)),
        Upstream("vercel", ("ai-gateway.vercel.sh",), "/v1", ("AI_GATEWAY_API_KEY",)),
        Upstream(
            "gemini",
            ("generativelanguage.googleapis.com", *_GOOGLE_HOSTS),
            "/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "gcp.gemini",
        ),
        Upstream(
            "mistral",
            ("api.mistral.ai",),
            "/v1",
            ("MISTRAL_API_KEY",),
            "mistral_ai",
            lacks=("gemini",),
            takes_only_own_keys=True,
        ),
        Upstream(
            "groq",
            ("api.groq.com",),
            "/openai/v1",
            ("GROQ_API_KEY",),
            "groq",
            key_prefixes=("gsk_",),
            lacks=("gemini",),
            takes_only_own_keys=True,
        ),
        Upstream("cerebras", ("api.cerebras.ai",), "/v1", ("CEREBRAS_API_KEY",)),
        Upstream("sglang", ("*:30000",), "/v1", ("SGLANG_API_KEY",), wants_key=False),
        Upstream("lmstudio", ("*:1234",), "/v1", ("LM_API_TOKEN",), wants_key=False),
        Upstream("generic", (), "", _OPENAI, "openai"),
    )
)

_PATH = "/anthropic/v1"
_KEY = "x-api-key"
_ANTHROPIC = ("ANTHROPIC_API_KEY",)
_VERSION = (("anthropic-version", "2023-06-01"),)

# With the Messages API, which most of them have at another path.
MESSAGES_VENDORS = by_name(
    (
        Upstream(
            "anthropic",
            ("api.anthropic.com",),
            "/v1",
            _ANTHROPIC,
            "anthropic",
            _KEY,
            _VERSION,
            lacks=("responses", "gemini"),
            key_prefixes=("sk-ant-",),
            takes_only_own_keys=True,
        ),
        VENDORS["bedrock"],
        Upstream("vertex", _GOOGLE_HOSTS, "", (), "gcp.vertex_ai"),
        replace(
            VENDORS["azure"],
            hosts=("*.services.ai.azure.com",),
            base_path=_PATH,
            key_header=_KEY,
            headers=_VERSION,
        ),
        replace(VENDORS["deepseek"], base_path=_PATH, key_header=_KEY),
        replace(VENDORS["moonshot"], base_path=""),
        replace(VENDORS["minimax"], base_path=_PATH),
        VENDORS["vercel"],
        Upstream("generic", (), "", _ANTHROPIC, key_header=_KEY),
    )
)
