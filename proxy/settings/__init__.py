"""
Every knob of the proxy: its name, unit, default and hazard. Where it may be set: `sources`.

Read by `proxy.cli`, `proxy.check` and what puts the parts together (`proxy.web.app`,
`proxy.web.parts`, `proxy.web.serve`, `proxy.web.worker`) alone: all below takes plain values.
"""

from typing import Self

from pydantic import ConfigDict, model_validator

from proxy import addresses
from proxy.settings.access import AccessSettings
from proxy.settings.clients import ClientSettings
from proxy.settings.keeping import KeepingSettings
from proxy.settings.replaying import ReplayingSettings
from proxy.settings.running import RunningSettings
from proxy.settings.upstream import UpstreamSettings

__all__ = ["Settings"]


class Settings(  # the last base's fields come first
    RunningSettings,
    AccessSettings,
    KeepingSettings,
    ReplayingSettings,
    ClientSettings,
    UpstreamSettings,
):
    """
    What one process runs with; immutable once it is made.

    It reads its arguments and nothing else, so that tests and embedders are not at the mercy of
    the environment; `load` is the one that looks around.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
        # Its bases are never made by themselves: to have validators built for them takes time.
        defer_build=False,
    )

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.listen == self.admin_listen and addresses.host_and_port(self.listen)[1] != 0:
            raise ValueError("admin_listen: the same address as listen; give it a port of its own")
        return self

    @model_validator(mode="after")
    def _not_itself(self) -> Self:
        for name in ("listen", "admin_listen"):
            if not self.upstream_proxy and addresses.is_at(self.upstream_url, getattr(self, name)):
                raise ValueError(
                    f"upstream_url: that is this proxy itself ({name}), which would ask itself "
                    "without end; name the API behind it, such as https://api.openai.com/v1"
                )
        return self

    @model_validator(mode="after")
    def _shared_store(self) -> Self:
        if self.workers > 1 and self.store_url == "memory://":
            raise ValueError(
                f"workers: {self.workers} processes cannot share memory://, which is each one's "
                "own; use sqlite:///path on one machine, or redis://host:6379/0"
            )
        return self
