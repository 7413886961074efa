"""
Every knob of the proxy: its name, unit, default and hazard. Where it may be set: `sources`.

Read by `proxy.cli`, `proxy.check` and `proxy.web.app` alone: all below takes plain values.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from proxy import addresses
from proxy.core.heal.repair import Repair

__all__ = ["Settings"]

MIB: Final = 1024 * 1024


def _utf8(secret: SecretStr) -> SecretStr:
    try:
        secret.get_secret_value().encode()
    except UnicodeEncodeError:
        raise ValueError("not UTF-8 text; use letters and digits") from None
    return secret


def _repairs(written: str) -> str:
    """Take names of repairs by comma, or none of them."""
    names = [name.strip() for name in written.split(",")]
    known = [repair.value for repair in Repair]
    if names not in (["none"], [""]) and not set(names) <= set(known):
        raise ValueError(f"name some of {','.join(known)}, or none")
    return ",".join(names)


UpstreamUrl = Annotated[str, AfterValidator(addresses.upstream_url)]
StoreUrl = Annotated[str, AfterValidator(addresses.store_url)]
Listen = Annotated[str, AfterValidator(addresses.listen)]
RepairNames = Annotated[str, AfterValidator(_repairs)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """
    What one process runs with; immutable once it is made.

    A Settings made by hand reads its arguments and nothing else, so that tests and embedders
    are not at the mercy of the environment; `load` is the one that looks around.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

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
    listen: Listen = Field(
        default="127.0.0.1:8080",
        description="host:port for clients; port 0 takes a free one. 0.0.0.0 opens it to the "
        "network: anyone who reaches it reaches the upstream, with their own key.",
    )
    admin_listen: Listen = Field(
        default="127.0.0.1:9090",
        description="host:port for health and metrics; port 0 takes a free one. It has no "
        "password: never open it to the internet.",
    )
    store_url: StoreUrl = Field(
        default="memory://",
        repr=False,
        description="Where reasoning is kept: memory://, redis://host:port/db, rediss://... (TLS) "
        "or unix:///path. memory:// is lost at a restart and not shared between replicas.",
    )
    mode: Literal["on", "shadow", "off"] = Field(
        default="on",
        description="on: capture and give back. shadow: capture and count what would be given "
        "back, but change no request. off: pass everything through.",
    )
    anchors: Literal["all", "tool_calls"] = Field(
        default="all",
        description="Before which items reasoning is given back: all (tool calls and assistant "
        "messages) or tool_calls alone, which sends fewer input tokens.",
    )
    include: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether to ask for reasoning.encrypted_content where the client did not: auto "
        "(when upstream keeps no items, so that ids alone mean nothing to it), always (of every "
        "model that may reason), never: then much cannot be given back.",
    )
    heal: Literal["on", "off"] = Field(
        default="on",
        description="Whether a request that upstream refuses for something that can be mended is "
        "sent once more, mended. off: also a refusal of what was given back reaches the client.",
    )
    repairs: RepairNames = Field(
        default="duplicates,hollow,foreign,dangling",
        description="What is mended before the first try, by comma: duplicates (exact copies), "
        "hollow (an id alone, to an upstream that keeps nothing), foreign (reasoning of another "
        "model or account, or refused before), dangling (reasoning at the very end); none.",
    )
    ttl_s: Count = Field(
        default=604_800,  # 7 days
        description="Seconds a conversation is kept after its last use. Longer costs memory; a "
        "conversation resumed later goes on without its reasoning.",
    )
    conversation_max_turns: Count = Field(
        default=1024, description="Turns kept of one conversation; beyond, the oldest goes."
    )
    conversation_max_bytes: Count = Field(
        default=8 * MIB, description="Bytes kept of one conversation; beyond, the oldest turn goes."
    )
    memory_max_bytes: Count = Field(
        default=256 * MIB,
        description="Bytes that memory:// keeps in all; beyond, the conversation unused for "
        "longest is forgotten. The process itself needs room besides.",
    )
    inspect_max_bytes: Count = Field(
        default=32 * MIB,
        description="Bytes of a request that are read to give reasoning back. A larger request "
        "is streamed through unread; every request in flight may hold this much memory.",
    )
    decoded_max_bytes: Count = Field(
        default=64 * MIB,
        description="Bytes that a request with a Content-Encoding may decode to and still be read. "
        "A larger one is sent on as it came; every one in flight may hold this much besides.",
    )
    capture_max_bytes: Count = Field(
        default=64 * MIB,
        description="Bytes of an answer that are read to capture its reasoning. A larger answer "
        "still reaches the client whole, but is not captured.",
    )
    store_timeout_ms: Count = Field(
        default=250,
        description="Milliseconds an exchange waits for the store before it goes on without. "
        "Too short for a distant Redis means that nothing is ever given back.",
    )
    connect_timeout_s: Seconds = Field(
        default=10.0,
        description="Seconds to reach the upstream, TLS included, before the request fails.",
    )
    read_timeout_s: Seconds = Field(
        default=900.0,
        description="Seconds of silence from the upstream, between two reads, before it is given "
        "up. A model may think for minutes without a byte: shorter cuts long answers off.",
    )
    drain_s: float = Field(
        default=600.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds that running exchanges get to finish after SIGTERM. Whatever stops "
        "the process (terminationGracePeriodSeconds) must wait longer than this.",
    )
    scope_secret: Annotated[SecretStr, AfterValidator(_utf8)] = Field(
        default=SecretStr(""),
        description="Key of the hash that stands for a client's credential in the store. Must be "
        "the same on all replicas: when it changes, what was kept is not found again. "
        "Set it by the environment or the file; a flag shows in the process list.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="json, text, or auto: text on a terminal, JSON lines elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Least severe level written; above info, no line for each exchange.",
    )

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.listen == self.admin_listen and addresses.host_and_port(self.listen)[1] != 0:
            raise ValueError("admin_listen: the same address as listen; give it a port of its own")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **_others: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments alone: `load` does the merging, as a fault must name its place."""
        return (init_settings,)
