"""Client settings: where clients connect, and the limits of what they may use."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from reasoning_replay.settings.field_types import MIB, Count, File, Limit, Listen, Seconds

__all__ = ["ClientSettings"]


class ClientSettings(BaseModel, defer_build=True):
    """What clients may do, and how much memory they may hold."""

    listen: Listen = Field(
        default="127.0.0.1:8080",
        description="host:port for clients; port 0 takes a free one. 0.0.0.0 opens it to the "
        "network: anyone who reaches it reaches the upstream, with their own key.",
    )
    tls_cert_file: File = Field(
        default="",
        description="A PEM file with the certificate, and its chain, that clients are shown; it is "
        "read again when it changes. Empty: plain HTTP.",
    )
    tls_key_file: File = Field(
        default="", description="A PEM file with the key of tls_cert_file, without a password."
    )
    max_connections: Count = Field(
        default=4096,
        description="Connections of clients that one process takes; the next are answered 503. "
        "Each, and its upstream's, is an open file: that limit is raised as far as it goes.",
    )
    max_exchanges: Count = Field(
        default=4096,
        description="Exchanges under way at once in one process, a WebSocket being one; the next "
        "are answered 503. Clients wait a little and try again.",
    )
    tenant_max_exchanges: Limit = Field(
        default=0,
        description="Exchanges under way at once for one tenant in one process; the next are "
        "answered 429. 0: no limit of its own.",
    )
    body_max_bytes: Limit = Field(
        default=1024 * MIB,
        description="Bytes of a request's body, of any kind; more is answered 413. 0: no limit. "
        "Uploads of files pass here too: they are streamed, and hold no memory.",
    )
    head_max_bytes: Count = Field(
        default=64 * 1024,
        description="Bytes of a request's line and headers together; more is answered 431.",
    )
    idle_timeout_s: Seconds = Field(
        default=75.0,
        description="Seconds that a client's connection may take from one answer to the end of the "
        "next request's head. Must be longer than clients keep connections for reuse.",
    )
    client_timeout_s: Seconds = Field(
        default=300.0,
        description="Seconds that a client may be silent during a request's body, or take nothing "
        "of an answer that waits for it, before it is cut off.",
    )
    inspect_max_bytes: Count = Field(
        default=32 * MIB,
        description="Bytes of a request that are read to give reasoning back. A larger request "
        "is streamed through unread; every request in flight may hold this much memory.",
    )
    inspect_total_max_bytes: Count = Field(
        default=512 * MIB,
        description="Bytes of requests that one process holds to read them, all together. While "
        "that is used up, further requests are streamed through unread.",
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

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file, tls_key_file: only one is set; set both or none")
        return self
