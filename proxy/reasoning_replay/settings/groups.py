"""
Groups: the settings that deployments change, each with its unit, its default and its hazard.

A class is a group of the reference; its docstring is the sentence below the heading there.
"""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, SecretStr

from reasoning_replay.settings.field_types import (
    Count,
    EncryptionKeys,
    File,
    Listen,
    ModelNames,
    ProfileName,
    RepairNames,
    ScopeFrom,
    ScopeSecret,
    Secret,
    StoreUrl,
    TracingWay,
    TrustedProxies,
    UpstreamProxy,
    UpstreamUrl,
)


class Group(BaseModel, defer_build=True):
    """
    Settings that belong together, in reading order.

    Attributes:
        heading: Heading of the group.
        is_expert: Whether the defaults fit almost every deployment.
    """

    heading: ClassVar[str]
    is_expert: ClassVar[bool] = False


class Upstream(Group):
    """The API that requests go to; docs/deploy.md explains the HTTP proxy."""

    heading = "Upstream"

    upstream_url: UpstreamUrl = Field(
        default="https://api.openai.com/v1",
        description="Base URL of the API, with its version path and without `/responses`. The "
        "proxy sends everything there, keys included: use https unless the API runs on this "
        "machine.",
    )
    upstreams: dict[str, dict[str, Any]] = Field(
        default={},
        repr=False,
        description="Several APIs instead of `upstream_url`, in YAML or JSON: `{openai: {url: "
        "https://api.openai.com/v1}}`. The first segment of a path chooses, such as "
        "`/openai/v1/…` (docs/several-upstreams.md).",
    )
    upstream_profile: ProfileName = Field(
        default="auto",
        description="Vendor of the API; it decides which ids and fields are sent back "
        "(docs/upstreams.md). `auto` goes by the host of `upstream_url`; an unknown host gets "
        "`generic`, the API as OpenAI documents it. A wrong profile costs refusals and retries.",
    )
    foreign_keys: Literal["refuse", "forward"] = Field(
        default="refuse",
        description="What happens to a request with the key of another vendor, such as "
        "`sk-ant-…` for OpenAI, if the host of `upstream_url` is known to take no key but its own. "
        "`refuse`: 400 `foreign_key`, and the key is sent nowhere. `forward`: it is sent. Only "
        "`mode: on` refuses.",
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


class Clients(Group):
    """The address for clients; docs/deploy.md explains TLS."""

    heading = "Clients"

    listen: Listen = Field(
        default="127.0.0.1:8080",
        description="Address for clients, `host:port`; IPv6 is `[::1]:8080`, and port `0` picks "
        "a free port. `0.0.0.0` opens it to the network: anyone who can connect reaches the "
        "upstream, with their own key.",
    )
    trusted_proxies: TrustedProxies = Field(
        default="",
        description="Addresses and networks of load balancers in front, separated by commas. "
        "`client` in the log is then the last address in `X-Forwarded-For` that is none of them.",
    )
    overhead_header: Literal["off", "on"] = Field(
        default="off",
        description="`on`: responses of the upstream carry `x-reasoning-replay-overhead-ms`, the "
        "time that the proxy added until their first byte, in milliseconds "
        "(docs/observability.md). `off`: they do not.",
    )
    tls_cert_file: File = Field(
        default="",
        description="PEM file with the certificate for clients, and its chain. It is read again "
        "when it changes. Empty: plain HTTP.",
    )
    tls_key_file: File = Field(
        default="", description="PEM file with the private key of `tls_cert_file`, not encrypted."
    )


class ReplaySettings(Group):
    """Injection, repairs and healing."""

    heading = "Replay"

    mode: Literal["on", "shadow", "off"] = Field(
        default="on",
        description="`on`: capture and inject. `shadow`: capture, and count what would be "
        "injected, but change no request, so `include` has no effect. `off`: pass everything "
        "through. A SIGHUP changes it without a restart.",
    )
    include: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether to request `reasoning.encrypted_content` if the client did not. "
        '`auto`: if the request has `"store": false` or the upstream keeps no items. `always`: '
        "on every request with its own history, for zero data retention. `never`: much reasoning "
        "cannot be injected. Not sent to upstreams that ignore it.",
    )
    prompt_cache_key: Literal["off", "conversation"] = Field(
        default="off",
        description="`conversation`: a request without `prompt_cache_key` gets one, the same in "
        "all of its conversation, if the upstream takes it (docs/clients.md). `off`: none.",
    )
    cache_diagnosis: Literal["off", "on"] = Field(
        default="off",
        description="`on`: a request gets the id of the response that it continues, so that the "
        "upstream says why its prompt cache missed (OpenAI from GPT-5.6, Anthropic). `off`: it "
        "does not. See docs/worth.md.",
    )
    heal: Literal["on", "off"] = Field(
        default="on",
        description="`on`: a refused request is sent again, twice at most: with the least edit "
        "that cures it, then as the client wrote it. `off`: every refusal reaches the client.",
    )
    repairs: RepairNames = Field(
        default="duplicates,hollow,foreign,unpaired,learned,dangling",
        description="Repairs before the first attempt, separated by commas, or `none`. "
        "`duplicates`: repeated reasoning. `hollow`: bare ids, if the upstream keeps nothing. "
        "`foreign`: reasoning of another model or account, or refused before. "
        "`unpaired`: reasoning with its id before an item without its own, or the reverse. "
        "`learned`: what cured the conversation before. `dangling`: "
        "reasoning at the end. See docs/healing.md.",
    )
    phase: Literal["on", "off"] = Field(
        default="on",
        description="Responses: whether messages get back a dropped `phase`, `on` or `off`.",
    )
    drop_unanswered: Literal["off", "on"] = Field(
        default="off",
        description="Responses: whether a retry after `No tool output found` leaves out such "
        "calls, and their reasoning (`on`), or not (`off`).",
    )
    chat_rounds: Literal["profile", "all", "current"] = Field(
        default="profile",
        description="Chat Completions: messages that get their reasoning. `all`: every message, so "
        "that prompt caches work. `current`: those after the user's last message, for "
        "fewer tokens. `profile`: as the upstream's profile says.",
    )
    chat_fill: Literal["off", "on"] = Field(
        default="off",
        description="Chat Completions: whether the retry after a demand for unknown reasoning has "
        "an empty `reasoning_content`, or Google's `skip_thought_signature_validator` (`on`), or "
        "not (`off`).",
    )
    messages_drop_block: Literal["off", "on"] = Field(
        default="off",
        description="Messages: whether the retry after a refusal of reasoning of another history "
        "leaves it out (`off`) or asks the API to (`on`, by `drop_block`).",
    )
    gemini_sentinel: Literal["keep", "replace"] = Field(
        default="keep",
        description="Gemini: `keep` a client's `skip_thought_signature_validator`, or `replace` it "
        "by the stored signature.",
    )


