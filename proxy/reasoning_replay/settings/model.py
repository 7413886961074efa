"""
Settings model: every setting of the proxy, with its unit, its default and its hazard.

Only `cli`, `check`, `demo` and the wiring in `web` read this model. Everything below takes plain
values. `loader` fills it from flags, environment and file.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from pydantic import ConfigDict, ValidationInfo, field_validator, model_validator

from reasoning_replay.adapters.stores.registry import read_store_url
from reasoning_replay.core.tenancy.scope import read_secrets
from reasoning_replay.settings import units, upstreams, urls
from reasoning_replay.settings.expert_groups import StorageLimits, Timeouts, TrafficLimits
from reasoning_replay.settings.groups import (
    Access,
    Clients,
    Process,
    ReplaySettings,
    StorePlace,
    Upstream,
)

SECRET_MIN: Final = 16  # characters; shorter secrets can be found by brute force


class Settings(  # the last base's fields come first
    StorageLimits,
    TrafficLimits,
    Timeouts,
    Process,
    Access,
    StorePlace,
    ReplaySettings,
    Clients,
    Upstream,
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

    @field_validator(upstreams.FIELD, mode="after")
    @classmethod
    def _with_names(cls, named: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for place, reason in upstreams.faults(named, cls.model_fields):
            raise ValueError(": ".join((*place, reason)))
        return named

    @property
    def by_upstream(self) -> Mapping[str, Self]:
        """
        The settings of each upstream, by its name, as if it were the only one.

        Without `upstreams`, there is one, and its name is "".
        """
        if not self.upstreams:
            return {"": self}
        shared = {name: value for name, value in self if name != upstreams.FIELD}
        return {
            name: self.model_validate(
                shared | {full: own[key] for key, full in upstreams.OWN.items() if key in own}
            )
            for name, own in self.upstreams.items()
        }

    @property
    def upstream_hosts(self) -> Mapping[str, str]:
        """Host names that choose an upstream -> its name."""
        return {
            host: name
            for name, own in self.upstreams.items()
            for host in upstreams.read_hosts(own.get(upstreams.HOSTS, ""))
        }

    @property
    def short_secrets(self) -> list[str]:
        """Names of the secrets that are set and can be found by brute force."""
        given = {
            "scope_secret": read_secrets(self.scope_secret.get_secret_value()),
            "admin_token": (self.admin_token.get_secret_value(),),
        }
        return [name for name, all_of in given.items() if any(map(_is_short, all_of))]

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for fault in self._contradictions():
            raise ValueError(fault)
        if self.upstreams:
            _ = self.by_upstream  # each has its own contradictions
        return self

    def _contradictions(self) -> Iterator[str]:
        """Yield what is wrong with settings that are right one by one, with the way out."""
        if self.upstreams and "upstream_url" in self.model_fields_set:
            yield "upstream_url: upstreams is set as well; keep one of them"
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            yield "tls_cert_file, tls_key_file: only one is set; set both or none"
        if self.listen == self.admin_listen and urls.host_and_port(self.listen)[1] != 0:
            yield "admin_listen: this is also the address of listen; use another port"
        for name in ("listen", "admin_listen"):
            if not self.upstream_proxy and urls.is_at(self.upstream_url, getattr(self, name)):
                yield (
                    f"upstream_url: this is the proxy's own address ({name}), so it would call "
                    "itself without end; use the API's, such as https://api.openai.com/v1"
                )
        if self.prompt_cache_key != "off" and self.heal == "off":
            yield (
                "prompt_cache_key: an upstream may refuse it, and heal: off passes that on to the "
                "client; use heal: on, or prompt_cache_key: off"
            )
        if self.cache_diagnosis == "on" and self.heal == "off":
            yield (
                "cache_diagnosis: an upstream may refuse it, and heal: off passes that on to the "
                "client; use heal: on, or cache_diagnosis: off"
            )
        if self.reuse_port and read_store_url(self.store_url).is_table:
            yield (
                f"reuse_port: processes that share a port cannot share {self.store_url}, which "
                "belongs to one process; use sqlite:///path on one machine, or redis://host:6379/0"
            )


def _is_short(secret: str) -> bool:
    return 0 < len(secret) < SECRET_MIN
