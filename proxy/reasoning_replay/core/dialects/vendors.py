"""
Vendors: the facts about each known upstream, as data, and how the profile of one is chosen.

What a vendor does with reasoning, and the evidence, is in the profiles of each dialect.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlsplit

AUTO = "auto"
GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Upstream:
    """
    The facts about one upstream that do not depend on what it does with reasoning.

    Attributes:
        name: Value of the setting `upstream_profile`.
        hosts: Patterns of `host` or `host:port` by which `auto` recognises it; `*` is any text.
        base_path: Path of the API on its host; "" if that varies.
        key_names: Environment variables in which its users keep their key.
        provider: Name in OpenTelemetry's generative AI conventions; "" if they have none, and
            `name` is used.
        key_header: Header that carries a key: `authorization` (after `Bearer`), `api-key`,
            `x-api-key` or `x-goog-api-key`.
        headers: Other headers that it requires.
        wants_key: Whether it requires a key by default.
        lacks: Names of the dialects that it certainly does not serve.
        key_prefixes: Beginnings that its keys have, and no other vendor's.
        takes_only_own_keys: Whether it certainly refuses a key of another vendor. A gateway does
            not: it may pass on the key of its user.
        cache_keys: Names of the dialects in which it takes a `prompt_cache_key`.
        cache_diagnoses: Names of those in which it tells why its prompt cache missed.
    """

    name: str
    hosts: tuple[str, ...]
    base_path: str
    key_names: tuple[str, ...]
    provider: str = ""
    key_header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    wants_key: bool = True
    lacks: tuple[str, ...] = ()
    key_prefixes: tuple[str, ...] = ()
    takes_only_own_keys: bool = False
    cache_keys: tuple[str, ...] = ()
    cache_diagnoses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamProfile:
    """
    What a dialect knows of one upstream.

    Attributes:
        vendor: The upstream, from `vendors`.
        source: Evidence for the other fields.
        remark: What `check` says of it in addition.
    """

    vendor: Upstream
    source: str
    remark: str = ""

    @property
    def name(self) -> str:
        """Value of the setting `upstream_profile`."""
        return self.vendor.name


ProfileT = TypeVar("ProfileT", bound=UpstreamProfile)
NamedT = TypeVar("NamedT", bound=Upstream | UpstreamProfile)


def by_name(rows: Iterable[NamedT]) -> Mapping[str, NamedT]:
    """Return the rows of a table by their names."""
    return MappingProxyType({row.name: row for row in rows})


def chosen(profiles: Mapping[str, ProfileT], name: str, upstream_url: str) -> ProfileT:
    """
    Return the active profile; `generic` if the dialect knows nothing of the upstream.

    Args:
        profiles: The profiles of the dialect, by name.
        name: Value of the setting `upstream_profile`; `auto`: the profile of the host.
        upstream_url: A valid URL; only its host and port are used.
    """
    if name == AUTO:
        known = upstream_at(upstream_url, (profile.vendor for profile in profiles.values()))
        name = "" if known is None else known.name
    return profiles.get(name, profiles[GENERIC])


# A version, and at most the place of an API in OpenAI's style in it.
_VERSION_ONLY = re.compile(r"(/v\d\w*)(?:/openai)?")


def version_in(url: str) -> str:
    """Return the version that is all of an API's base path, as `/v1beta`; else ""."""
    found = _VERSION_ONLY.fullmatch(urlsplit(url).path)
    return found[1] if found is not None else ""


def upstream_at(url: str, upstreams: Iterable[Upstream]) -> Upstream | None:
    """Return the first of these upstreams that has the host of a URL; None if none has."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    places = (host, f"{host}:{parts.port}")
    for one in upstreams:
        if any(fnmatchcase(place, pattern) for pattern in one.hosts for place in places):
            return one
    return None


_OPENAI = ("OPENAI_API_KEY",)
_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_AZURE_HOSTS = (
    "*.openai.azure.com",
    "*.openai.azure.us",
    "*.services.ai.azure.com",
    "*.cognitiveservices.azure.com",
)
_MOONSHOT_HOSTS = ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com")
_ALIBABA_HOSTS = ("dashscope*.aliyuncs.com", "*.maas.aliyuncs.com")
_AWS_HOSTS = ("bedrock-runtime*.amazonaws.com", "bedrock-mantle.*.api.aws")
_GOOGLE_HOSTS = ("aiplatform.googleapis.com", "*-aiplatform.googleapis.com")

# With an API in the style of OpenAI's: Responses, Chat Completions or both.
# Columns: name, hosts, base path, names of keys.
# Sources of `cache_keys`: OpenAI's SDK; opencode, which sends one to OpenAI, Azure and xAI; Codex;
# docs.mistral.ai (Responses), strandsagents.com (Mistral's Chat Completions).
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
            cache_diagnoses=("responses",),
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
        Upstream("meta", ("api.meta.ai",), "/v1", ("MODEL_API_KEY",)),
        Upstream("alibaba", _ALIBABA_HOSTS, "/compatible-mode/v1", ("DASHSCOPE_API_KEY",)),
        Upstream("minimax", ("api.minimax.io", "api.minimaxi.com"), "/v1", ("MINIMAX_API_KEY",)),
        Upstream("vercel", ("ai-gateway.vercel.sh",), "/v1", ("AI_GATEWAY_API_KEY",)),
        Upstream(
            "gemini",
            ("generativelanguage.googleapis.com", *_GOOGLE_HOSTS),
            "/v1beta/openai",
            _GEMINI_KEYS,
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
            cache_keys=("responses", "chat"),
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
            cache_diagnoses=("messages",),
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

_GEMINI_KEY = "x-goog-api-key"

# With the API of Gemini.
GEMINI_VENDORS = by_name(
    (
        replace(
            VENDORS["gemini"],
            hosts=("generativelanguage.googleapis.com",),
            base_path="/v1beta",
            key_header=_GEMINI_KEY,
        ),
        MESSAGES_VENDORS["vertex"],
        Upstream("generic", (), "", _GEMINI_KEYS, "gcp.gemini", _GEMINI_KEY),
    )
)
