"""Access settings: how tenants are separated, and who may use the admin port."""

from typing import Final

from pydantic import BaseModel, Field, SecretStr

from reasoning_replay.settings.field_types import Listen, ScopeFrom, Secret

__all__ = ["SECRET_MIN", "AccessSettings"]

SECRET_MIN: Final = 16  # characters; shorter secrets can be found by brute force


class AccessSettings(BaseModel, defer_build=True):
    """Tenants and the admin port."""

    scope_secret: Secret = Field(
        default=SecretStr(""),
        description="Key of the hash that replaces a client's credential in the store: a long "
        "random text, the same on all replicas. If it changes, stored reasoning is not found "
        "again. Do not set it by a flag: flags show in the process list.",
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

    @property
    def short_secrets(self) -> list[str]:
        """Names of the secrets that are set and can be found by brute force."""
        given = {"scope_secret": self.scope_secret, "admin_token": self.admin_token}
        return [name for name, secret in given.items() if 0 < len(secret) < SECRET_MIN]
