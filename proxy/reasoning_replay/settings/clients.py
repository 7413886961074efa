"""Client settings: the address for clients, and limits on traffic and memory."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from reasoning_replay.settings.field_types import MIB, Count, File, Limit, Listen, Seconds

__all__ = ["ClientSettings"]


class ClientSettings(BaseModel, defer_build=True):
    """The address for clients, TLS, timeouts, and limits on traffic."""

    listen: Listen = Field(
        default="127.0.0.1:8080",
        description="Address for clients, `host:port`; IPv6 is `[::1]:8080`, and port `0` picks "
        "a free port. `0.0.0.0` opens it to the network: anyone who can connect reaches the "
        "upstream, with their own key.",
    )
    tls_cert_file: File = Field(
        default="",
        description="PEM file with the certificate for clients, and its chain. It is read again "
        "when it changes. Empty: plain HTTP.",
    )
    tls_key_file: File = Field(
        default="", description="PEM file with the private key of `tls_cert_file`, not encrypted."
    )
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
    idle_timeout_s: Seconds = Field(
        default=75.0,
        description="Longest time on a client connection from one response to the end of the "
        "next request's headers. Keep it longer than clients keep idle connections, or they "
        "reuse closed ones.",
    )
    client_timeout_s: Seconds = Field(
        default=300.0,
        description="Longest time that a client may send nothing of a request body, or read "
        "nothing of a pending response. Then its connection is closed.",
    )
    inspect_max_bytes: Count = Field(
        default=32 * MIB,
        description="Largest request that is read for injection, and largest response that is "
        "captured; encoded ones count decoded. A larger one still passes through, unread.",
    )
    inspect_total_max_bytes: Count = Field(
        default=448 * MIB,
        description="Memory for all requests and responses that one process holds for injection "
        "and capture. A request of more than 256 KiB waits up to 10 s for room; what finds none "
        "passes through unread. Processing takes memory in addition (docs/operations.md).",
    )

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file, tls_key_file: only one is set; set both or none")
        return self
