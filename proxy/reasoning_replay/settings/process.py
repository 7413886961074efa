"""Process settings: the shared port, the drain, the log and traces."""

from typing import Literal

from pydantic import BaseModel, Field

from reasoning_replay.settings.field_types import TracingWay

__all__ = ["ProcessSettings"]


class ProcessSettings(BaseModel, defer_build=True):
    """How the process shares its port, how it ends, and what it writes."""

    reuse_port: bool = Field(
        default=False,
        description="Whether other processes on this host may listen on the clients' port, too "
        "(SO_REUSEPORT): one for each core. They need a store that they share, sqlite:// or "
        "redis://, and each its own admin_listen.",
    )
    drain_grace_s: float = Field(
        default=5.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds after SIGTERM in which new requests are still taken, while others "
        "learn that this replica is going. Ctrl-C has none.",
    )
    drain_s: float = Field(
        default=600.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds that running exchanges get to finish after SIGTERM. Whatever stops "
        "the process (terminationGracePeriodSeconds) must wait longer than this.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="json, text, or auto: text on a terminal, JSON lines elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Least severe level written; above info, no line for each exchange.",
    )
    tracing: TracingWay = Field(
        default="off",
        description="otlp: spans go to a collector, as the variables OTEL_* say, and requests to "
        "upstream carry the proxy's traceparent. It needs reasoning-replay[otel].",
    )