class StorePlace(Group):
    """The place where reasoning is kept."""

    heading = "Store"

    store_url: StoreUrl = Field(
        default="memory://",
        repr=False,
        description="Address of the store: `memory://` (lost at a restart, not shared; for a "
        "person, `serve` has a file instead), "
        "`sqlite:///path`, `redis://host:6379/0`, `rediss://` (TLS), `unix:///path`, "
        "`redis+sentinel://host,host/service` or `redis+cluster://host,host`. See docs/stores.md.",
    )
    store_password: Secret = Field(
        default=SecretStr(""),
        description="Password for Redis; overrides the password in `store_url`.",
    )
    store_password_file: File = Field(
        default="",
        description="File with the password for Redis, read again for each new connection: the "
        "password may change while the proxy runs. Overrides `store_password`.",
    )
    encryption_keys: EncryptionKeys = Field(
        default=SecretStr(""),
        description="Keys that encrypt stored records (AES-256-GCM): `id:key`, separated by "
        "commas, each key 32 random bytes in base64. The first key encrypts, all decrypt; a "
        "record without its key is lost. Empty: no encryption. To rotate keys, see "
        "docs/stores.md.",
    )
    require_store: bool = Field(
        default=False,
        description="`true`: a start fails if the store cannot be reached. `false`: it fails "
        "only for a fault that cannot pass by itself; else the proxy serves, without replay until "
        "the store is there, and logs `store_failed`.",
    )
    ttl_s: Count = Field(
        default=604_800,  # 7 days
        description="Time that a conversation is kept after its last use. Longer costs memory; a "
        "conversation that is resumed later continues without its stored reasoning.",
    )


