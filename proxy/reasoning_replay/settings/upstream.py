"""Upstream settings: address, profile, CA file, HTTP proxy and timeouts."""

from typing import Literal

from pydantic import BaseModel, Field

from reasoning_replay.settings.field_types import File, Seconds, UpstreamProxy, UpstreamUrl

__all__ = ["UpstreamSettings"]


class UpstreamSettings(BaseModel, defer_build=True):
    """The upstream, the way to it, and the timeouts."""

    upstream_url: UpstreamUrl = Field(
        default="https://api.openai.com/v1",
        description="Base URL of the API, with its version path and without `/responses`. The "
        "proxy sends everything there, keys included: use https unless the API runs on this "
        "machine.",
    )
    upstream_profile: Literal[
        "auto",
        "openai",
        "azure",
        "codex",
        "copilot",
        "openrouter",
        "xai",
        "bedrock",
        "deepseek",
        "vllm",
        "ollama",
        "llamacpp",
        "moonshot",
        "zai",
        "minimax",
        "vercel",
        "gemini",
        "mistral",
        "groq",
        "cerebras",
        "sglang",
        "lmstudio",
        "anthropic",
        "vertex",
        "generic",
    ] = Field(
        default="auto",
        description="Vendor of the API; it decides which ids and fields are sent back "
        "(docs/upstreams.md). `auto` goes by the host of `upstream_url`; an unknown host gets "
        "`generic`, the API as OpenAI documents it. A wrong profile costs refusals and retries.",
    )
    upstream_ca_file: File = Field(
        default="",
        description="PEM file of certificate authorities to trust for the upstream, in addition "
        "to those of the system.",
    )
    upstream_proxy: UpstreamProxy = Field(
        default="",
        repr=False,
        description="HTTP proxy on the way to the upstream: `http://user:password@host:port`, or "
        "`env` to read `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` once at the start. Empty: no "
        "proxy, and these variables are ignored.",
    )
    connect_timeout_s: Seconds = Field(
        default=10.0,
        description="Longest time to connect to the upstream, TLS handshake included.",
    )
    first_byte_timeout_s: Seconds = Field(
        default=900.0,
        description="Longest wait from the end of a request to the head of its response. Without "
        "streaming, a model sends nothing until it has finished: too short cuts off long "
        "responses.",
    )
    read_timeout_s: Seconds = Field(
        default=900.0,
        description="Longest silence within a response of the upstream; a model may think for "
        "minutes without a byte. On a WebSocket: longest time that the upstream may read nothing "
        "while messages to it are pending.",
    )
    total_timeout_s: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Longest exchange, from the first byte of the request to the last byte of "
        "the response; WebSockets are exempt. `0`: no limit.",
    )
