"""Process settings: the shared port, the drain, the log and traces."""

from typing import Literal

from pydantic import BaseModel, Field

from reasoning_replay.settings.field_types import TracingWay

__all__ = ["ProcessSettings"]


class ProcessSettings(BaseModel, defer_build=True):
    """The shared port, the drain, the log and traces."""

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
    tracing: TracingWay = Field(
        default="off",
        description="`otlp`: spans go to a collector, configured by the `OTEL_*` variables, and "
        "upstream requests carry the proxy's `traceparent`. Needs the `otel` extra "
        "(docs/observability.md). `off`: no tracing.",
    )