class Access(Group):
    """Isolation between tenants, and access for operators."""

    heading = "Tenants and admin port"

    scope_secret: ScopeSecret = Field(
        default=SecretStr(""),
        description="Key of the hash that replaces a client's credential in the store: a long "
        "random text, the same on all replicas. If it changes, stored reasoning is not found "
        "again, unless both are named: `new,old` (docs/data-protection.md). Do not set it by a "
        "flag: flags show in the process list.",
    )
    scope_from: ScopeFrom = Field(
        default="credential",
        description="What separates tenants, by comma, in addition to organization, project, "
        "account and `upstream_url`. `credential`: the credential headers. `claims:tid+oid`: "
        "these claims of a JWT, so that a renewed token keeps its data. `header:x-tenant-id`: a "
        "header that a trusted gateway sets. Hazards of the last two: docs/security.md.",
    )
    admin_listen: Listen = Field(
        default="127.0.0.1:9090",
        description="Address for health, metrics, the inspector and stored conversations, "
        "`host:port`; port `0` picks a free port. Health and metrics have no password: never "
        "open it to the internet.",
    )
    admin_token: Secret = Field(
        default=SecretStr(""),
        description="Bearer token for the inspector, and for listing and deleting conversations. "
        "Empty: on loopback they need no token; on any other address they are off.",
    )


class Process(Group):
    """The shared port, the drain, the log, metrics and traces."""

    heading = "Process"

    reuse_port: bool = Field(
        default=False,
        description="Whether processes on this host share the clients' port (SO_REUSEPORT), one "
        "per core. They need a shared store (`sqlite://` or `redis://`), and each its own "
        "`admin_listen`. A port that another process of this user shares is then no error.",
    )
    drain_grace_s: float = Field(
        default=5.0,
        ge=0,
        allow_inf_nan=False,
        description="Time after SIGTERM in which new requests are still accepted, because load "
        "balancers take time to notice. Ctrl-C has no grace.",
    )
    drain_s: float = Field(
        default=600.0,
        ge=0,
        allow_inf_nan=False,
        description="Time after SIGTERM in which running exchanges may finish. Your platform "
        "must wait longer before it kills the process (`terminationGracePeriodSeconds`).",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="`json`, `text`, or `auto`: text on a terminal, JSON lines elsewhere.",
    )
    log_fields: Literal["default", "gcp", "ecs"] = Field(
        default="default",
        description="Field names in JSON: `default`, `gcp` (Google Cloud Logging) or `ecs` "
        "(Elastic Common Schema).",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Lowest level that is logged: `debug`, `info`, `warning` or `error`. From "
        "`warning` on, only failures are logged.",
    )
    metrics_models: ModelNames = Field(
        default="",
        description="Models for the label `model` of some metrics, separated by commas, 20 at "
        "most; any other is `other` (docs/observability.md).",
    )
    tracing: TracingWay = Field(
        default="off",
        description="`otlp`: spans go to a collector, configured by the `OTEL_*` variables, and "
        "upstream requests carry the proxy's `traceparent`. Needs the `otel` extra "
        "(docs/observability.md). `off`: no tracing.",
    )
