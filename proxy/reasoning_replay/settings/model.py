"""
Settings model: every setting of the proxy, with its unit, its default and its hazard.

Only `cli`, `check`, `demo` and the wiring in `web` read this model. Everything below takes plain
values. `loader` fills it from flags, environment and file.
"""

from typing import Self

from pydantic import ConfigDict, ValidationInfo, field_validator, model_validator

from reasoning_replay.settings import units, urls
from reasoning_replay.settings.access import AccessSettings
from reasoning_replay.settings.clients import ClientSettings
from reasoning_replay.settings.process import ProcessSettings
from reasoning_replay.settings.replay import ReplayPolicySettings
from reasoning_replay.settings.storage import StorageSettings
from reasoning_replay.settings.upstream import UpstreamSettings

__all__ = ["Settings"]


class Settings(  # the last base's fields come first
    ProcessSettings,
    AccessSettings,
    StorageSettings,
    ReplayPolicySettings,
    ClientSettings,
    UpstreamSettings,
):
    """
    All settings of one process; immutable.

    The constructor reads its arguments only, never the environment; `load` does that. So tests and
    embedding programs get exactly the settings that they pass.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
        # The bases are never instantiated alone; building their validators would take time.
        defer_build=False,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _with_unit(cls, value: object, info: ValidationInfo) -> object:
        return units.read(info.field_name or "", value)

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.listen == self.admin_listen and urls.host_and_port(self.listen)[1] != 0:
            raise ValueError("admin_listen: this is also the address of listen; use another port")
        return self

    @model_validator(mode="after")
    def _not_itself(self) -> Self:
        for name in ("listen", "admin_listen"):
            if not self.upstream_proxy and urls.is_at(self.upstream_url, getattr(self, name)):
                raise ValueError(
                    f"upstream_url: this is the proxy's own address ({name}), so it would call "
                    "itself without end; use the API's, such as https://api.openai.com/v1"
                )
        return self

    @model_validator(mode="after")
    def _shared_store(self) -> Self:
        if self.reuse_port and self.store_url == "memory://":
            raise ValueError(
                "reuse_port: processes that share a port cannot share memory://, which belongs "
                "to one process; use sqlite:///path on one machine, or redis://host:6379/0"
            )
        return self
