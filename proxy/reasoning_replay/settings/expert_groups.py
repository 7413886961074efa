"""Expert groups: timeouts and limits, whose defaults fit almost every deployment."""

from pydantic import Field

from reasoning_replay.settings.field_types import MIB, Count, Limit, Seconds
from reasoning_replay.settings.groups import Group


class Timeouts(Group):
    """The defaults give a model minutes to think, and the store milliseconds."""

    heading = "Timeouts"
    is_expert = True

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
    idle_timeout_s: Seconds = Field(
        default=75.0,
        description="Longest time on a client connection from one response to the end of the "
        "next request's headers. Keep it longer than clients keep idle connections, or they "
        "reuse closed ones.",
    )
    connection_max_age_s: float = Field(
        default=600.0,
        ge=0,
        allow_inf_nan=False,
        description="Age of a client connection after which its next response closes it, so that "
        "new replicas get a share of busy clients. It is up to a quarter shorter, by chance, and "
        "no stream or WebSocket is cut. `0`: no limit.",
    )
    client_timeout_s: Seconds = Field(
        default=300.0,
        description="Longest time that a client may send nothing of a request body, or read "
        "nothing of a pending response. Then its connection is closed.",
    )
    store_budget_ms: Count = Field(
        default=250,
        description="Longest time that one exchange waits for the store in total. After that, a "
        "lookup counts as empty, and a save continues in the background for up to a second. "
        "Too short for a distant Redis: nothing is injected.",
    )


class TrafficLimits(Group):
    """Each limit is for one process; docs/operations.md lists the errors."""

    heading = "Traffic limits"
    is_expert = True

    max_connections: Count = Field(
        default=4096,
        description="Most client connections of one process; further ones get 503. Each takes "
        "two open files; the process raises its limit on these as far as it may.",
    )
    max_exchanges: Count = Field(
        default=4096,
        description="Most exchanges in flight in one process; further ones get 503. A WebSocket "
        "is one exchange.",
    )
    tenant_max_exchanges: Limit = Field(
        default=0,
        description="Most exchanges in flight of one tenant in one process; further ones get "
        "429. `0`: no limit.",
    )
    body_max_bytes: Limit = Field(
        default=1024 * MIB,
        description="Largest request body, on any path; a larger one gets 413. `0`: no limit. "
        "File uploads are streamed and take no memory.",
    )
    inspect_max_bytes: Count = Field(
        default=64 * MIB,
        description="Largest request that is read for injection, and largest response that is "
        "captured; encoded ones count decoded. A larger one still passes through, unread.",
    )
    inspect_total_max_bytes: Count = Field(
        default=448 * MIB,
        description="Memory for all requests and responses that one process holds for injection "
        "and capture. A request of more than 256 KiB waits up to 10 s for room, or 30 s while the "
        "queue moves; what finds none passes through unread. Processing takes memory in addition "
        "(docs/operations.md).",
    )


class StorageLimits(Group):
    """Limits on stored reasoning and on the local cache."""

    heading = "Storage limits"
    is_expert = True

    conversation_max_bytes: Count = Field(
        default=8 * MIB,
        description="Most bytes of one conversation; its oldest turns are dropped.",
    )
    conversation_max_turns: Count = Field(
        default=1024,
        le=4096,
        description="The same for its turns, 4096 at most. Cold lookups grow with them.",
    )
    store_max_bytes: Count = Field(
        default=256 * MIB,
        description="Most bytes that `memory://` or `sqlite://` keeps; the least recently used "
        "conversations are evicted. With `memory://`, set a container's memory limit well "
        "above this. An SQLite file may be slightly larger.",
    )
    local_max_bytes: Limit = Field(
        default=88 * MIB,
        description="Memory for what one process keeps of conversations, shared fairly by "
        "tenants. A long one (275 KB) takes 0.85 MiB (docs/capacity.md). `0`: none.",
    )
