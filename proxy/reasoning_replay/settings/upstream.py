"""Upstream settings: its address and profile, the way to it, and the timeouts."""

from typing import Literal

from pydantic import BaseModel, Field

from reasoning_replay.settings.field_types import File, Seconds, UpstreamProxy, UpstreamUrl

__all__ = ["UpstreamSettings"]


class UpstreamSettings(BaseModel, defer_build=True):
    """Where requests go, and how long the proxy waits there."""

    upstream_url: UpstreamUrl = Field(
        default="https://api.openai.com/v1",
        description="Base URL of the API, with its version path. Everything sent to the proxy, "
        "keys included, is sent there: use https unless it is on this machine.",
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
        "generic",
    ] = Field(
        default="auto",
        description="Whose API the upstream is: which ids and fields may go back to it. auto knows "
        "it by the host of upstream_url, and takes it for generic, as OpenAI documents, otherwise.",
    )
    upstream_ca_file: File = Field(
        default="",
        description="A PEM file of certificate authorities that the upstream's certificate may "
        "come from, besides those of the system. Empty: those of the system alone.",
    )
    upstream_proxy: UpstreamProxy = Field(
        default="",
        repr=False,
        description="HTTP proxy on the way to the upstream: http://host:port, with user and "
        "password if it asks for them; env takes it from HTTPS_PROXY, HTTP_PROXY and NO_PROXY. "
        "Empty: none, whatever the environment says.",
    )
    connect_timeout_s: Seconds = Field(
        default=10.0,
        description="Seconds to reach the upstream, TLS included, before the request fails.",
    )
    first_byte_timeout_s: Seconds = Field(
        default=900.0,
        description="Seconds from the end of a request to the head of its answer. A model that is "
        "not streamed says nothing until it is done: shorter cuts long answers off.",
    )
    read_timeout_s: Seconds = Field(
        default=900.0,
        description="Seconds of silence from the upstream, between two reads of an answer, before "
        "it is given up. A model may think for minutes without a byte.",
    )
    total_timeout_s: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds for an exchange from its first byte to its last, WebSockets excepted; "
        "beyond, it is cut off. 0: as long as something comes.",
    )
