"""Access settings: how tenants are told apart, and who may use the admin port."""

from pydantic import BaseModel, Field, SecretStr

from reasoning_replay.settings.field_types import Listen, ScopeFrom, Secret

__all__ = ["AccessSettings"]


class AccessSettings(BaseModel, defer_build=True):
    """How tenants are told apart, and the admin port."""

    scope_secret: Secret = Field(
        default=SecretStr(""),
        description="Key of the hash that stands for a client's credential in the store. Must be "
        "the same on all replicas: when it changes, what was kept is not found again. "
        "Set it by the environment or the file; a flag shows in the process list.",
    )
    scope_from: ScopeFrom = Field(
        default="credential",
        description="What tells tenants apart, by comma: credential (the credential headers), "
        "claims:NAME+NAME (those claims of a JWT instead of the whole of it, so that its renewal "
        "loses nothing; its signature is upstream's to check, which must refuse strangers), "
        "header:NAME (a header that a gateway in front sets, and clients cannot).",
    )
    admin_listen: Listen = Field(
        default="127.0.0.1:9090",
        description="host:port for health, metrics and what is kept; port 0 takes a free one. "
        "Health and metrics have no password: never open it to the internet.",
    )
    admin_token: Secret = Field(
        default=SecretStr(""),
        description="Bearer token that listing and deleting conversations on the admin port, and "
        "its inspector, ask for. Empty: they need none on loopback, and are off elsewhere.",
    )
